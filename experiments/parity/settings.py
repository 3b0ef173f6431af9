"""The settings of the parity runs, in one table.

`CHOSEN` and `BEST_BASELINE` hold what `--tune` found on the validation split, with seeds that no
reported run uses. The rest is a budget that all contestants of a task share.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.equilibrium import Relaxation, Solver
from engine.learning.optimizer import Adam
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training
from experiments.contest.choices import COMPILED


@dataclass(frozen=True)
class ParitySettings:
    """Everything that a run depends on, apart from task, contestant and seed."""

    hidden: int
    """Units of the looped network, or of each hidden layer of the others."""
    batch_size: int
    epochs: int
    layers: int = 2
    """Hidden layers of the layered and of the feed-forward network."""
    free_steps: int = 30
    nudged_steps: int = 15
    tolerance: float = 1e-3
    cap: float = 0.95
    cap_every: int = 1
    lr: float = 2.5e-3
    decay: float = 0.0
    """Weight decay of the matrices, apart from the gradient."""
    beta: float | str = 0.03
    estimator: str = "auto"
    activation: str = "tanh"
    device: str = COMPILED
    data: str = ""
    """Checksum of a user's file, so that runs on other contents are not taken for the same."""

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    def training(self, contestant: str, seed: int) -> Training:
        """Return the settings as the engine takes them; the layered network alternates."""
        solver: Solver = "alternating" if contestant == "eqprop_layered" else "fixed_point"
        free = Relaxation(self.free_steps, self.tolerance, solver)
        return Training(
            epochs=self.epochs,
            batch_size=self.batch_size,
            beta=self.beta,
            estimator=self.estimator,
            free=free,
            nudged=replace(free, max_steps=self.nudged_steps),
            optimizer=Adam(self.lr),
            cap=SpectralCap(self.cap, self.cap_every),
            seed=seed,
        )


_IMAGES = ParitySettings(
    hidden=256,
    batch_size=128,
    epochs=12,
    free_steps=20,
    nudged_steps=8,
    cap_every=10,
    activation="relu",
)
BUDGETS = {
    "digits": ParitySettings(hidden=128, batch_size=32, epochs=30),
    "mnist": _IMAGES,
    "fashion_mnist": _IMAGES,
    "cartpole": ParitySettings(hidden=64, batch_size=64, epochs=10, beta=0.01),
    "acrobot": ParitySettings(hidden=64, batch_size=64, epochs=10, beta=0.01),
}
USER_BUDGET = ParitySettings(hidden=64, batch_size=32, epochs=30)
"""For data that a user brings."""

CHOSEN: dict[str, dict[str, dict[str, Any]]] = {
    "digits": {
        "eqprop_looped": {"lr": 4e-2, "decay": 0.3, "activation": "tanh", "beta": 0.03},
        "eqprop_layered": {"lr": 4e-2, "decay": 0.0, "activation": "tanh", "beta": 0.03},
        "backprop_looped": {"lr": 4e-2, "decay": 0.3, "activation": "tanh"},
        "backprop_feedforward": {"lr": 1.5e-2, "decay": 0.3, "activation": "relu"},
    },
    "mnist": {
        "eqprop_looped": {"lr": 2.5e-3, "decay": 0.3, "activation": "relu", "beta": 0.1},
        "eqprop_layered": {"lr": 2.5e-3, "decay": 0.3, "activation": "relu", "beta": 0.03},
        "backprop_looped": {"lr": 2.5e-3, "decay": 0.3, "activation": "relu"},
        "backprop_feedforward": {"lr": 2.5e-3, "decay": 0.3, "activation": "relu"},
    },
    "fashion_mnist": {
        "eqprop_looped": {"lr": 2.5e-3, "decay": 0.3, "activation": "relu", "beta": 0.03},
        "eqprop_layered": {"lr": 1e-3, "decay": 0.0, "activation": "relu", "beta": 0.03},
        "backprop_looped": {"lr": 1e-3, "decay": 0.3, "activation": "relu"},
        "backprop_feedforward": {"lr": 2.5e-3, "decay": 0.3, "activation": "relu"},
    },
    "cartpole": {
        "eqprop_looped": {"lr": 1.5e-2, "decay": 0.0, "activation": "tanh", "beta": 0.01},
        "eqprop_layered": {"lr": 1.5e-2, "decay": 0.0, "activation": "tanh", "beta": 0.01},
        "backprop_looped": {"lr": 1.5e-2, "decay": 0.0, "activation": "tanh"},
        "backprop_feedforward": {"lr": 1.5e-2, "decay": 0.0, "activation": "tanh"},
    },
    "acrobot": {
        "eqprop_looped": {"lr": 1.5e-2, "decay": 0.0, "activation": "tanh", "beta": 0.01},
        "eqprop_layered": {"lr": 1.5e-2, "decay": 0.0, "activation": "tanh", "beta": 0.01},
        "backprop_looped": {"lr": 1.5e-2, "decay": 0.0, "activation": "tanh"},
        "backprop_feedforward": {"lr": 1.5e-2, "decay": 0.0, "activation": "tanh"},
    },
}
"""Task, contestant: what `python -m experiments.parity --tune --tasks NAME` chose.

A task that is not here runs with the values of its budget.
"""

BEST_BASELINE: dict[str, str] = {
    "digits": "backprop_feedforward",
    "mnist": "backprop_feedforward",
    "fashion_mnist": "backprop_feedforward",
    "cartpole": "backprop_looped",
    "acrobot": "backprop_feedforward",
}
"""The backprop contestant with the best validation accuracy, by the same command."""


SEEDS = {"digits": 10, "cartpole": 6, "acrobot": 6}
"""How many seeds fit five minutes on two cores, with the other tasks of a call without options."""
FEW_SEEDS = 3
"""Of tasks whose runs take minutes each."""
OWN_SEEDS = 5
"""On a user's data, whose size nobody knows."""


def usual_seeds(task: str) -> int:
    """Return how many seeds a task has if nothing is said."""
    return SEEDS.get(task, FEW_SEEDS if task in BUDGETS else OWN_SEEDS)


def budget_of(task: str) -> ParitySettings:
    """Return the settings that all contestants of a task share."""
    return BUDGETS.get(task, USER_BUDGET)


def settings_for(task: str, contestant: str) -> ParitySettings:
    """Return the settings of a run; a control has those of the looped EqProp network."""
    tuned = CHOSEN.get(task, {})
    return replace(budget_of(task), **tuned.get(contestant, tuned.get("eqprop_looped", {})))
