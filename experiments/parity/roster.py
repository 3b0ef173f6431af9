"""Who takes part in the parity experiment, on what tasks, and how they look in its report."""

from experiments.contest.roster import Look, Roster, TaskGoal
from experiments.parity.goals import REFERENCES
from experiments.reporting.plot_style import BLUE, DASHED, DOTTED, GREEN, ORANGE, SKY, VERMILION
from experiments.tasks import TASKS

LOOPED, LAYERED = "eqprop_looped", "eqprop_layered"
EQPROP = (LOOPED, LAYERED)
CIRCUIT = "eqprop_circuit"
"""Takes part where it is asked for."""
BPTT = "backprop_looped"
BASELINES = (BPTT, "backprop_feedforward")
CONTESTANTS = EQPROP + BASELINES
CONTROLS = ("no_recurrence", "frozen_recurrence", "readout_only", "flipped_sign")
TITLES = {
    "eqprop_looped": "EqProp looped",
    "eqprop_layered": "EqProp layered",
    "eqprop_circuit": "EqProp circuit",
    "backprop_looped": "Backprop looped (BPTT)",
    "backprop_feedforward": "Backprop feed-forward",
    "no_recurrence": "W_rec = 0",
    "frozen_recurrence": "W_rec frozen",
    "readout_only": "Read-out only",
    "flipped_sign": "Sign flipped",
}
SHORT = {
    "eqprop_looped": "looped",
    "eqprop_layered": "layered",
    "eqprop_circuit": "circuit",
    "backprop_looped": "BPTT",
    "backprop_feedforward": "MLP",
}

PARITY = Roster(
    title="EqProp against backprop",
    titles=TITLES,
    short=SHORT,
    eqprop=(*EQPROP, CIRCUIT),
    baselines=BASELINES,
    same_network=BPTT,
    claim="EqProp on the looped network against the best backprop baseline",
    rival_title="best backprop",
    tasks={name: task.title for name, task in TASKS.items()},
    goals={name: TaskGoal(known.goal, known.margin) for name, known in REFERENCES.items()},
    # Blues learn by EqProp, reds by backprop; dashes and the lighter of the two tell the network. A
    # circuit is green: intervals have no dashes.
    looks={
        "eqprop_looped": Look(BLUE),
        "eqprop_layered": Look(SKY, DASHED),
        "eqprop_circuit": Look(GREEN, DOTTED),
        "backprop_looped": Look(VERMILION),
        "backprop_feedforward": Look(ORANGE, DASHED),
    },
    optional=frozenset({CIRCUIT}),
    unused={
        "eqprop_looped": frozenset({"layers"}),
        "backprop_looped": frozenset({"beta", "estimator", "layers", "nudged_steps"}),
        "backprop_feedforward": frozenset(
            {"beta", "cap", "cap_every", "estimator", "free_steps", "nudged_steps", "tolerance"}
        ),
    },
)
