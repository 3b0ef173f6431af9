"""Who takes part in the vision experiment, on what tasks, and for what goals."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from experiments.contest.roster import Look, Roster, TaskGoal
from experiments.records import Record
from experiments.reporting.plot_style import BLUE, DASHED, ORANGE, VERMILION
from experiments.vision.choices import DEEP, FULL, SHALLOW, VISION_TASKS

EQPROP, BACKPROP, BPTT = "eqprop_conv", "backprop_conv", "backprop_bptt"
CONTESTANTS = (EQPROP, BACKPROP, BPTT)
TITLES = {
    EQPROP: "EqProp convolutional",
    BACKPROP: "Backprop, same layers",
    BPTT: "Backprop through the steps",
}

DEEPER_BY = 0.005
"""How far seven layers may fall below two."""

GOALS = {
    "mnist": TaskGoal(0.992, margin=0.001),
    "fashion_mnist": TaskGoal(0.918, margin=0.003),
    "cifar10": TaskGoal(0.75, margin=0.01),
    SHALLOW: TaskGoal(None, margin=0.005),
    DEEP: TaskGoal(None, margin=0.005),
}

WITHOUT_BPTT = frozenset(FULL)
"""Tasks on which backprop through the steps would take longer than all the others together."""

VISION = Roster(
    title="EqProp against backprop on images",
    titles=TITLES,
    short={EQPROP: "EqProp", BACKPROP: "feed-forward", BPTT: "BPTT"},
    eqprop=(EQPROP,),
    baselines=(BACKPROP, BPTT),
    same_network=BPTT,
    claim="EqProp against backprop with the same layers",
    rival_title="backprop with the same layers",
    tasks={name: task.title for name, task in VISION_TASKS.items()},
    goals=GOALS,
    looks={EQPROP: Look(BLUE), BACKPROP: Look(ORANGE, DASHED), BPTT: Look(VERMILION)},
    rival=BACKPROP,
    unused={
        EQPROP: frozenset({"bptt_steps"}),
        BACKPROP: frozenset(
            {"cap", "free_steps", "nudged_steps", "nudged_tolerance", "bptt_steps", "tolerance"}
        ),
        BPTT: frozenset({"nudged_steps", "nudged_tolerance"}),
    },
)


def roster_for(records: Iterable[Record]) -> Roster:
    """Return the roster with the goal of the deep network, which is set by the shallow one."""
    shallow = [r.accuracy for r in records if (r.task, r.contestant) == (SHALLOW, EQPROP)]
    if not shallow:
        return VISION
    deep = replace(GOALS[DEEP], accuracy=float(np.mean(shallow)) - DEEPER_BY)
    return replace(VISION, goals={**GOALS, DEEP: deep})
