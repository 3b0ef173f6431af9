"""The tables of the benchmark's report."""

from collections.abc import Sequence

from experiments.benchmark.convolution import ImageRace
from experiments.benchmark.crossings import Crossing
from experiments.benchmark.defaults import EPOCHS, SAMPLES, DefaultsRace
from experiments.benchmark.epochs import Race
from experiments.benchmark.floor import FloorCell
from experiments.benchmark.goals import Goal, Measurements
from experiments.benchmark.growth import Exponents, FirstStep, GrowthPoint
from experiments.benchmark.growth_plot import TITLES
from experiments.reporting.document import Badge, Cell, Table
from experiments.reporting.number_text import NONE

MEGABYTE = 1e6


def goals_table(goals: Sequence[Goal]) -> Table:
    """Return every goal as reached or missed."""
    verdicts = {
        True: Badge("reached", "good"),
        False: Badge("missed", "bad"),
        None: Badge("not judged", "open"),
    }
    rows = tuple(
        (g.what, g.wanted, str(g.threads or NONE), g.measured, verdicts[g.reached]) for g in goals
    )
    return Table(
        "Goals",
        ("what", "goal", "threads", "measured", "verdict"),
        rows,
        "Of a relaxation the worst shape counts, given as width / batch.",
        text_columns=2,
    )


def floor_table(cells: Sequence[FloorCell], threads: int) -> Table:
    """Return the ratios of one number of threads: a row for each shape."""
    chosen = [cell for cell in cells if cell.threads == threads]
    names = [n for n in dict.fromkeys(c.contestant for c in chosen) if n != "bare products"]
    by_place = {(c.width, c.batch, c.contestant): c for c in chosen}
    rows: list[tuple[Cell, ...]] = []
    for width, batch in dict.fromkeys((c.width, c.batch) for c in chosen):
        bare = by_place[width, batch, "bare products"].seconds
        found = [by_place.get((width, batch, name)) for name in names]
        ratios = [NONE if cell is None else cell.ratio.text() for cell in found]
        rows.append((str(width), str(batch), f"{1e3 * bare:.2f}", *ratios))
    return Table(
        f"30 steps over the bare matrix products, float32, {threads} thread(s)",
        ("width", "batch", "products, ms", *names),
        tuple(rows),
        "Median of the ratios within each round, quartiles in brackets.",
        text_columns=0,
    )


def first_call_table(cells: Sequence[FloorCell]) -> Table:
    """Return what the first call of each contestant took, compilation included."""
    longest: dict[str, FloorCell] = {}
    for cell in cells:
        if (
            cell.contestant not in longest
            or cell.first_seconds > longest[cell.contestant].first_seconds
        ):
            longest[cell.contestant] = cell
    rows = tuple(
        (name, f"{c.first_seconds:.2f}", f"{c.seconds:.4f}", f"{c.width} / {c.batch}")
        for name, c in longest.items()
    )
    return Table(
        "The longest first call",
        ("contestant", "first call, s", "after it, s", "width / batch"),
        rows,
        "Not part of any ratio. The first call of a process also loads or compiles the kernels.",
    )


def races_table(races: Sequence[Race], measured: Measurements) -> Table:
    """Return time per epoch and time to the stated accuracy."""
    sizes = [race.parameters for race in races]
    rows: list[tuple[Cell, ...]] = []
    for race in races:
        reached = race.seconds_to_accuracy
        rows.append(
            (
                race.contestant,
                str(race.threads),
                str(race.batch),
                race.epoch_seconds.text(),
                race.ratio.text(),
                f"{race.macs_ratio:.2f}\n({race.macs / 1e6:.2f} million)",
                f"{100 * max(race.accuracies):.2f}",
                str(race.epochs_to_accuracy or NONE),
                f"{reached:.1f}" if reached is not None else NONE,
                race.note,
            )
        )
    return Table(
        f"Training on {measured.task}",
        (
            "contestant",
            "threads",
            "batch",
            "epoch, s",
            "times backprop",
            "times its multiply-adds",
            "best, %",
            f"epochs to {measured.accuracy:.0%}",
            "seconds to it",
            "note",
        ),
        tuple(rows),
        f"One epoch of each in turn; {min(sizes):,} to {max(sizes):,} parameters. Multiply-adds "
        "are those that one sample needs in a training step, EqProp's with the steps that it took. "
        "Accuracies are on the validation part; the seconds to one are those of training alone.",
    )


