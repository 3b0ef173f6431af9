"""Wires: Kirchhoff's law judges the closed form, and ngspice judges Kirchhoff's law."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model.builders import layered
from engine.model.params import initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.wires import column_currents, lines_of, see_pairs, seen_conductances

OFF = 1 / 15
"""Of the pairs that the table was measured with."""


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray, float]:
    """Return cells and the resistance of a segment."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return rng.random(shape) * (rng.random(shape) < 0.9), draw(st.floats(1e-6, 0.3))


def effective(cells: np.ndarray, resistance: float) -> np.ndarray:
    return column_currents(cells, resistance, np.eye(len(cells)))


def netlist(cells: np.ndarray, resistance: float, voltages: np.ndarray) -> str:
    """The same circuit as text: an amplifier is a source of 0 V that measures its current."""
    rows, columns = cells.shape
    lines = ["crossbar"]
    for i in range(rows):
        lines.append(f"Vin{i} r{i}_0 0 DC {voltages[i]:.17g}")
        for j in range(columns):
            lines.append(f"Rr{i}_{j} r{i}_{j} r{i}_{j + 1} {resistance:.17g}")
            lines.append(f"Rg{i}_{j} r{i}_{j + 1} c{i}_{j} {1.0 / cells[i, j]:.17g}")
            lines.append(f"Rc{i}_{j} c{i}_{j} c{i + 1}_{j} {resistance:.17g}")
    lines += [f"Vout{j} c{rows}_{j} 0 DC 0" for j in range(columns)]
    shown = [f"print i(Vout{j})" for j in range(columns)]
    return "\n".join([*lines, ".control", "set numdgt=16", "op", *shown, ".endc", ".end", ""])


