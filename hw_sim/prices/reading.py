"""Read prices from the tables of a technology file, or refuse them in one sentence."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.errors import shown
from hw_sim.events import KINDS, WAITS
from hw_sim.prices.checks import (
    TechnologyError,
    check_choice,
    check_known,
    check_number,
    check_table,
    check_words,
    listed,
)
from hw_sim.prices.price import (
    BETWEEN,
    BEYOND,
    PARAMETERS,
    SCALES,
    STATUSES,
    Price,
    PriceFunction,
    PriceTable,
)

UNITS = {
    "energy": {"fJ": 1e-15, "pJ": 1e-12, "nJ": 1e-9, "uJ": 1e-6},
    "latency": {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3},
    "power": {"pW": 1e-12, "nW": 1e-9, "uW": 1e-6, "mW": 1e-3, "W": 1.0},
    "area": {"um2": 1e-12, "mm2": 1e-6},
    "endurance": {"writes": 1.0},
}
"""Of each section: units, and what they are in joules, seconds, watts, square metres and writes."""
ALL_UNITS = {unit: scale for units in UNITS.values() for unit, scale in units.items()}
ENTRIES = {
    "energy": tuple(kind for kind in KINDS if kind not in WAITS),
    "latency": KINDS,
    "power": ("chip", "neuron", "memory_bit", "cell", "converter", "tile", "limit"),
    "area": ("neuron", "memory_bit", "cell", "converter", "tile"),
    "endurance": ("weight_write",),
}
RANGE = ("value", "low", "high", "source", "status")
FIELDS = ("value", "low", "high", "unit", "node", "source", "status")
OWN_FIELDS = {"energy": ("scales",)}
"""Of the prices of one section."""


def read_price(
    where: str, section: str, entry: str, fields: Any, tables: Mapping[str, PriceTable]
) -> Price | PriceFunction:
    """Read a fixed price, or one that is a table over a parameter."""
    if entry not in ENTRIES[section]:
        known = listed(entry, ENTRIES[section])
        raise TechnologyError(f"{where}: there is no such event; {known}")
    check_table(where, fields, "with value, unit, source")
    check_choice(where, "scales", fields.get("scales", "none"), SCALES)
    own = OWN_FIELDS.get(section, ())
    if "table" in fields:
        check_known(where, "field", fields, ("table", "over", "plus", *own))
        return _function(where, section, entry, fields, tables)
    check_known(where, "field", fields, (*FIELDS, *own))  # what is misspelt is missing, too
    check_fields(where, fields, FIELDS)
    check_choice(where, "unit", fields["unit"], tuple(UNITS[section]))
    check_words(where, "node", fields["node"])
    price = _ranged(where, entry, fields, fields["unit"], fields["node"])
    if section == "endurance" and price.value == 0:
        raise TechnologyError(f"{where} has value 0, expected more: no cell fails unwritten.")
    return replace(price, scales=fields.get("scales", "none"))


def read_table(where: str, name: str, table: Any) -> PriceTable:
    """Read rows of prices over a parameter."""
    check_table(where, table, "with rows")
    fields = ("unit", "node", "between", "beyond", "rows")
    check_known(where, "field", table, fields)
    check_fields(where, table, fields)
    for field, known in (("unit", tuple(ALL_UNITS)), ("between", BETWEEN), ("beyond", BEYOND)):
        check_choice(where, field, table[field], known)
    check_words(where, "node", table["node"])
    if table["between"] == "linear" and table["beyond"] == "extend":
        raise TechnologyError(f"{where} extends a straight line, which may fall below zero.")
    rows = table["rows"]
    if not isinstance(rows, list) or len(rows) < 2:
        raise TechnologyError(f"{where} has rows {shown(rows)}, expected a list of two or more.")
    at, prices = [], []
    for k, row in enumerate(rows, start=1):
        place = f"{where}, row {k}"
        check_table(place, row, "with at, value, source")
        check_known(place, "field", row, ("at", *RANGE))
        check_fields(place, row, ("at", *RANGE))
        at.append(check_number(place, "at", row["at"]))
        prices.append(_ranged(place, name, row, table["unit"], table["node"]))
        if prices[-1].low == 0 or at[-1] == 0:
            raise TechnologyError(f"{place} has a zero, expected more: rows are logarithmic.")
        if k > 1 and not at[-2] < at[-1]:
            raise TechnologyError(f"{place} has at {at[-1]:g} after {at[-2]:g}: not in order.")
    return PriceTable(tuple(at), tuple(prices), table["between"], table["beyond"])


def check_fields(where: str, table: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Refuse a table that lacks a field."""
    for name in names:
        if name not in table:
            raise TechnologyError(f"{where} has no {name}.")


def _function(
    where: str,
    section: str,
    entry: str,
    fields: Mapping[str, Any],
    tables: Mapping[str, PriceTable],
) -> PriceFunction:
    check_choice(where, "table", fields["table"], tuple(tables) or ("none is stated",))
    check_choice(where, "over", fields.get("over"), PARAMETERS)
    table, plus = tables[fields["table"]], None
    row = table.rows[0]
    if row.unit not in UNITS[section]:
        known = ", ".join(UNITS[section])
        raise TechnologyError(f"{where} has a table in {row.unit}; known: {known}.")
    if "plus" in fields:
        place = f"{where}, plus"
        check_table(place, fields["plus"], "with value, source")
        check_known(place, "field", fields["plus"], RANGE)
        check_fields(place, fields["plus"], RANGE)
        plus = _ranged(place, f"{entry}, fixed part", fields["plus"], row.unit, row.node)
    return PriceFunction(entry, table, fields["over"], plus, fields.get("scales", "none"))


def _ranged(where: str, name: str, fields: Mapping[str, Any], unit: str, node: str) -> Price:
    """Read value, low and high with their source and status."""
    check_choice(where, "status", fields["status"], STATUSES)
    check_words(where, "source", fields["source"])
    low, value, high = (check_number(where, end, fields[end]) for end in ("low", "value", "high"))
    if not low <= value <= high:
        raise TechnologyError(f"{where} has low {low}, value {value}, high {high}: not in order.")
    if low == 0 and value > 0:
        raise TechnologyError(f"{where} has low 0, expected more: its range is logarithmic.")
    price = Price(name, value, low, high, unit, node, fields["source"], fields["status"])
    return price.times(ALL_UNITS[unit])
