"""The settings of the vision runs, in one table.

`CHOSEN` holds what `--tune` found on the validation split, with seeds that no reported run uses.
The rest is a budget that all contestants of a task share.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.equilibrium import Relaxation
from engine.learning.optimizer import Adam
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training
from engine.model.network import Network
from experiments.contest.baselines import check_activation
from experiments.contest.choices import COMPILED
from experiments.tasks import Task
from experiments.vision.networks import conv_stack, kernels_of


@dataclass(frozen=True)
class VisionSettings:
    """Everything that a run depends on, apart from task, contestant and seed."""

    layers: str = "32/2-64/2"
    """Channels and stride of each layer, from the image upwards."""
    kernel: int = 3
    activation: str = "relu"
    batch_size: int = 100
    epochs: int = 8
    free_steps: int = 10
    """Most sweeps over the layers in the free phase."""
    nudged_steps: int = 4
    tolerance: float = 0.03
    nudged_tolerance: float = 1e-3
    """In proportion to the nudge, which moves states by as much."""
    bptt_steps: int = 6
    """Steps that backprop goes back through from where the network has settled."""
    beta: float | str = "auto"
    """With `auto`, and no other estimator, one tiny nudge, as a displacement."""
    estimator: str = "auto"
    cap: float = 0.95
    lr: float = 3e-3
    decay: float = 0.0
    """Weight decay of the matrices, apart from the gradient."""
    views: str = ""
    """Other views of the training images (`experiments.vision.augment`), such as `mirror+shift`."""
    images: int = 0
    """Training images that are used, the first of the shuffled part; 0 means all."""
    device: str = COMPILED
    data: str = ""
    """Checksum of a user's file, so that runs on other contents are not taken for the same."""

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    def network(self, task: Task) -> Network:
        """Return the network that relaxes."""
        if task.image is None:
            raise ValueError(f"task {task.name} has no images")
        check_activation(self.activation)
        return conv_stack(task.image, self.layers, self.kernel, self.activation, task.classes)

    def training(self, network: Network, seed: int) -> Training:
        """Return the settings as the engine takes them."""
        free = Relaxation(self.free_steps, self.tolerance, "sweeps")
        matrices = [*(coupling.name for coupling in kernels_of(network)), "W_out"]
        return Training(
            epochs=self.epochs,
            batch_size=self.batch_size,
            beta=self.beta,
            estimator=self.estimator,
            free=free,
            nudged=replace(free, max_steps=self.nudged_steps, tolerance=self.nudged_tolerance),
            optimizer=Adam(self.lr),
            cap=SpectralCap(self.cap),
            decay=dict.fromkeys(matrices, self.decay),
            seed=seed,
        )


DEPTH2, DEPTH7 = "32/2-64/2", "16/2-16-16-32/2-32-32-64/2"
"""Two layers and seven with about as many parameters, so that depth alone is compared."""

FEW_SWEEPS = VisionSettings(free_steps=3, nudged_steps=2, nudged_tolerance=0.0)
"""For the large tasks: hours, not days; the report says what is left of the gradient."""

BUDGETS = {
    "digits": VisionSettings(layers="16/2-32/2", batch_size=32, epochs=20),
    "fashion_mnist_10k": VisionSettings(layers="16/2-32/2", batch_size=50, epochs=8),
    "mnist": replace(FEW_SWEEPS, kernel=5, epochs=8, views="shift"),
    "fashion_mnist": replace(FEW_SWEEPS, layers="64/2-128/2-128/2", epochs=8, views="mirror+hide"),
    "cifar10": replace(FEW_SWEEPS, layers="32/2-64/2-128/2", epochs=15, views="mirror+shift"),
    "fashion_mnist_depth2": replace(FEW_SWEEPS, layers=DEPTH2, epochs=6, views="mirror"),
    "fashion_mnist_depth7": replace(
        FEW_SWEEPS, layers=DEPTH7, epochs=6, views="mirror", free_steps=4, bptt_steps=14
    ),
}
USER_BUDGET = VisionSettings(layers="16/2-32/2", batch_size=32, epochs=20)
"""For images that a user brings."""

CHOSEN: dict[str, dict[str, dict[str, Any]]] = {
    "mnist": {
        "eqprop_conv": {"lr": 3e-3, "decay": 0.0},
        "backprop_conv": {"lr": 3e-3, "decay": 0.0},
    },
    "fashion_mnist": {
        "eqprop_conv": {"lr": 3e-3, "decay": 0.0},
        "backprop_conv": {"lr": 3e-3, "decay": 0.0},
    },
    "cifar10": {
        "eqprop_conv": {"lr": 3e-3, "decay": 0.1},
        "backprop_conv": {"lr": 3e-3, "decay": 0.1},
    },
    "fashion_mnist_depth7": {
        "eqprop_conv": {"lr": 3e-3, "decay": 0.0},
        "backprop_conv": {"lr": 3e-3, "decay": 0.0},
    },
}
"""Task, contestant: what `python -m experiments.vision --tune --tasks NAME` chose.

A task that is not here runs with the values of its budget.
"""
CHOSEN["fashion_mnist_depth2"] = CHOSEN["fashion_mnist_depth7"]  # nothing but depth differs


def settings_for(task: str, contestant: str) -> VisionSettings:
    """Return the settings of a run."""
    chosen = CHOSEN.get(task, {}).get(contestant, {})
    return replace(BUDGETS.get(task, USER_BUDGET), **chosen)
