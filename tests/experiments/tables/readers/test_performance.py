"""Rows of the benchmark: from its own report of known measurements."""

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.benchmark import convolution
from experiments.benchmark.convolution import ImageRace
from experiments.benchmark.defaults import DefaultsRace
from experiments.benchmark.epochs import BACKPROP, BPTT, EQPROP, EQPROP_TORCH, LAYERED, Race
from experiments.benchmark.floor import NO_COMPILER, FloorCell
from experiments.benchmark.goals import Measurements
from experiments.benchmark.growth import LEARNERS, GrowthPoint
from experiments.benchmark.parallel import (
    ParallelResults,
    ParallelSize,
    RoundTimes,
    Scaling,
    StepModel,
)
from experiments.benchmark.prediction import CLASSES, RIVALS, SERVED, PredictionTime
from experiments.benchmark.probe import Setting, TrainingFootprint
from experiments.benchmark.report import BenchmarkResults, write_report
from experiments.benchmark.timing import Spread
from experiments.reporting.number_text import NONE
from experiments.tables.registry import MEASUREMENTS
from experiments.tables.stored import TablesError
from tests.experiments.tables.readers.reader_cases import fitting_rows


def _spread(median: float) -> Spread:
    return Spread(median, 0.9 * median, 1.1 * median)


def _rows(
    folder: Path,
    name: str,
    measured: Measurements,
    points: list[GrowthPoint] | None = None,
    notes: tuple[str, ...] = (),
) -> tuple[tuple[str, ...], ...]:
    """Write a report as the command does, and return the rows that its table shows."""
    command = MEASUREMENTS[name].command
    results = BenchmarkResults(command, {}, measured, points or [], notes)
    write_report(results, folder)
    return fitting_rows(folder, name)


def _cell(name: str, place: tuple[int, int], ratio: float, threads: int, seconds: float):
    return FloorCell(name, *place, threads, _spread(ratio), seconds, 1.0)


def _race(name: str, threads: int, batch: int, ratio: float, reached: float | None = None) -> Race:
    return Race(
        name, threads, batch, 9, 9.0, 1.2, _spread(1.0), _spread(ratio), (0.9,), 1, reached, ""
    )


SPEED = Measurements(
    cells=[
        _cell(name, place, ratio * factor, threads, seconds / threads**0.5)
        for threads in (1, 2)
        for place, ratio, seconds in (((256, 64), 0.5, 1.0), ((1024, 128), 0.8, 2.0))
        for name, factor in (
            ("bare products", 1.0),
            ("Settle, numba", threads),
            ("torch eager", 1.5),
        )
    ],
    races=[
        _race(name, threads, batch, ratio, seconds if threads == 1 else None)
        for threads in (1, 2)
        for batch in (128, 64)
        for name, ratio, seconds in (
            (BACKPROP, 1.0, 4.0),
            (EQPROP, 1.2, 3.5),
            (LAYERED, 1.6, None),
            (EQPROP_TORCH, 3.0, None),
            (BPTT, 2.0, 25.2),
        )
    ],
    task="MNIST",
    accuracy=0.98,
)


def test_speed_has_the_worst_shape_and_bold_where_a_goal_is_reached(tmp_path: Path) -> None:
    rows = _rows(tmp_path, "speed", SPEED, notes=(NO_COMPILER,))
    assert rows[0][2:] == (
        "**0.80** (1024 / 128; 0.50 to 0.50 elsewhere)",
        "1.60 (1024 / 128; 1.00 to 1.00 elsewhere)",
    )
    assert rows[1][2:] == (NONE, "0.71 (256 / 64), median 0.71")
    assert rows[2][2:] == ("**1.50** (256 / 64), median 1.50", "0.75 (256 / 64), median 0.75")
    assert rows[3] == (
        "epoch on MNIST over torch backprop, looped, batch 128",
        "≤ 1.3 and 1.5",
        "**1.20** (1.08 to 1.32)",
        "**1.20** (1.08 to 1.32)",
    )
    assert rows[6] == ("layered, batch 64", "the same", *("1.60 (1.44 to 1.76)",) * 2)
    assert rows[7][2:] == ("2.50", "2.50")
    assert rows[8] == (
        "BPTT on the same network over EqProp, to 98 %",
        "≥ 3",
        "**7.20** (25.2 s and 3.5 s)",
        NONE,
    )


def test_another_ratio_is_another_row(tmp_path: Path) -> None:
    slower = [replace(race, ratio=_spread(2.0 * race.ratio.median)) for race in SPEED.races]
    rows = _rows(tmp_path, "speed", replace(SPEED, races=slower))
    assert rows[3][2] == "2.40 (2.16 to 2.64)"


def test_a_run_that_lacked_its_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TablesError, match="MNIST is not here"):
        _rows(tmp_path, "speed", SPEED, notes=("MNIST is not here.",))


def test_defaults_have_both_batches_beside_backprop(tmp_path: Path) -> None:
    races = [
        DefaultsRace(name, 1, batch, 9, _spread(1.0), _spread(ratio), macs, right, 5000, "")
        for batch, macs in ((32, 2.08), (64, 2.17))
        for name, ratio, right in (
            (BACKPROP, 1.0, 0.962),
            (EQPROP, 1.5, 0.959),
            (LAYERED, 3.0, 0.9),
        )
    ]
    rows = _rows(tmp_path, "speed-defaults", Measurements(defaults=races, task="MNIST"))
    assert rows == (
        (
            "looped 784-256-10",
            *("**1.50** (1.35 to 1.65)",) * 2,
            "2.08 and 2.17",
            "95.9 and 96.2 %",
        ),
        (
            "layered 784-256-256-10",
            *("3.00 (2.70 to 3.30)",) * 2,
            "2.08 and 2.17",
            "90.0 and 96.2 %",
        ),
    )


