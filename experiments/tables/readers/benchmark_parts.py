"""Rows of the other parts of the benchmark: convolution, growth, prediction, two processes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmark.convolution import BACKPROP, EQPROP, PLAIN, SETTLED
from experiments.benchmark.crossings import Crossing, find_crossings
from experiments.benchmark.goals import (
    CONVOLUTION,
    FLATNESS,
    MODEL,
    PLAIN_TORCH,
    PREDICTED,
    SERVED_US,
)
from experiments.benchmark.growth import GrowthPoint, fit_exponents, flatness
from experiments.benchmark.growth_plot import TITLES
from experiments.benchmark.prediction import CLASSES, SERVED
from experiments.benchmark.probe import Setting, TrainingFootprint
from experiments.reporting.number_text import NONE, number
from experiments.tables.readers.outputs import Rows
from experiments.tables.readers.performance import Found, bold, ratio_text, read_measured

MEGABYTE = 1e6


def convolution_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return what is compared, with a column for each network."""
    measured = read_measured(folder, command)
    races: dict[str, dict[str, Found]] = {}
    for race in measured["images"]:
        races.setdefault(race["network"], {}).setdefault(race["contestant"], race)
    columns = list(races.values())
    swept = growth_points(measured["sweeps"])
    flat = flatness(swept)
    memory = bold(f"± {100 * flat:.1f} %", flat <= FLATNESS)
    extra = max(point.footprint.extra for point in swept) / MEGABYTE
    sweeps = f"peak memory, {swept[0].value} to {swept[-1].value} sweeps"
    return (
        (
            "epoch over torch backprop",
            f"≤ {CONVOLUTION:g}",
            *(ratio_text(c[EQPROP]["ratio"], CONVOLUTION) for c in columns),
        ),
        (
            "multiply-adds over backprop's",
            NONE,
            *(f"{c[EQPROP]['macs'] / c[BACKPROP]['macs']:.2f}" for c in columns),
        ),
        ("held out, EqProp and backprop", "no loss", *(_accuracies(c) for c in columns)),
        (
            "EqProp in plain torch over EqProp",
            f"≥ {PLAIN_TORCH}",
            *(_plain(c[PLAIN]["over_eqprop"]) for c in columns),
        ),
        (
            "EqProp to tolerance: epoch over backprop",
            NONE,
            *(f"{ratio_text(c[SETTLED]['ratio'])}, {_last(c[SETTLED])}" for c in columns),
        ),
        (sweeps, "flat ± 1 %", f"{memory} ({extra:.1f} MB)", *("not measured",) * len(columns[1:])),
    )


def growth_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return the fitted exponents of each axis, time and memory of each learner."""
    found = fit_exponents(growth_points(read_measured(folder, command)["points"]))
    by_place = {(e.axis, e.learner): e for e in found}
    rows = []
    for axis in dict.fromkeys(e.axis for e in found):
        fitted = [by_place[axis, learner] for learner in TITLES]
        rows.append(
            (
                axis,
                *(_slope(e.time) for e in fitted),
                *(_slope(e.memory) for e in fitted),
                f"± {100 * fitted[0].flatness:.1f} %" if axis == "steps" else NONE,
            )
        )
    return tuple(rows)


def crossing_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return where EqProp needs less than its rivals along each axis."""
    found = find_crossings(growth_points(read_measured(folder, command)["points"]))
    return tuple(
        (
            one.axis,
            TITLES[one.rival],
            *(
                _crossing(next(c for c in found if _same(c, one) and c.quantity == quantity))
                for quantity in ("memory", "time")
            ),
        )
        for one in found
        if one.quantity == "memory"
    )


def prediction_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return what an answer takes, beside what it is held against."""
    times = read_measured(folder, command)["predictions"]
    kinds = list(dict.fromkeys(found["what"] for found in times))
    return tuple(
        (
            found["what"],
            f"{found['batch']:,}",
            _seconds(found),
            found["rival"],
            f"{1e6 * found['rival_seconds']:,.0f}",
            ratio_text(found["ratio"], PREDICTED if found["what"] == CLASSES else None),
        )
        for found in sorted(times, key=lambda found: kinds.index(found["what"]))
    )


def parallel_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return one process with as many rows, then both kinds of scaling, measured and predicted."""
    results = read_measured(folder, command)["parallel"]
    alone = results["times"]["alone"]
    rows = [str(found["rows"]) for found in results["scalings"]]
    return (
        *(
            ("one process", count, f"{1e3 * float(np.median(alone[count])):.1f}", *(NONE,) * 3)
            for count in rows
        ),
        *(_scaling(found) for found in results["scalings"]),
    )


def growth_points(points: Sequence[Mapping[str, Any]]) -> list[GrowthPoint]:
    """Return measured points as they were before they were written."""
    return [
        GrowthPoint(
            point["axis"],
            Setting(**point["setting"]),
            TrainingFootprint(**point["footprint"]),
        )
        for point in points
    ]


def _slope(value: float) -> str:
    """Return two digits; adding zero turns a negative zero into a positive one."""
    return number(round(value, 2) + 0.0, 2)


def _accuracies(column: Mapping[str, Found]) -> str:
    ours, theirs = (column[name]["accuracies"][-1] for name in (EQPROP, BACKPROP))
    variance = sum(share * (1.0 - share) for share in (ours, theirs)) / column[EQPROP]["held_out"]
    margin = 2.0 * variance**0.5
    text = f"{100 * ours:.1f} and {100 * theirs:.1f} %"
    return f"{bold(text, ours >= theirs - margin)} (± {100 * margin:.1f})"


def _plain(over: Found) -> str:
    median = bold(f"{over['median']:.2f}", over["median"] >= PLAIN_TORCH)
    return f"{median} ({over['low']:.2f} to {over['high']:.2f})"


def _last(race: Found) -> str:
    return f"{100 * race['accuracies'][-1]:.1f} %"


def _same(one: Crossing, other: Crossing) -> bool:
    return (one.axis, one.rival) == (other.axis, other.rival)


def _crossing(found: Crossing) -> str:
    return f"{found.text()} ({found.first:.2f} to {found.last:.2f})"


def _seconds(found: Found) -> str:
    micro = 1e6 * found["seconds"]
    goal = found["what"] == SERVED and found["batch"] == 1
    return bold(f"{micro:,.0f}", goal and micro <= SERVED_US)


def _scaling(found: Found) -> tuple[str, ...]:
    ms, efficiency = found["seconds"], found["efficiency"]
    over = found["over_measured"]
    return (
        f"two processes, {found['kind']}",
        str(found["rows"]),
        f"{1e3 * ms['median']:.1f} ({1e3 * ms['low']:.1f} to {1e3 * ms['high']:.1f})",
        f"{efficiency['median']:.2f} ({efficiency['low']:.2f} to {efficiency['high']:.2f})",
        f"{1e3 * found['predicted']:.1f}",
        bold(f"{over:.2f}", abs(over - 1.0) <= MODEL),
    )
