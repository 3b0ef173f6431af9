"""Rows of the benchmark. A ratio that reaches its goal is bold."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from experiments.benchmark.epochs import BACKPROP, BPTT, CONTESTS, EQPROP, EQPROP_TORCH, LAYERED
from experiments.benchmark.floor import NO_COMPILER
from experiments.benchmark.goals import (
    DEFAULTS,
    EAGER,
    EPOCH,
    EPOCH_THREADS,
    FLOOR,
    SECOND_CORE,
    TORCH,
    UNROLLED,
)
from experiments.reporting.number_text import NONE
from experiments.tables.readers.outputs import Rows, read_output
from experiments.tables.stored import TablesError
from experiments.tasks import TASKS

Found: TypeAlias = Mapping[str, Any]
"""A result as JSON gives it back."""

KINDS = {EQPROP: "looped", LAYERED: "layered"}


def read_measured(folder: Path, command: str) -> Found:
    """Read what the benchmark measured, and refuse a run that lacked something."""
    content = read_output(folder / "results.json", command)
    missing = [note for note in content["notes"] if note != NO_COMPILER]
    if missing:
        raise TablesError(f"{folder}: {missing[0]}")
    measured: Found = content["measured"] | {"points": content["points"]}
    return measured


def speed_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return relaxations over bare products, epochs over backprop, a column for each threads."""
    measured = read_measured(folder, command)
    cells, races = measured["cells"], measured["races"]
    counts = list(dict.fromkeys(cell["threads"] for cell in cells))
    return (
        *_floor_rows(cells, counts),
        *_epoch_rows(measured, counts),
        (
            f"torch backend over the compiled one, looped, batch {races[0]['batch']}",
            f"≤ {TORCH}",
            *(_torch_text(races, count) for count in counts),
        ),
        (
            f"BPTT on the same network over EqProp, to {measured['accuracy']:.0%}".replace(
                "%", " %"
            ),
            f"≥ {UNROLLED:.0f}",
            _unrolled_text(races, counts[0]),
            *(NONE for _ in counts[1:]),
        ),
    )


