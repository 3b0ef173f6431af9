"""Track 26: the memory of EqProp does not grow with the relaxation; that of BPTT does."""

from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from experiments.reporting.document import Table
from experiments.reporting.number_text import number
from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import BLUE, SKY, STYLE, VERMILION, add_legend, draw_panels
from experiments.verify.peak_memory import (
    BATCH,
    HIDDEN,
    STATE_BYTES,
    Prepare,
    bptt,
    eqprop_numba,
    eqprop_torch,
    measure_peak,
)
from experiments.verify.track import Check, Finding, Size, Track, TrackSize

CLAIM = (
    "The peak memory of an EqProp training step does not depend on the number of relaxation "
    "steps; that of backpropagation through the same relaxation grows in proportion to it."
)
EQPROP: dict[str, Prepare] = {"EqProp, numba": eqprop_numba, "EqProp, torch": eqprop_torch}
BPTT: dict[str, Prepare] = {"BPTT, torch": bptt}
COLOURS = {"EqProp, numba": BLUE, "EqProp, torch": SKY, "BPTT, torch": VERMILION}
FEWEST_STEPS = 10
FLAT = 0.01
"""States a step that EqProp may seem to grow by: the kernel counts pages in groups."""
MEGABYTE = 2**20


@dataclass(frozen=True)
class Growth:
    """Peaks of one contestant, and the straight line through them."""

    steps: tuple[int, ...]
    peaks: tuple[tuple[int, ...], ...]
    """In bytes above what was held before, for each number of steps and repetition."""
    slope: float
    """States of the batch a relaxation step."""
    explained: float
    """Share of the variance that the line explains."""


def verify(size: Size) -> Finding:
    """Measure every contestant at every number of steps, each time in a fresh process."""
    steps = step_counts(size)
    found = {
        name: measure_growth(prepare, steps, size.seeds)
        for name, prepare in (EQPROP | BPTT).items()
    }
    slopes = {name: found[name].slope for name in found}
    checks = [
        Check(f"{name}: states stored for each step", abs(slopes[name]), "<=", FLAT)
        for name in EQPROP
    ]
    for name in BPTT:
        checks.append(Check(f"{name}: states stored for each step", slopes[name], ">=", 1.0))
        line = f"{name}: share of the growth that a straight line explains"
        checks.append(Check(line, found[name].explained, ">=", 0.99))
    return Finding(
        experiment=(
            f"One training step of a looped network of {HIDDEN} units on a batch of {BATCH} "
            "(float32) whose free and nudged relaxations make exactly "
            f"{', '.join(map(str, steps))} steps, against the gradient by backpropagation through "
            f"as many; {size.seeds} of each. Every measurement is a fresh process: it takes one "
            "step to warm up, resets the high-water mark of its resident memory where the system "
            "allows that, and reports by how much the mark rises during the step, whoever "
            "allocates. A straight line is fitted to the medians by least squares; one state of "
            f"the batch is {STATE_BYTES / MEGABYTE:.3f} MB."
        ),
        checks=tuple(checks),
        tables=(_table(found),),
        limits=(
            "Resident memory of the process on this machine. A peak below what the warm-up left "
            "free for reuse does not show, so single numbers are uncertain by a few MB.",
            "Truncated, checkpointed or reversible variants of backpropagation and implicit "
            "differentiation also save memory; they are not measured here.",
            "The Anderson solver keeps a history of fixed length; it is not measured here.",
        ),
        pictures=(_picture(found),),
        measurements={
            name: {"steps": growth.steps, "peaks_bytes": growth.peaks, "slope": growth.slope}
            for name, growth in found.items()
        },
    )


def step_counts(size: Size) -> tuple[int, ...]:
    """Return numbers of steps from the fewest to the most, three or five on a log scale."""
    points = 5 if size.seeds > 1 else 3
    counts = np.geomspace(FEWEST_STEPS, size.amount, points).round()
    return tuple(int(count) for count in counts)


def measure_growth(prepare: Prepare, steps: tuple[int, ...], repeats: int) -> Growth:
    """Measure peaks, and fit `bytes = a + slope STATE_BYTES steps` to their medians.

    Peaks of single processes of BPTT differ by up to a factor of two.
    """
    peaks = tuple(tuple(measure_peak(prepare, n) for _ in range(repeats)) for n in steps)
    x, y = np.array(steps, float), np.median(peaks, axis=1)
    slope, start = np.polyfit(x, y, 1)
    spread = float(((y - y.mean()) ** 2).sum())
    rest = float(((y - start - slope * x) ** 2).sum())
    explained = 1 - rest / spread if spread > 0 else float("nan")
    return Growth(steps, peaks, float(slope) / STATE_BYTES, explained)


def _table(found: dict[str, Growth]) -> Table:
    steps = next(iter(found.values())).steps
    rows = []
    for name, growth in found.items():
        medians = [float(np.median(peaks)) / MEGABYTE for peaks in growth.peaks]
        cells = [number(median, 2) for median in medians]
        rows.append((name, *cells, number(growth.slope, 4), number(growth.explained, 4)))
    header = ("Contestant", *(f"{n} steps\n(MB)" for n in steps), "States\na step", "Linear\n(R²)")
    return Table(
        "Rise of the peak during one step, median over repetitions",
        header,
        tuple(rows),
        caption="R² says nothing where there is no growth to explain.",
    )


def _picture(found: dict[str, Growth]) -> Picture:
    caption = (
        "Rise of the peak of resident memory during one training step against the number of "
        "relaxation steps; a dot for each process, lines through the medians."
    )
    return take_picture("memory", "Peak memory", caption, _draw(found))


@matplotlib.rc_context(STYLE)
def _draw(found: dict[str, Growth]) -> Figure:
    figure, (axes,) = draw_panels([""], height=2.8)
    for name, growth in found.items():
        peaks = np.array(growth.peaks) / MEGABYTE
        axes.plot(growth.steps, np.median(peaks, axis=1), color=COLOURS[name])
        for repetition in peaks.T:
            axes.plot(growth.steps, repetition, ".", color=COLOURS[name])
    axes.set_xlabel("relaxation steps")
    axes.set_ylabel("rise of the peak (MB)")
    add_legend(figure, [(name, COLOURS[name], "-") for name in found])
    return figure


TRACK = Track(
    number=26,
    title="Constant memory",
    claim=CLAIM,
    unit="steps at most",
    sizes={
        TrackSize.QUICK: Size(1, 1000),
        TrackSize.DEFAULT: Size(3, 1000),
        TrackSize.FULL: Size(5, 1000),
    },
    verify=verify,
)
