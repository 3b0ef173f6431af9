"""Wires of a crossbar: what a cell looks like through the resistance of its lines.

Cells `g (rows, columns)` join row lines to column lines. A row is driven at its left end, beside
column 0; a column ends in an amplifier that holds it at zero, below the last row. Conductances are
in units of `g_on`, and `resistance` is that of one segment of wire, between two cells or between an
end and the cell beside it, in units of `1 / g_on`.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from engine.arrays import FloatArray, IntArray
from engine.border import checked
from engine.errors import EngineError
from hw_sim.chips.host_cores import over_cores, over_pieces
from hw_sim.chips.kernel_arguments import Carried, Lines
from hw_sim.chips.wire_kernels import see_piece, see_tiles, sum_piece

PAIR = 16
"""Multiply-adds that take as long as one pair of cells: it has two divisions."""


@checked
def seen_conductances(
    cells: FloatArray, resistance: float, tile: tuple[int, int] = (0, 0)
) -> FloatArray:
    """Return what each cell adds to the current of its column for a unit voltage on its row.

        g_ij / (1 + r (sum_j' min(j, j') g_ij' + sum_i' min(i, i') g_i'j))

    `j` and `i` count the segments to driver and to amplifier. The currents of all cells drop over
    the segments that they share, taken to be those of cells without wires: first order in `r`.
    O(cells). `column_currents` has all orders. An array that is larger than a `tile`, which has
    no end where it is 0, is cut into several with lines of their own.
    """
    _check(cells, resistance)
    if min(tile) < 0:
        raise EngineError(f"a tile has the size {tile}, expected 0 or more rows and columns.")
    seen, pairs = np.empty(cells.size), np.stack([cells.ravel(), np.zeros(cells.size)])
    lines = lines_of(cells.shape, tile, 0.0, resistance)
    see_pairs(pairs, 0, cells.shape, lines, seen, np.empty(0), 0)
    return seen.reshape(cells.shape)


def see_pairs(
    level: FloatArray, first: int, shape: tuple[int, int], lines: Lines, currents: FloatArray,
    loud: FloatArray, at: int,
) -> None:  # fmt: skip
    """Write what the pairs of an array add to currents and variances; see `see_piece`.

    Tiles do not see each other; where there is only one row of them, its pieces do.
    """
    rows, columns = shape
    if lines.height < rows:

        def run(bands: slice, _: IntArray) -> int:
            ends = bands.start * lines.height, min(bands.stop * lines.height, rows)
            see_tiles(level, first, rows, columns, lines, *ends, currents, loud, at)
            return 0

        bands = -(-rows // lines.height)
        over_cores(run, bands, PAIR * lines.height * columns, np.zeros(0, np.int64))
        return
    for left in range(0, columns, lines.width):
        _see_tile(level, first, shape, left, lines, currents, loud, at)


def _see_tile(
    level: FloatArray, first: int, shape: tuple[int, int], left: int, lines: Lines,
    currents: FloatArray, loud: FloatArray, at: int,
) -> None:  # fmt: skip
    """See a tile of all rows, from the column `left` on."""
    rows, columns = shape
    width = min(lines.width, columns - left)
    carried = Carried(*np.zeros((2, 2, rows)), *np.zeros((2, 2, columns)))

    def place(down: slice, across: slice) -> tuple[int, ...]:
        return down.start, down.stop, left + across.start, left + across.stop

    def add(down: slice, across: slice) -> None:
        sum_piece(level, first, columns, lines, place(down, across), carried)

    def see(down: slice, across: slice) -> None:
        piece = place(down, across)
        see_piece(level, first, columns, lines, piece, carried, currents, loud, at)

    over_pieces(add, rows, width, PAIR * rows)
    over_pieces(see, rows, width, PAIR * rows, upwards=True)


def lines_of(
    shape: tuple[int, int],
    tile: tuple[int, int],
    off: float,
    resistance: float,
    reach: float = 1.0,
    loudness: float = 0.0,
) -> Lines:
    """Return how the pairs of an array are seen; see `Lines`."""
    height, width = tile[0] or shape[0], tile[1] or shape[1]
    return Lines(off, float(resistance), height, width, reach, loudness)


@checked
def column_currents(cells: FloatArray, resistance: float, voltages: FloatArray) -> FloatArray:
    """Solve the circuit for the currents `(reads, columns)` that `voltages (reads, rows)` make.

    Kirchhoff's law at both ends of every cell, as one sparse system.
    """
    _check(cells, resistance)
    if voltages.ndim != 2 or voltages.shape[1] != len(cells):
        raise EngineError(
            f"the voltages have shape {voltages.shape}, expected (reads, {len(cells)}): one for "
            f"each row of cells of shape {cells.shape}."
        )
    if resistance == 0.0:
        ideal: FloatArray = voltages @ cells
        return ideal
    nodes: IntArray = np.arange(2 * cells.size, dtype=np.int64).reshape(2, *cells.shape)
    on_rows, on_columns = nodes
    sources = np.zeros((nodes.size, len(voltages)))
    sources[on_rows[:, 0]] = voltages.T / resistance
    # The system is symmetric and has a dominant diagonal: its pivots may stay there.
    factors = splu(
        _conductance_matrix(cells, 1.0 / resistance, nodes), "MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0, options={"SymmetricMode": True},
    )  # fmt: skip
    currents: FloatArray = factors.solve(sources)[on_columns[-1]].T / resistance
    return currents


def _conductance_matrix(cells: FloatArray, wire: float, nodes: IntArray) -> sparse.csc_matrix:
    """Return the nodal matrix of cells between row and column nodes, and of their lines."""
    on_rows, on_columns = nodes
    at = np.concatenate([on_rows.ravel(), on_rows[:, :-1].ravel(), on_columns[:-1].ravel()])
    to = np.concatenate([on_columns.ravel(), on_rows[:, 1:].ravel(), on_columns[1:].ravel()])
    joined = np.concatenate([cells.ravel(), np.full(len(at) - cells.size, wire)])
    ends = np.concatenate([on_rows[:, 0], on_columns[-1]])
    diagonal = np.bincount(ends, np.full(len(ends), wire), nodes.size)
    diagonal += np.bincount(at, joined, nodes.size) + np.bincount(to, joined, nodes.size)
    apart = sparse.coo_matrix((-joined, (at, to)), (nodes.size, nodes.size))
    return sparse.csc_matrix(apart + apart.T + sparse.diags(diagonal))


def _check(cells: FloatArray, resistance: float) -> None:
    if cells.ndim != 2 or cells.size == 0:
        raise EngineError(f"the cells have shape {cells.shape}, expected rows and columns.")
    if not (np.isfinite(cells).all() and (cells >= 0.0).all()):
        raise EngineError("the cells hold a conductance that is not finite or below zero.")
    if not 0.0 <= resistance < np.inf:
        raise EngineError(f"a segment of wire has resistance {resistance}, expected 0 or more.")