@pytest.mark.skipif(
    not shutil.which("ngspice"),
    reason="ngspice is missing, which judges the nodal solve; install the package ngspice.",
)
@pytest.mark.parametrize(
    ("rows", "columns", "resistance"), [(1, 1, 0.5), (4, 4, 1e-2), (3, 7, 1e-4), (8, 5, 0.2)]
)
def test_ngspice_finds_the_same_currents(
    rows: int, columns: int, resistance: float, tmp_path: Path
) -> None:
    rng = np.random.default_rng(rows)
    cells, voltages = rng.uniform(OFF, 1.0, (rows, columns)), rng.uniform(-1.0, 1.0, rows)
    file = tmp_path / "crossbar.cir"
    file.write_text(netlist(cells, resistance, voltages), encoding="ascii")
    run = subprocess.run(
        ["ngspice", "-b", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    told = [line.split("=")[1] for line in run.stdout.splitlines() if line.startswith("i(vout")]
    found = column_currents(cells, resistance, voltages[None])[0]
    np.testing.assert_allclose(found, np.array(told, float), rtol=0, atol=1e-9 * abs(found).max())


# Of random pairs at random inputs, over the signal without wires: what the circuit loses, and how
# far the closed form is off. A small array scatters: of 4 x 4 the mean of many is compared.
MEASURED = [
    (4, 1e-2, 0.096, 0.0014, 0.1),
    (64, 1e-5, 0.0157, None, 0.03),
    (64, 1e-4, 0.139, 0.0053, 0.03),
    (128, 1e-4, 0.40, 0.037, 0.03),
    (256, 1e-5, 0.205, None, 0.03),
]


def losses(size: int, resistance: float, seed: int) -> tuple[float, float]:
    """Return the loss, and the error of the closed form, over the signal without wires."""
    rng = np.random.default_rng(seed)
    share, inputs = rng.uniform(-1.0, 1.0, (size, size)), rng.uniform(-1.0, 1.0, (40, size))
    cells = OFF + (1.0 - OFF) * (0.5 + 0.5 * np.stack([share, -share]))
    ideal = inputs @ (cells[0] - cells[1])
    solved = np.subtract(*(column_currents(sign, resistance, inputs) for sign in cells))
    closed = inputs @ np.subtract(*(seen_conductances(sign, resistance) for sign in cells))
    gaps = (np.linalg.norm(found - solved) / np.linalg.norm(ideal) for found in (ideal, closed))
    loss, error = map(float, gaps)
    return loss, error


@pytest.mark.parametrize(("size", "resistance", "loss", "off", "scatter"), MEASURED)
def test_wires_take_what_was_measured(
    size: int, resistance: float, loss: float, off: float | None, scatter: float
) -> None:
    draws = [losses(size, resistance, seed) for seed in range(100 if size < 10 else 1)]
    found, error = np.mean(draws, axis=0)
    assert found == pytest.approx(loss, rel=scatter)
    assert error < 0.3 * found**2  # the size of what the closed form leaves out
    if off is not None:
        assert error == pytest.approx(off, rel=max(scatter, 0.05))


def test_the_closed_form_cell_by_cell() -> None:
    """Drop over every segment that a cell shares with another, from the definition."""
    cells, resistance = np.random.default_rng(1).random((3, 5)), 0.07
    found = seen_conductances(cells, resistance)
    for i in range(3):
        for j in range(5):
            drop = sum((min(j, k) + 1) * cells[i, k] for k in range(5))
            drop += sum((3 - max(i, k)) * cells[k, j] for k in range(3))
            assert found[i, j] == pytest.approx(cells[i, j] / (1 + resistance * drop), rel=1e-12)


@given(arrays())
def test_without_wires_nothing_is_lost(array: tuple[np.ndarray, float]) -> None:
    cells, _ = array
    np.testing.assert_array_equal(effective(cells, 0.0), cells)
    np.testing.assert_array_equal(seen_conductances(cells, 0.0), cells)
    np.testing.assert_allclose(effective(cells, 1e-9), cells, atol=1e-6)


@given(arrays())
def test_more_wire_takes_more_current(array: tuple[np.ndarray, float]) -> None:
    """Of all columns together, all rows at one voltage: Rayleigh's law of any circuit."""
    cells, resistance = array
    for see in (effective, seen_conductances):
        short, long = see(cells, resistance).sum(), see(cells, 2.0 * resistance).sum()
        assert long <= short + 1e-12
        assert short <= cells.sum() + 1e-12


@given(st.floats(1e-6, 0.3), st.floats(0.01, 1.0))
def test_a_larger_array_loses_a_larger_share(resistance: float, level: float) -> None:
    for see in (effective, seen_conductances):
        shares = [
            see(np.full((n, n), level), resistance).sum() / (level * n * n) for n in (1, 2, 5, 9)
        ]
        assert (np.diff(shares) < 0.0).all()


@given(arrays(), st.integers(0, 99))
def test_currents_are_linear_in_the_inputs(array: tuple[np.ndarray, float], seed: int) -> None:
    cells, resistance = array
    inputs = np.random.default_rng(seed).normal(size=(3, len(cells)))
    found = column_currents(cells, resistance, inputs)
    np.testing.assert_allclose(found, inputs @ effective(cells, resistance), atol=1e-10)


@given(arrays())
def test_an_array_is_the_same_in_both_directions(array: tuple[np.ndarray, float]) -> None:
    """Reciprocity: columns driven where they were heard, rows heard where they were driven."""
    cells, resistance = array
    turned = cells.T[::-1, ::-1]  # the amplifier's end of a column becomes the driver's of a row
    for see in (effective, seen_conductances):
        np.testing.assert_allclose(
            see(turned, resistance)[::-1, ::-1].T, see(cells, resistance), atol=1e-10
        )


@given(arrays())
def test_the_closed_form_is_right_to_first_order(array: tuple[np.ndarray, float]) -> None:
    """Halving the resistance quarters the error."""
    cells, _ = array
    errors = [np.abs(effective(cells, r) - seen_conductances(cells, r)).max() for r in (2e-5, 1e-5)]
    assert errors[1] <= 0.26 * errors[0] + 1e-11


@given(arrays(), st.integers(1, 4))
def test_both_cells_of_a_pair_have_wires_alike(
    array: tuple[np.ndarray, float], height: int
) -> None:
    """Exchanged, they turn the current round and leave its noise as it is."""
    cells, resistance = array
    lines = lines_of(cells.shape, (height, 3), OFF, resistance, loudness=1.0)
    found = []
    for pairs in (np.stack([cells, 1.0 - cells]), np.stack([1.0 - cells, cells])):
        seen, loud = np.empty(cells.size), np.empty(cells.size)
        see_pairs(pairs.reshape(2, -1), 0, cells.shape, lines, seen, loud, 0)
        found.append((seen, loud))
    (seen, loud), (turned, alike) = found
    np.testing.assert_array_equal(turned, -seen)
    np.testing.assert_allclose(alike, loud, rtol=1e-14)


def test_a_chip_reads_through_its_wires_in_both_directions() -> None:
    """Arrays of 64 x 48 that lose a tenth: its currents are those of the circuit to 0.6 %."""
    network = layered((64, 48, 64, 3))
    params = initial_params(network, np.random.default_rng(0), np.float64)
    chip = CrossbarBackend(network, params, CrossbarConfig(15.0, wire_resistance=1e-4))
    rng = np.random.default_rng(1)
    x, state = rng.uniform(-1, 1, (20, 64)), rng.uniform(-0.5, 0.5, (20, network.units))
    clamped = chip.clamp(x)
    moved = chip.settle(clamped, relaxation=Relaxation(1, 0.0), start=state).state
    heard = np.arctanh(moved) - clamped.drive[0]
    into, up = [name for name, block in network.blocks.items() if len(block.shape) == 2][:2]
    low, high = state[:, :48], state[:, 48:]
    for found, sent, name, back in (
        (clamped.drive[0][:, :48], x, into, False),
        (heard[:, 48:], low, up, False),
        (heard[:, :48], high, up, True),
    ):
        share = params[name] / chip.config.largest_weight
        cells = OFF + (1.0 - OFF) * (0.5 + 0.5 * np.stack([share, -share]))
        block = chip.config.weight_range * np.subtract(*(effective(sign, 1e-4) for sign in cells))
        ideal, true = (sent @ (held.T if back else held) for held in (params[name], block))
        assert np.linalg.norm(true - ideal) > 0.08 * np.linalg.norm(ideal)
        assert np.linalg.norm(true - found) < 0.006 * np.linalg.norm(ideal)


@pytest.mark.parametrize(
    ("cells", "resistance", "voltages", "message"),
    [
        (np.ones(3), 0.1, np.ones((1, 3)), r"cells have shape \(3,\), expected rows and columns"),
        (np.full((2, 2), np.nan), 0.1, np.ones((1, 2)), "not finite or below zero"),
        (-np.ones((2, 2)), 0.1, np.ones((1, 2)), "not finite or below zero"),
        (np.ones((2, 2)), -0.1, np.ones((1, 2)), "resistance -0.1, expected 0 or more"),
        (np.ones((2, 3)), 0.1, np.ones((1, 3)), r"shape \(1, 3\), expected \(reads, 2\)"),
    ],
)
def test_what_is_no_array_is_refused(
    cells: np.ndarray, resistance: float, voltages: np.ndarray, message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        column_currents(cells, resistance, voltages)


def test_a_tile_that_is_none_is_refused() -> None:
    with pytest.raises(EngineError, match=r"a tile has the size \(-1, 2\), expected 0 or more"):
        seen_conductances(np.ones((2, 2)), 0.1, (-1, 2))
