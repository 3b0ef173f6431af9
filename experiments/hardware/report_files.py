"""The files of the hardware report, and its tables in the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from experiments.hardware.contest import Summary
from experiments.hardware.cost_tables import cost_table, cost_values, plain_time, saved_table
from experiments.hardware.costs import Contest, scaled
from experiments.hardware.glance_table import glance_table
from experiments.hardware.job import Outcome
from experiments.hardware.kept_runs import RUN_FILE, run_values
from experiments.hardware.mapping import ChipMapping, mapping_table, mappings
from experiments.hardware.measures import render_csv
from experiments.hardware.network_drawing import PATH
from experiments.hardware.priced import priced_rows
from experiments.hardware.published import publications
from experiments.hardware.ratio_tables import break_even_tables, headline_tables
from experiments.hardware.report_document import build_document, lead_sentences
from experiments.hardware.report_measures import report_measures
from experiments.hardware.report_plots import draw_plots
from experiments.hardware.report_tables import learning_table
from experiments.hardware.sample_tables import priced_runs, sample_table, training_samples
from experiments.hardware.target import Targets, update_reached
from experiments.hardware.throughput_tables import throughput_table, throughput_values
from experiments.hardware.trends import trends_table
from experiments.records import write_text
from experiments.reporting.document import Figure
from experiments.reporting.html_page import render_html
from experiments.reporting.json_page import render_json
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.picture import write_picture
from experiments.reporting.terminal_table import rich_table
from hw_sim.prices.bill import Bill, grouped
from hw_sim.prices.technology import Technology

FORMAT = "settle hardware report 4"
FILES = (
    "report.html", "report.md", "report.json", "report.csv", "plots/energy.png", PATH, RUN_FILE,
)  # fmt: skip
"""What has to be writable before the work; the plots are beside the first."""


def write_report(
    summary: Summary,
    folder: Path,
    technologies: Mapping[str, Technology],
    command: str,
    machine: Mapping[str, str],
) -> None:
    """Write `report.md`, `.html`, `.json` and `.csv`, and PNG and SVG under `plots`."""
    used = {contest.technology.name: contest.technology for contest in summary.contests}
    used |= {cost.technology.name: cost.technology for cost in summary.costs}
    pictures = draw_plots(summary, technologies)
    for picture in pictures:
        write_picture(folder, picture)
    figures = {picture.name: picture.figure for picture in pictures}
    document = build_document(summary, figures, list(used.values()), command, machine)
    for block in (block for part in document.sections for block in part.blocks):
        if isinstance(block, Figure) and block.path == PATH:  # the others are pictures
            write_text(folder / PATH, block.svg)
    write_text(folder / "report.json", report_json(summary, command, machine, list(used.values())))
    write_text(folder / "report.csv", render_csv(report_measures(summary)))
    write_text(folder / "report.md", render_markdown(document))
    write_text(folder / "report.html", render_html(document))


def print_summary(summary: Summary, console: Console) -> None:
    """Print the main tables and what is missing."""
    runs = priced_runs(summary.contests, summary.costs)
    tables = [
        learning_table(summary), saved_table(summary), glance_table(runs),
        *headline_tables(summary.contests),
        cost_table(summary.costs),
        sample_table(summary.contests, summary.costs), throughput_table(runs),
        mapping_table(mappings(summary), runs),
        *break_even_tables(summary.contests), trends_table(summary.sweeps),
    ]  # fmt: skip
    for table in tables:
        if table.rows:
            console.print(rich_table(table, console.width))
            console.print()
    for sentence in lead_sentences(summary):
        console.print(Text(sentence))
    for sentence in summary.missing:
        console.print(Text(f"Missing: {sentence}.", style="yellow"))


def report_json(
    summary: Summary, command: str, machine: Mapping[str, str], technologies: Sequence[Technology]
) -> str:
    """Return every run and every priced contest, of one training, as plain values."""
    content = {
        "format": FORMAT,
        "command": command,
        "machine": dict(machine),
        "task": summary.task,
        "priced": priced_rows(
            summary.task,
            summary.main_runs,
            {technology.name: technology for technology in technologies},
            summary.networks,
        ),
        "cells": summary.cells,
        "targets": [[*key, target] for key, target in summary.targets.items()],
        "missing": summary.missing,
        "contests": [_contest_values(contest) for contest in summary.contests],
        "costs": [cost_values(cost) for cost in summary.costs],
        "published": [asdict(f) | {"ratio": f.ratio} for p in publications() for f in p.figures],
        "throughputs": [
            {"substrate": run.substrate, "technology": run.technology.name, "learner": run.learner}
            | throughput_values(run)
            for run in priced_runs(summary.contests, summary.costs)
        ],
        "mappings": [_mapping_values(mapping) for mapping in mappings(summary)],
        "runs": [_run_values(o, summary.targets) for g in summary.outcomes.values() for o in g],
        "sweeps": [_run_values(outcome, {}) for outcome in summary.sweeps],
    }
    return render_json(content)


def _run_values(outcome: Outcome, targets: Targets) -> dict[str, Any]:
    found = run_values(outcome)
    if (outcome.substrate, outcome.seed) in targets:
        found["update_of_target"] = update_reached(outcome, targets)
    return found


def _contest_values(contest: Contest) -> dict[str, Any]:
    ours, theirs, seeds = contest.ours, contest.theirs, contest.seeds
    area, wear = ours.area(), ours.wear()
    once, n, samples = contest.ours_once, contest.inferences, training_samples(ours)
    parts = {
        f"{what}_by_{by}": {
            name: value / seeds for name, value in grouped(found, by).items() if value
        }
        for what, found in (("energy_j", ours.energy_parts()), ("latency_s", ours.latency_parts()))
        for by in ("phase", "place", "kind")
    }
    return {
        "substrate": contest.substrate,
        "technology": contest.technology.name,
        "rival": contest.rival,
        "energy_j": asdict(contest.training_energy),
        "rival_energy_j": asdict(scaled(theirs.energy(), 1 / seeds)),
        "ratio": asdict(contest.ratio.both),
        "ratio_by_prices": asdict(contest.ratio.prices),
        "ratio_by_seeds": asdict(contest.ratio.seeds),
        "energies_j": [[a.energy_j, b.energy_j] for a, b in contest.pairs],
        "verdict": contest.verdict,
        "latency_s": plain_time(contest.training_time),
        "rival_latency_s": plain_time(scaled(theirs.latency(), 1 / seeds)),
        "latency_ratio": None if contest.time_ratio is None else asdict(contest.time_ratio.both),
        "inference_energy_j": asdict(contest.inference_energy()),
        "inference_latency_s": plain_time(scaled(once.latency(), 1 / n)),
        "inference_power_w": _power(once),
        "training_samples": samples,
        "training_sample_energy_j": asdict(scaled(ours.energy(), 1 / samples)),
        "training_sample_latency_s": plain_time(scaled(ours.latency(), 1 / samples)),
        "power_w": _power(ours),
        "rival_power_w": _power(theirs),
        "memory": asdict(ours.design.memory) | {"bits": ours.design.memory_bits},
        "area_m2": None if area is None else asdict(area),
        "wear": None if wear is None else asdict(wear),
        **parts,
        "steps": contest.steps,
        "sensitivity": [asdict(swing) for swing in contest.swings],
        "break_even": contest.break_even(),
        "break_even_times": contest.break_even_times(),
    }


def _mapping_values(mapping: ChipMapping) -> dict[str, Any]:
    plan = asdict(mapping.plan)
    for spot, busy in zip(plan["spots"], mapping.busy.tolist(), strict=True):
        spot["busy"] = busy
    return {"substrate": mapping.substrate, "utilisation": mapping.plan.utilisation} | plan


def _power(bill: Bill) -> dict[str, float] | None:
    power = bill.power()
    return None if power is None else asdict(power)
