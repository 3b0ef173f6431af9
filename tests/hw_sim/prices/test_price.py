"""Prices over a parameter: exact at rows, monotone between, wider beyond; bad ones are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.price import Price, PriceFunction, PriceTable
from hw_sim.prices.technology import Technology, load_technologies, shipped_technologies

NUMBER = st.floats(1e-3, 1e3)


def row(value: float, status: str = "read", source: str = "a book") -> Price:
    return Price("sram", value, value / 2, 3 * value, "pJ", "45 nm", source, status)


@st.composite
def tables(draw: st.DrawFn, beyond: str = "refuse") -> PriceTable:
    at = sorted(draw(st.lists(NUMBER, min_size=2, max_size=5, unique_by=lambda x: round(x, 3))))
    values = sorted(draw(st.lists(NUMBER, min_size=len(at), max_size=len(at))))
    between = draw(st.sampled_from(["log-log", "log-linear"] + ["linear"] * (beyond == "refuse")))
    return PriceTable(tuple(at), tuple(map(row, values)), between, beyond)


@given(tables(), st.floats(0, 1), st.floats(0, 1))
def test_a_table_is_exact_at_its_rows_and_rises_between_them(
    table: PriceTable, a: float, b: float
) -> None:
    for at, price in zip(table.at, table.rows, strict=True):
        assert table.price("weight_bits", at) == price
    first, last = table.at[0], table.at[-1]
    low, high = (first + share * (last - first) for share in sorted((a, b)))
    cheap, dear = (table.price("weight_bits", min(max(x, first), last)) for x in (low, high))
    assert cheap.value <= dear.value * (1 + 1e-9)
    for price in (cheap, dear):
        assert table.rows[0].value * (1 - 1e-9) <= price.value <= table.rows[-1].value * (1 + 1e-9)
        assert price.low <= price.value <= price.high


@given(tables("extend"), st.floats(0.1, 5.0))
def test_beyond_the_rows_the_range_widens_by_what_the_value_moved(
    table: PriceTable, factor: float
) -> None:
    for a, b, edge in ((1, 0, table.rows[0]), (-2, -1, table.rows[-1])):
        x = table.at[b] * (table.at[b] / table.at[a]) ** factor
        if table.between == "log-linear":
            x = table.at[b] + factor * (table.at[b] - table.at[a])
        found = table.price("weight_bits", x)
        moved = max(found.value / edge.value, edge.value / found.value)
        by_hand = (edge.value / table.rows[a].value) ** factor
        assert found.value == pytest.approx(edge.value * by_hand)
        assert found.low == pytest.approx(found.value / 2 / moved)
        assert found.high == pytest.approx(found.value * 3 * moved)
        assert found.source.endswith("extended beyond the table")


def test_a_table_is_not_extended_without_end() -> None:
    table = PriceTable((6, 8), (row(1.0), row(4.0)), "log-linear", "extend")
    assert table.price("state_bits", 24).value == pytest.approx(4.0**9)
    with pytest.raises(TechnologyError, match="'sram' is not extended from state_bits 6 to 8 as f"):
        table.price("state_bits", 68)


def test_beyond_the_rows_a_table_may_refuse() -> None:
    table = PriceTable((4, 8), (row(1.0), row(2.0)), "log-log", "refuse")
    with pytest.raises(TechnologyError, match="'sram' goes from weight_bits 4 to 8, not to 9"):
        table.price("weight_bits", 9)


def test_a_price_between_two_rows_is_no_surer_than_either() -> None:
    rows = row(1.0, "ran", "one"), row(4.0, "recalled", "two")
    found = PriceTable((1, 100), rows, "log-log", "refuse").price("weight_bits", 10)
    assert (found.value, found.status, found.source) == (pytest.approx(2.0), "recalled", "one; two")
    linear = PriceTable((1, 3), rows, "linear", "refuse").price("weight_bits", 2)
    assert linear.value == pytest.approx(2.5)
    bits = PriceTable((1, 3), rows, "log-linear", "refuse").price("weight_bits", 2)
    assert bits.value == pytest.approx(2.0)


def test_a_part_that_stays_is_added_and_words_scale_the_sum() -> None:
    table = PriceTable((4, 8), (row(1.0), row(2.0)), "log-log", "refuse")
    function = PriceFunction("mac", table, "weight_bits", replace(row(10.0), status="recalled"))
    parameters = {"weight_bits": 8, "state_bits": 4, "reference_bits": 8}
    found = function.at(parameters)
    assert (found.name, found.value, found.low, found.high) == ("mac", 12.0, 6.0, 36.0)
    assert found.status == "recalled"
    for scales, factor in (("weight", 1), ("state", 0.5), ("product", 0.5), ("trace", 2)):
        assert replace(function, scales=scales).at(parameters).value == pytest.approx(12 * factor)
    assert [p.name for p in function.listed()] == [
        "mac at 4 weight_bits", "mac at 8 weight_bits", "sram",
    ]  # fmt: skip


TABLE = 'unit = "pJ"\nnode = "45 nm"\nbetween = "log-log"\nbeyond = "refuse"\n'
ROW = '{ at = 8, value = 1, low = 1, high = 2, source = "a book", status = "ran" }'
ROWS = f"rows = [ {ROW}, {ROW.replace('at = 8', 'at = 16')} ]\n"
USE = 'mac = { table = "mul", over = "weight_bits" }'


def load(tmp_path: Path, table: str = TABLE + ROWS, use: str = USE) -> Technology:
    path = tmp_path / "my.toml"
    text = f'[mine]\ntitle = "Mine"\n[mine.tables.mul]\n{table}\n[mine.energy]\n{use}\n'
    path.write_text(text)
    return load_technologies(path)["mine"]


def test_a_table_is_read_in_si_units(tmp_path: Path) -> None:
    found = load(tmp_path).price_at("energy", "mac", {"weight_bits": 8})
    assert (found.value, found.high, found.unit) == (1e-12, 2e-12, "pJ")
    with pytest.raises(TechnologyError, match=r"'mine', energy: the table of 'mul' goes from"):
        load(tmp_path).price_at("energy", "mac", {"weight_bits": 4})


@pytest.mark.parametrize(
    ("table", "use", "message"),
    [
        ("", USE, "table 'mul' has no unit"),
        (TABLE, USE, "table 'mul' has no rows"),
        (TABLE + "rows = 3", USE, "has rows 3, expected a list of two or more"),
        (TABLE + f"rows = [ {ROW} ]", USE, "expected a list of two or more"),
        (TABLE + f"rows = [ {ROW}, {ROW} ]", USE, "row 2 has at 8 after 8: not in order"),
        (TABLE + "rows = [ 1, 2 ]", USE, "row 1 is 1, expected a table with at"),
        (TABLE + ROWS.replace(', source = "a book"', ""), USE, "row 1 has no source"),
        (TABLE + ROWS.replace('"ran"', '"sure"'), USE, "row 1 has status 'sure'; known: ran"),
        (TABLE + ROWS.replace("high = 2", "high = 0.5"), USE, "row 1 has low 1.0, value 1.0, high"),
        (TABLE + ROWS.replace("value = 1, low = 1", "value = 0, low = 0"), USE, "has a zero"),
        (TABLE.replace("pJ", "kg") + ROWS, USE, "table 'mul' has unit 'kg'; known: fJ"),
        (TABLE.replace("log-log", "cubic") + ROWS, USE, "has between 'cubic'; known: log-log"),
        (TABLE.replace("refuse", "guess") + ROWS, USE, "has beyond 'guess'; known: refuse, ext"),
        (
            TABLE.replace("log-log", "linear").replace("refuse", "extend") + ROWS,
            USE,
            "extends a straight line, which may fall below zero",
        ),
        (TABLE.replace("pJ", "ns") + ROWS, USE, "energy of 'mac' has a table in ns; known: fJ"),
        (TABLE + ROWS, USE.replace('"mul"', '"div"'), "has table 'div'; known: mul"),
        (TABLE + ROWS, USE.replace('"weight_bits"', '"age"'), "has over 'age'; known: weight_bi"),
        (TABLE + ROWS, USE.replace(" }", ", value = 3 }"), "has the unknown field 'value'"),
        (TABLE + ROWS, USE.replace(" }", ", plus = 3 }"), "plus is 3, expected a table"),
        (TABLE + ROWS, USE.replace(" }", ", plus = {} }"), "plus has no value"),
    ],
)
def test_a_bad_table_gets_one_sentence(tmp_path: Path, table: str, use: str, message: str) -> None:
    with pytest.raises(TechnologyError, match=message):
        load(tmp_path, table, use)


def test_shipped_tables_rise_and_say_how_sure_each_row_is() -> None:
    for technology in shipped_technologies().values():
        for group in technology.prices.values():
            for price in group.values():
                rows = price.listed()
                assert all(row.source and row.status for row in rows)
                if isinstance(price, PriceFunction):
                    values = [row.value for row in price.table.rows]
                    assert values == sorted(values)
                    assert price.table.beyond == "extend"
