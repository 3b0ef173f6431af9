"""The report of a grid of settings: tables, plots, and the same as JSON and CSV."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from experiments.hardware.contest import accuracy_spread
from experiments.hardware.cost_tables import plain_time
from experiments.hardware.costs import scaled
from experiments.hardware.grid import GridPoint, SettingsGrid, front
from experiments.hardware.grid_plot import grid_picture
from experiments.hardware.kept_runs import RUN_FILE, run_values
from experiments.hardware.measures import Measure, render_csv
from experiments.hardware.priced import priced_blocks
from experiments.hardware.report_tables import range_text, ratio_text, worn_text
from experiments.hardware.sample_tables import time_text
from experiments.records import write_text
from experiments.reporting.document import Badge, Code, Document, Figure, Section, Table
from experiments.reporting.html_page import render_html
from experiments.reporting.json_page import render_json
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.number_text import NONE, in_units, number, percent
from experiments.reporting.picture import write_picture

FORMAT = "settle hardware sweep 1"
SWEEP_FILES = (
    "sweep.html", "sweep.md", "sweep.json", "sweep.csv", "plots/sweep-loihi_like.png", RUN_FILE,
)  # fmt: skip
METHOD = (
    "EqProp is trained at every point of the grid, for all epochs, with every seed. Accuracies are "
    "of the test part, mean ± deviation over seeds. Energy and time of a training sample include "
    "updates; in brackets are the 5th and 95th percentile over the ranges of the prices, and for a "
    "training sample over the seeds, too. A point is on the front if no other is at least as "
    "accurate (in the mean) and needs at most as much energy for an inference."
)


def grid_tables(grid: SettingsGrid, points: Sequence[GridPoint]) -> list[Table]:
    """Return a table for each chip and technology."""
    return [_table(grid, found) for found in by_technology(points).values()]


def by_technology(points: Sequence[GridPoint]) -> dict[tuple[str, str], list[GridPoint]]:
    """Return the points of each chip and technology."""
    groups: dict[tuple[str, str], list[GridPoint]] = {}
    for point in points:
        groups.setdefault((point.substrate, point.technology.name), []).append(point)
    return groups


def write_grid(
    grid: SettingsGrid,
    points: Sequence[GridPoint],
    folder: Path,
    command: str,
    machine: Mapping[str, str],
) -> Document:
    """Write `sweep.html`, `.md`, `.json` and `.csv`, and plots; return the document."""
    groups = by_technology(points)
    pictures = [grid_picture(grid, name, found) for (_, name), found in groups.items()]
    for picture in pictures:
        write_picture(folder, picture)
    outcomes = [outcome for point in points for outcome in point.group]
    priced = priced_blocks(
        grid.jobs[0].task.title,
        outcomes,
        {point.technology.name: point.technology for point in points},
        {"eqprop": grid.networks[outcomes[0].label]},
        grid.cells,
        tuple(grid.axes),
    )
    tables = grid_tables(grid, points)
    network = next(block for block in priced if isinstance(block, Figure))
    write_text(folder / network.path, network.svg)
    sections = (
        Section("What was priced", tuple(priced)),
        *(
            Section(f"{substrate}, {name}", (table, picture.figure))
            for (substrate, name), table, picture in zip(groups, tables, pictures, strict=True)
        ),
        Section("How the numbers were made", (
            METHOD, Table("Machine", ("Part", "Version"), tuple(machine.items()), text_columns=2),
            "The command that makes this report again:", Code(command))),
    )  # fmt: skip
    document = Document("A grid of settings", tuple(_lead(grid, groups)), sections)
    write_text(folder / "sweep.json", _json(grid, points, command, machine))
    write_text(folder / "sweep.csv", render_csv(grid_measures(grid, points)))
    write_text(folder / "sweep.md", render_markdown(document))
    write_text(folder / "sweep.html", render_html(document))
    return document


def grid_measures(grid: SettingsGrid, points: Sequence[GridPoint]) -> list[Measure]:
    """Return every number of the tables, one a row."""
    found = []
    for point in points:
        setting = ", ".join(f"{k}={v}" for k, v in zip(grid.axes, point.place, strict=True))
        of = point.substrate, point.technology.name, "eqprop", setting
        found += [Measure(*of, str(o.seed), "test accuracy", "", o.accuracy) for o in point.group]
        for what, unit, value in _ranges(point):
            if value is not None:
                found.append(Measure(*of, "", what, unit, value.nominal, value.low, value.high))
        bits = point.once.design.memory_bits
        found.append(Measure(*of, "", "memory", "bits", bits))
    return found


def _ranges(point: GridPoint) -> list[tuple[str, str, Any]]:
    share = 1 / point.inferences
    time, once = point.training_time(), scaled(point.once.latency(), share)
    return [
        ("energy of a training sample", "J", point.training_energy()),
        ("time of a training sample", "s", time if time.high else None),
        ("energy of an inference", "J", scaled(point.once.energy(), share)),
        ("time of an inference", "s", once if once.high else None),
        ("area", "m2", point.once.area()),
        ("wear of a training", "", point.worst.wear()),
    ]


def _table(grid: SettingsGrid, points: Sequence[GridPoint]) -> Table:
    best = front(points)
    rows = []
    for point in points:
        area, share = point.worst.area(), 1 / point.inferences
        rows.append(
            (
                *point.place,
                percent(*accuracy_spread(point.group)),
                range_text(scaled(point.once.energy(), share), "J"),
                time_text(point.once.latency_s * share),
                range_text(point.training_energy(), "J"),
                time_text(point.training_time().nominal),
                number(point.worst.design.memory_bits / 8192, 1),
                NONE if area is None else ratio_text(scaled(area, 1e6)),
                worn_text(point.worst),
                Badge("yes", "good") if point.place in best else NONE,
            )
        )
    header = (
        *grid.axes, "Test accuracy, %",
        "Inference: energy", "Inference: time", "Training sample: energy", "Training sample: time",
        "KiB", "Area, mm²", "Trainings until worn out", "On the front",
    )  # fmt: skip
    seeds = len(points[0].group)
    caption = f"{seeds} seed{'s' if seeds > 1 else ''} each. Memory is for one sample in flight."
    title = f"Points on {points[0].substrate}, priced in {points[0].technology.name}"
    kept = [j for j in range(len(header)) if any(row[j] != NONE for row in rows)]  # says something
    shown = tuple(tuple(row[j] for j in kept) for row in rows)
    return Table(title, tuple(header[j] for j in kept), shown, caption, len(grid.axes))


def _lead(grid: SettingsGrid, groups: Mapping[tuple[str, str], Sequence[GridPoint]]) -> list[str]:
    """Say which point needs least and is not clearly worse than the best."""
    sentences = []
    for (substrate, name), points in groups.items():
        best = max(points, key=lambda p: accuracy_spread(p.group)[0])
        mean, deviation = accuracy_spread(best.group)
        room = 0.0 if np.isnan(deviation) else deviation
        near = [p for p in points if accuracy_spread(p.group)[0] >= mean - room]
        least = min(near, key=lambda p: p.once.energy_j)
        needs = f"{in_units(least.once.energy_j / least.inferences, 'J')} an inference"
        said = f"{substrate}, {name}: the most accurate point is {best.group[0].label} "
        said += f"({percent(mean, deviation)} %)"
        if least is best:
            said += f", and of those within one deviation of it none needs less energy ({needs})."
        else:
            said += (
                f"; of those within one deviation of it {least.group[0].label} needs least energy "
                f"({percent(*accuracy_spread(least.group))} %, {needs})."
            )
        sentences.append(said)
    return sentences


def _json(
    grid: SettingsGrid, points: Sequence[GridPoint], command: str, machine: Mapping[str, str]
) -> str:
    runs = {id(o): o for point in points for o in point.group}
    content = {
        "format": FORMAT,
        "command": command,
        "machine": dict(machine),
        "task": grid.jobs[0].task.title,
        "axes": grid.axes,
        "points": [
            {
                "substrate": point.substrate,
                "technology": point.technology.name,
                "settings": dict(zip(grid.axes, point.place, strict=True)),
                "accuracies": {o.seed: o.accuracy for o in point.group},
                "training_sample_energy_j": asdict(point.training_energy()),
                "training_sample_latency_s": plain_time(point.training_time()),
                "inference_energy_j": asdict(scaled(point.once.energy(), 1 / point.inferences)),
                "inference_latency_s": plain_time(
                    scaled(point.once.latency(), 1 / point.inferences)
                ),
                "area_m2": None if (area := point.once.area()) is None else asdict(area),
                "memory_bits": point.once.design.memory_bits,
            }
            for point in points
        ],
        "runs": [run_values(outcome) for outcome in runs.values()],
    }
    return render_json(content)