def test_convolution_has_a_column_for_each_network(tmp_path: Path) -> None:
    images = [
        ImageRace(name, "Fashion", net, 1, 9, macs, _spread(1.0), _spread(ratio),
                  _spread(1.6), (0.5, right), 4000, "")
        for net, ratio in (("28x28x1, 32-64", 2.0), ("32x32x3, 32-64-128", 4.0))
        for name, macs, right in (
            (convolution.BACKPROP, 1.0, 0.85),
            (convolution.EQPROP, 2.5, 0.86),
            (convolution.PLAIN, 2.5, 0.86),
            (convolution.SETTLED, None, 0.87),
        )
    ]  # fmt: skip
    sweeps = [
        GrowthPoint(
            "steps", Setting("eqprop", count), TrainingFootprint(0.1, 90_000_000, 28_000_000)
        )
        for count in (2, 8, 32)
    ]
    rows = _rows(tmp_path, "speed-convolution", Measurements(images=images, sweeps=sweeps))
    assert [row[2:] for row in rows] == [
        ("**2.00** (1.80 to 2.20)", "4.00 (3.60 to 4.40)"),
        ("2.50", "2.50"),
        ("**86.0 and 85.0 %** (± 1.6)",) * 2,
        ("**1.60** (1.44 to 1.76)",) * 2,
        ("2.00 (1.80 to 2.20), 87.0 %", "4.00 (3.60 to 4.40), 87.0 %"),
        ("**± 0.0 %** (28.0 MB)", "not measured"),
    ]
    assert rows[5][0] == "peak memory, 2 to 32 sweeps"


def _growth() -> list[GrowthPoint]:
    """Time grows linearly; the memory of EqProp with its root, of its rivals linearly."""
    points = []
    for axis in ("steps", "width", "depth", "batch"):
        for value in (1, 4, 16):
            for learner in LEARNERS:
                extra = 8e6 * value**0.5 if learner == "eqprop" else 4e6 * value
                seconds = (2.0 if learner == "eqprop" else 1.0) * value
                footprint = TrainingFootprint(seconds, 10**8, int(extra))
                setting = replace(Setting(learner), **{axis: value})
                points.append(GrowthPoint(axis, setting, footprint))
    return points


def test_growth_has_exponents_and_crossings(tmp_path: Path) -> None:
    rows = _rows(tmp_path, "growth", Measurements(), _growth())
    assert rows[0] == ("steps", "1.00", "1.00", "1.00", "0.50", "1.00", "1.00", "± 71.4 %")
    assert rows[3] == ("batch", "1.00", "1.00", "1.00", "0.50", "1.00", "1.00", NONE)
    assert (tmp_path / MEASUREMENTS["growth-picture"].picture).is_file()
    rows = _rows(tmp_path, "growth-crossings", Measurements(), _growth())
    assert rows[3] == ("width", "BPTT", "width above 4 (2.00 to 0.50)", "nowhere (2.00 to 2.00)")


def test_predictions_are_sorted_by_what_answers(tmp_path: Path) -> None:
    times = [
        PredictionTime(what, rival, batch, 90e-6 * batch, 50e-6, _spread(1.8), 4.0)
        for batch in (1, 1000, 10_000)
        for what, rival in RIVALS.items()
    ]
    rows = _rows(tmp_path, "prediction", Measurements(predictions=times, task="MNIST"))
    assert rows[0] == (SERVED, "1", "**90**", RIVALS[SERVED], "50", "1.80 (1.62 to 1.98)")
    assert rows[1][:3] == (SERVED, "1,000", "90,000")
    assert rows[5] == (
        CLASSES,
        "10,000",
        "900,000",
        RIVALS[CLASSES],
        "50",
        "**1.80** (1.62 to 1.98)",
    )


def test_two_processes_stand_beside_one(tmp_path: Path) -> None:
    times = RoundTimes({128: [6e-3, 7e-3], 256: [0.01]}, [0.01], [0.02], [1e-3], {1024: [1e-3]})
    scalings = [
        Scaling("strong", 128, _spread(0.0118), _spread(0.4), 1e-3, 0.009, 0.76),
        Scaling("weak", 256, _spread(0.015), _spread(0.7), None, 0.013, 0.87),
    ]
    results = ParallelResults(ParallelSize(), 9, times, StepModel(1e-3, 1e-5, 1e-4, 1e9), scalings)
    rows = _rows(tmp_path, "parallel", Measurements(parallel=results))
    assert rows[:2] == (
        ("one process", "128", "6.5", NONE, NONE, NONE),
        ("one process", "256", "10.0", NONE, NONE, NONE),
    )
    assert rows[2] == (
        "two processes, strong",
        "128",
        "11.8 (10.6 to 13.0)",
        "0.40 (0.36 to 0.44)",
        "9.0",
        "0.76",
    )
    assert rows[3][5] == "**0.87**"
