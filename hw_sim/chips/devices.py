"""Devices as they were measured: a table of pulse responses becomes the update of a cell.

The file is CSV with a header and one row for each pulse number:

    pulse,potentiation,depression

`potentiation` is the conductance after so many pulses up from the lowest, `depression` after so
many pulses down from the highest, in any unit. Where one branch is shorter its cells are empty.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import isotonic_regression

from engine.arrays import FloatArray
from engine.border import checked
from engine.errors import EngineError, shown

COLUMNS = ("pulse", "potentiation", "depression")
LEAST_ROWS = 3
"""Of each branch: fewer have no curve."""
LARGEST_FILE = 1 << 22
"""Bytes, about 100,000 pulses."""


@dataclass(frozen=True, eq=False)
class Response:
    """One branch: measured levels, and the monotone curve that is nearest to them.

    Levels are shares of the range of the device. Neighbours that are not in order are pooled, and
    the curve runs straight from the middle of one pool to the next.
    """

    pulses: FloatArray
    measured: FloatArray
    fitted: FloatArray
    knots: tuple[FloatArray, FloatArray]
    """Pulse numbers and levels between which the curve is straight."""
    sign: int
    """1 upwards, -1 downwards."""

    @property
    def rms_error(self) -> float:
        """Root mean square of what the curve leaves of the measured levels."""
        return float(np.sqrt(np.mean((self.measured - self.fitted) ** 2)))

    def after(self, level: FloatArray, count: FloatArray) -> FloatArray:
        """Return where `count` pulses, whole or not, move cells from their levels.

        A cell goes on along the curve from where the curve has its level, and never back.
        """
        pulses, levels = self.knots
        there = np.interp(self.sign * level, self.sign * levels, pulses)
        moved = np.interp(there + np.maximum(count, 0.0), pulses, levels)
        along: FloatArray = self.sign * np.maximum(self.sign * moved, self.sign * level)
        return along


@dataclass(frozen=True, eq=False)
class Device:
    """A measured cell: its responses to pulses up and down."""

    up: Response
    down: Response
    on_off_ratio: float
    """Of the ends of the fitted curves; infinite where the lower is zero."""

    @property
    def pulses(self) -> float:
        """Pulses that the whole range takes, the mean of both ways."""
        return float(np.mean([np.ptp(way.knots[0]) for way in (self.up, self.down)]))

    def moved(self, level: FloatArray, pulses: FloatArray) -> FloatArray:
        """Return the levels after `pulses`, up where they are above zero and down below."""
        found: FloatArray = level.copy()
        for way in (self.up, self.down):
            some = way.sign * pulses > 0.0
            found[some] = way.after(level[some], np.abs(pulses[some]))
        return found


@checked
def load_device(path: str) -> Device:
    """Read a file of pulse responses; refuse one that is none in one sentence."""
    table = _read(path)
    curves = {}
    for name, sign in (("potentiation", 1), ("depression", -1)):
        pulses, measured = table[name]
        fit = isotonic_regression(measured, increasing=sign > 0)
        if len(fit.blocks) < 3:
            way = "rise" if sign > 0 else "fall"
            raise EngineError(f"device file {path}: {name} does not {way} with its pulses.")
        curves[name] = pulses, measured, fit
    fitted = np.concatenate([fit.x for _, _, fit in curves.values()])
    low, high = float(fitted.min()), float(fitted.max())

    def response(name: str, sign: int) -> Response:
        pulses, measured, fit = curves[name]
        starts = fit.blocks[:-1]
        middles = np.add.reduceat(pulses, starts) / np.diff(fit.blocks)
        levels = (fit.x - low) / (high - low)
        knots = middles, levels[starts]
        return Response(
            pulses, (measured - low) / (high - low), np.interp(pulses, *knots), knots, sign
        )

    ratio = high / low if low > 0.0 else np.inf
    return Device(response("potentiation", 1), response("depression", -1), ratio)


def _read(path: str) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return pulse numbers and conductances of both branches."""
    rows: list[list[str]] = []
    try:
        size = Path(path).stat().st_size
        if size <= LARGEST_FILE:
            rows = list(csv.reader(Path(path).read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, ValueError, csv.Error) as error:  # no file, no text, or no path
        raise EngineError(f"device file {path} cannot be read: {error}.") from None
    if size > LARGEST_FILE:
        raise EngineError(
            f"device file {path} has {size:,} bytes, expected at most {LARGEST_FILE:,}."
        )
    header = tuple(cell.strip() for cell in rows[0]) if rows else ()
    if header != COLUMNS:
        raise EngineError(
            f"device file {path} has the header {shown(','.join(header))}, expected "
            f"{','.join(COLUMNS)}."
        )
    numbers = [_numbers(path, k, row) for k, row in enumerate(rows[1:], 2) if row]
    return {name: _branch(path, name, numbers, COLUMNS.index(name)) for name in COLUMNS[1:]}


def _numbers(path: str, line: int, row: Sequence[str]) -> tuple[float | None, ...]:
    """Return the cells of a row; an empty one is `None`."""
    if len(row) != len(COLUMNS):
        raise EngineError(
            f"device file {path}, line {line} has {len(row)} cells, expected {len(COLUMNS)}."
        )
    found: list[float | None] = []
    for cell in row:
        try:
            value = float(cell) if cell.strip() else None
        except ValueError:
            value = np.nan
        if value is not None and not 0.0 <= value < np.inf:
            raise EngineError(
                f"device file {path}, line {line} has {shown(cell)}, expected a number from 0 on."
            )
        found.append(value)
    return tuple(found)


def _branch(
    path: str, name: str, rows: Sequence[tuple[float | None, ...]], column: int
) -> tuple[FloatArray, FloatArray]:
    """Return pulse numbers and conductances of a branch."""
    pairs = [(row[0], row[column]) for row in rows if row[column] is not None]
    if len(pairs) < LEAST_ROWS:
        raise EngineError(
            f"device file {path} has {len(pairs)} rows of {name}, expected at least {LEAST_ROWS}."
        )
    if any(pulse is None for pulse, _ in pairs):
        raise EngineError(f"device file {path} has a conductance without a pulse number.")
    pulses, conductances = np.array(pairs, np.float64).T
    if not (np.diff(pulses) > 0.0).all():
        raise EngineError(f"device file {path} has pulse numbers that do not rise.")
    return pulses, conductances