def defaults_table(races: Sequence[DefaultsRace], task: str) -> Table:
    """Return what training costs and reaches with no settings."""
    rows: list[tuple[Cell, ...]] = [
        (
            race.contestant,
            str(race.threads),
            str(race.batch),
            f"{race.parameters:,}",
            race.seconds.text(),
            race.ratio.text(),
            f"{race.macs_ratio:.2f}",
            f"{100 * race.accuracy:.2f}",
            race.note,
        )
        for race in races
    ]
    return Table(
        f"Training() without settings, on {task}",
        (
            "contestant",
            "threads",
            "batch",
            "parameters",
            "seconds for 10,000 samples",
            "times backprop",
            "times its multiply-adds",
            "held out, %",
            "note",
        ),
        tuple(rows),
        f"One epoch of each in turn, {EPOCHS} epochs of at most {SAMPLES:,} samples; accuracies "
        f"are those after the last, on {races[0].held_out:,} others. Batch {races[0].batch} is the "
        "default.",
    )


def growth_table(points: Sequence[GrowthPoint]) -> Table:
    """Return seconds and memory of every point, all learners side by side."""
    found: dict[tuple[str, int], dict[str, GrowthPoint]] = {}
    for point in points:
        found.setdefault((point.axis, point.value), {})[point.setting.learner] = point
    rows = tuple(
        (axis, f"{value:,}", *(cell for name in TITLES for cell in _footprint(here.get(name))))
        for (axis, value), here in found.items()
    )
    return Table(
        "One training step",
        ("axis", "value", *(f"{TITLES[name]}, {unit}" for name in TITLES for unit in ("ms", "MB"))),
        rows,
        "Each point in a process of its own; with one thread by CPU time. Memory is the peak of "
        "the resident memory while training over that of the same process before it. Of depth one "
        "EqProp and BPTT have the looped network, and backprop two layers.",
        text_columns=1,
    )


def _footprint(point: GrowthPoint | None) -> tuple[str, str]:
    if point is None:
        return NONE, NONE
    return f"{1e3 * point.footprint.seconds:.1f}", f"{point.footprint.extra / MEGABYTE:.1f}"


def crossings_table(crossings: Sequence[Crossing]) -> Table:
    """Return where EqProp needs less than its rivals."""
    rows = tuple(
        (c.quantity, c.axis, TITLES[c.rival], c.text(), f"{c.first:.2f} to {c.last:.2f}")
        for c in crossings
    )
    return Table(
        "Where EqProp needs less",
        ("what", "axis", "than", "where", "EqProp / rival, first to last"),
        rows,
        "Places lie on straight lines between the logarithms of measured points.",
        text_columns=4,
    )


def exponents_table(exponents: Sequence[Exponents]) -> Table:
    """Return the fitted exponents."""
    rows = tuple(
        (e.axis, TITLES[e.learner], f"{e.time:.2f}", f"{e.memory:.2f}", f"± {100 * e.flatness:.1f}")
        for e in exponents
    )
    return Table(
        "Fitted exponents",
        ("axis", "learner", "time", "extra memory", "memory within, %"),
        rows,
        "Slopes of straight lines through the logarithms; 1 is linear, 0 is flat.",
        text_columns=2,
    )


def first_step_table(first: FirstStep) -> Table:
    """Return the seconds from starting Python to the end of the first training step."""
    cold = NONE if first.cold is None else f"{first.cold:.1f}"
    return Table(
        "From starting Python to the end of the first training step",
        ("cache of compiled kernels", "seconds"),
        (("warm", first.warm.text()), ("empty", cold)),
    )


def images_table(races: Sequence[ImageRace]) -> Table:
    """Return what a convolutional network costs to train, and what it has learnt."""
    rows: list[tuple[Cell, ...]] = []
    for race in races:
        least = min(r.macs for r in races if r.network == race.network and r.macs is not None)
        macs = NONE if race.macs is None else f"{race.macs:.1f}\n({race.macs / least:.2f} x)"
        rows.append(
            (
                f"{race.task},\n{race.network}",
                race.contestant,
                str(race.threads),
                race.epoch_seconds.text(),
                race.ratio.text(),
                macs,
                f"{100 * race.accuracies[-1]:.1f}",
                str(len(race.accuracies)),
                race.note,
            )
        )
    return Table(
        "Training convolutional networks",
        (
            "images, channels",
            "contestant",
            "threads",
            "epoch, s",
            "times backprop",
            "million multiply-adds",
            "held out, %",
            "epochs",
            "note",
        ),
        tuple(rows),
        "One epoch of each in turn. Multiply-adds are those of one image in one training step, "
        "counted from the links of the network.",
        text_columns=2,
    )


def sweeps_table(points: Sequence[GrowthPoint]) -> Table:
    """Return the memory of a convolutional training step over its sweeps."""
    rows = tuple(
        (
            f"{point.value:,}",
            f"{1e3 * point.footprint.seconds:.1f}",
            f"{point.footprint.extra / MEGABYTE:.1f}",
            f"{point.footprint.peak / MEGABYTE:.0f}",
        )
        for point in points
    )
    return Table(
        "Memory of a convolutional training step",
        ("sweeps in each phase", "step, ms", "extra, MB", "peak, MB"),
        rows,
        "Each in a process of its own.",
        text_columns=0,
    )
