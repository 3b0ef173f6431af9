"""The tables that only the vision report has: headline, published results, cosine by layer."""

from collections.abc import Iterable, Sequence

import numpy as np

from experiments.contest.result_tables import accuracy_text, gap_text, verdict_badge
from experiments.contest.roster import Roster
from experiments.contest.runs import Runs, task_title
from experiments.contest.summary import ContestSummary, TaskSummary
from experiments.records import Record
from experiments.reporting.document import Badge, Cell, Cited, Table
from experiments.reporting.number_text import NONE, number, percent, points, setting
from experiments.vision.choices import VISION_TASKS
from experiments.vision.published import PUBLISHED
from experiments.vision.roster import BACKPROP, BPTT, EQPROP


def headline_table(summary: ContestSummary) -> Table:
    """Put EqProp beside backprop with the same layers, task by task."""
    rows: list[tuple[Cell, ...]] = []
    for task in summary.tasks:
        judged = task.judgements.get(EQPROP)
        rows.append(
            (
                task.title,
                network_text(task),
                *(accuracy_text(task, name) for name in (BACKPROP, BPTT, EQPROP)),
                gap_text(judged.comparison) if judged else NONE,
                verdict_badge(judged.verdict) if judged else Badge("not compared", "open"),
            )
        )
    return Table(
        "EqProp and backprop on images",
        (
            "Task",
            "Layers",
            "Backprop,\nsame layers",
            "Backprop,\nsteps",
            "EqProp",
            "Gap\n(95 % CI)",
            "Verdict",
        ),
        tuple(rows),
        caption="Percent of the test part, mean ± standard deviation over seeds. Layers: channels "
        "/ stride from the image upwards. Same layers: a feed-forward network of them. Steps: "
        "backprop through the relaxation of the network that EqProp trains. The gap is EqProp "
        "minus backprop with the same layers, in percentage points, paired by seed.",
        text_columns=2,
    )


def has_published(summary: ContestSummary) -> bool:
    """Tell whether there is more than a user's own images."""
    return not summary.tasks or any(task.name in VISION_TASKS for task in summary.tasks)


def published_table(summary: ContestSummary, runs: Runs) -> Table:
    """Put what was measured here beside published results, each with network and steps."""
    rows: list[tuple[Cell, ...]] = []
    for task in summary.tasks:
        if EQPROP in task.results:
            steps = steps_text(runs[task.name].get(EQPROP, {}).values())
            accuracies = (accuracy_text(task, name) for name in (EQPROP, BACKPROP))
            rows.append((task.title, "here", network_text(task), steps, *accuracies))
    for result in PUBLISHED:
        source = Cited(result.source, result.address) if result.address else result.source
        known = (result.task, source, result.network, result.steps or NONE)
        rows.append((*known, percent(result.accuracy), NONE))
    return Table(
        "Beside published results of EqProp",
        (
            "Task",
            "Source",
            "Network",
            "Steps, free + nudged",
            "EqProp, %",
            "Backprop, same layers, %",
        ),
        tuple(rows),
        caption="Percent of the test part. Layers here: channels / stride. Steps: mean of the last "
        "epoch, or as published. The networks here are smaller and train for fewer epochs than the "
        "published convolutional ones.",
        text_columns=3,
    )


def layers_table(runs: Runs) -> Table:
    """List the cosine of each layer's gradient with the exact one, bottom to top."""
    measured = {
        task_title(task): list(layer_cosines(task.get(EQPROP, {}).values()))
        for task in runs.values()
    }
    deepest = max((len(row) for rows in measured.values() for _, row in rows), default=0)
    rows: list[tuple[Cell, ...]] = []
    for title, moments in measured.items():
        for epoch, cosines in moments:
            *kernels, readout = (number(value, 4) for value in cosines)
            gaps = [NONE] * (deepest - 1 - len(kernels))
            rows.append((title, str(epoch), *kernels, *gaps, readout))
    names = [f"Layer {k + 1}" for k in range(deepest - 1)]
    return Table(
        "Gradient by layer, bottom to top",
        ("Task", "Epoch", *names, "Read-out"),
        tuple(rows),
        caption="Cosine of the EqProp estimate, as trained with, with the gradient by autograd at "
        "the equilibrium in double precision, on a fixed batch: lowest of all seeds.",
    )


def layer_cosines(records: Iterable[Record]) -> list[tuple[int, Sequence[float]]]:
    """Return the lowest cosine over seeds of each layer, for every epoch that was looked at."""
    by_epoch: dict[int, list[Sequence[float]]] = {}
    for record in records:
        for epoch, cosines in record.measures.get("layer_cosines", {}).items():
            by_epoch.setdefault(int(epoch), []).append(cosines)
    return [(epoch, np.min(by_epoch[epoch], axis=0).tolist()) for epoch in sorted(by_epoch)]


def depth_sentences(roster: Roster, summary: ContestSummary, shallow: str, deep: str) -> list[str]:
    """Say how far the deep network is from the shallow one, where both ran."""
    found = {task.name: task.results.get(EQPROP) for task in summary.tasks}
    flat, tall = found.get(shallow), found.get(deep)
    if flat is None or tall is None:
        return []
    return [
        f"EqProp, {roster.tasks[deep]} minus {roster.tasks[shallow]}: "
        f"{points(tall.mean - flat.mean)} percentage points."
    ]


def network_text(task: TaskSummary) -> str:
    """Return the layers of a task's networks, and how many parameters they have."""
    for name in (EQPROP, BACKPROP, BPTT):
        if name in task.results:
            result = task.results[name]
            sizes = " / ".join(f"{count:,}" for count in result.parameters)
            layers, kernels = (result.settings.get(key, ()) for key in ("layers", "kernel"))
            side = setting(kernels)
            return f"{setting(layers)}, {side}x{side}\n({sizes} parameters)"
    return NONE


def steps_text(records: Iterable[Record]) -> str:
    """Return mean steps of the free and of a nudged phase in the last epoch."""
    last = [record.curve[-1] for record in records if record.curve]
    phases = []
    for name in ("free_steps", "nudged_steps"):
        found = [getattr(point, name) for point in last if getattr(point, name) is not None]
        phases.append(number(float(np.mean(found))) if found else NONE)
    return " + ".join(phases)