def defaults_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return a row for each network that is trained with no settings."""
    measured = read_measured(folder, command)
    races = measured["defaults"]
    backprop = {race["batch"]: race for race in races if race["contestant"] == BACKPROP}
    rows = []
    for name, kind in KINDS.items():
        ours = [race for race in races if race["contestant"] == name]
        accuracies = ours[0]["accuracy"], backprop[ours[0]["batch"]]["accuracy"]
        rows.append(
            (
                f"{kind} {_sizes(measured['task'], name)}",
                *(ratio_text(race["ratio"], DEFAULTS) for race in ours),
                " and ".join(f"{race['macs_ratio']:.2f}" for race in ours),
                " and ".join(f"{100 * accuracy:.1f}" for accuracy in accuracies) + " %",
            )
        )
    return tuple(rows)


def ratio_text(ratio: Found, limit: float | None = None) -> str:
    """Return a median with its quartiles, the median bold where it is within the limit."""
    median = bold(f"{ratio['median']:.2f}", limit is not None and ratio["median"] <= limit)
    return f"{median} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def bold(text: str, reached: bool) -> str:
    """Return a number, bold if it reached its goal."""
    return f"**{text}**" if reached else text


def _floor_rows(cells: Sequence[Found], counts: Sequence[int]) -> Rows:
    large = [
        cell
        for cell in cells
        if cell["contestant"] == "Settle, numba" and cell["width"] >= 256 and cell["batch"] >= 64
    ]
    return (
        (
            "relaxation over its bare products, width ≥ 256, batch ≥ 64",
            f"≤ {FLOOR}",
            *(_floor_text([c for c in large if c["threads"] == count]) for count in counts),
        ),
        (
            "the same with two threads over one",
            f"≤ {SECOND_CORE}",
            *(_second_text(large, count) for count in counts),
        ),
        (
            "over torch eager, same work",
            f"≥ {EAGER} times as fast",
            *(_eager_text([c for c in cells if c["threads"] == count]) for count in counts),
        ),
    )


def _floor_text(large: Sequence[Found]) -> str:
    """Return the worst ratio with its shape, and where the others lie."""
    ratios = {_shape(cell): cell["ratio"]["median"] for cell in large}
    worst = max(ratios, key=lambda shape: ratios[shape])
    others = sorted(ratio for shape, ratio in ratios.items() if shape != worst)
    elsewhere = f"; {others[0]:.2f} to {others[-1]:.2f} elsewhere" if others else ""
    return f"{bold(f'{ratios[worst]:.2f}', ratios[worst] <= FLOOR)} ({worst}{elsewhere})"


def _second_text(large: Sequence[Found], count: int) -> str:
    alone = {_shape(cell): cell["seconds"] for cell in large if cell["threads"] == 1}
    found = {_shape(c): c["seconds"] / alone[_shape(c)] for c in large if c["threads"] == count}
    if count == 1:
        return NONE
    worst = max(found, key=lambda shape: found[shape])
    reached = found[worst] <= SECOND_CORE
    return f"{bold(f'{found[worst]:.2f}', reached)} ({worst}), median {_middle(found):.2f}"


def _eager_text(cells: Sequence[Found]) -> str:
    """Return the least gain with its shape, and the median."""
    times = {(_shape(c), c["contestant"]): c["ratio"]["median"] for c in cells}
    gains = {
        shape: times[shape, "torch eager"] / ratio
        for (shape, name), ratio in times.items()
        if name == "Settle, numba"
    }
    least = min(gains, key=lambda shape: gains[shape])
    reached = gains[least] >= EAGER
    return f"{bold(f'{gains[least]:.2f}', reached)} ({least}), median {_middle(gains):.2f}"


def _epoch_rows(measured: Found, counts: Sequence[int]) -> Rows:
    races = measured["races"]
    rows: list[tuple[str, ...]] = []
    batches = list(dict.fromkeys(race["batch"] for race in races))
    for name, kind in KINDS.items():
        for batch in batches:
            found = {
                r["threads"]: r for r in races if (r["contestant"], r["batch"]) == (name, batch)
            }
            texts = [
                ratio_text(found[count]["ratio"], EPOCH if count == 1 else EPOCH_THREADS)
                for count in counts
            ]
            what = f"{kind}, batch {batch}"
            first = f"epoch on {measured['task']} over torch backprop, {what}"
            goal = f"≤ {EPOCH} and {EPOCH_THREADS}"
            rows.append((what, "the same", *texts) if rows else (first, goal, *texts))
    return tuple(rows)


def _torch_text(races: Sequence[Found], count: int) -> str:
    ours, torch = (_race(races, name, count)["ratio"]["median"] for name in (EQPROP, EQPROP_TORCH))
    return bold(f"{torch / ours:.2f}", torch / ours <= TORCH)


def _unrolled_text(races: Sequence[Found], count: int) -> str:
    ours, theirs = (_race(races, name, count)["seconds_to_accuracy"] for name in (EQPROP, BPTT))
    if ours is None or theirs is None:
        return f"{'EqProp' if ours is None else 'BPTT'} did not reach it"
    gain = bold(f"{theirs / ours:.2f}", theirs / ours >= UNROLLED)
    return f"{gain} ({theirs:.1f} s and {ours:.1f} s)"


def _race(races: Sequence[Found], contestant: str, count: int) -> Found:
    """Return the first race of a contestant: that with the batches of the contest."""
    return next(r for r in races if (r["contestant"], r["threads"]) == (contestant, count))


def _sizes(task: str, contestant: str) -> str:
    contest = next(c for c in CONTESTS if TASKS[c.task].title == task)
    inputs, first, second, classes = contest.sizes
    layers = (inputs, first, second, classes) if contestant == LAYERED else (inputs, first, classes)
    return "-".join(map(str, layers))


def _shape(cell: Found) -> str:
    return f"{cell['width']} / {cell['batch']}"


def _middle(found: Mapping[str, float]) -> float:
    return sorted(found.values())[len(found) // 2]
