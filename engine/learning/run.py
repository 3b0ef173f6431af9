"""The evolving side of a training run: what has to survive an interruption."""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from engine.arrays import Array, FloatArray, OwnArray, checked_precision
from engine.backend import Backend
from engine.border import checked
from engine.errors import check_count, check_seed
from engine.learning.spectral import starting_vectors
from engine.model.network import Network


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training set measured; costs are means over samples."""

    number: int
    cost: float
    free_steps: float
    nudged_steps: float
    unsettled: float
    """Share of relaxations that did not reach their tolerance."""
    seconds: float
    valid_cost: float | None = None
    valid_accuracy: float | None = None

    def validated(self, cost: float, accuracy: float | None) -> "Epoch":
        """Return the same with the result on the validation set."""
        return replace(self, valid_cost=cost, valid_accuracy=accuracy)

    def summary(self) -> str:
        """Say in a few words how it went."""
        text = f"cost {self.cost:.4f}"
        if self.valid_accuracy is not None:
            text += f", validation {self.valid_accuracy:.2%}"
        return text


@checked
@dataclass
class Run:
    """Everything that changes during training, apart from the parameters.

    It starts in numpy arrays; `on` moves it to where a backend computes.
    """

    memory: OwnArray
    """The optimizer's words for each parameter, `(moments, parameters)`."""
    gradient: OwnArray
    vectors: dict[str, OwnArray]
    """Kept directions of the power iterations."""
    rng: np.random.Generator
    epoch: int = 0
    step: int = 0
    history: list[Epoch] = field(default_factory=list)
    best_theta: FloatArray | None = None
    best_epoch: int = 0
    settings: dict[str, Array] = field(default_factory=dict, repr=False)
    """Arrays of the training's settings, moved to the backend when they were first used."""

    @classmethod
    @checked
    def start(cls, network: Network, moments: int, dtype: npt.DTypeLike, seed: int) -> "Run":
        """Return the state before the first step; `dtype` is that of the backend to train."""
        check_count("moments", moments)
        check_seed(seed)
        precision = checked_precision(dtype)
        return cls(
            memory=np.zeros((moments, network.size), precision),
            gradient=np.zeros(network.size, precision),
            vectors=starting_vectors(network),
            rng=np.random.default_rng(seed),
        )

    def on(self, backend: Backend) -> "Run":
        """Return the run in the arrays of a backend; those that are there already are shared."""
        return replace(
            self,
            memory=backend.own(self.memory),
            gradient=backend.own(self.gradient),
            vectors={name: backend.own(vector) for name, vector in self.vectors.items()},
        )

    def off(self, backend: Backend) -> "Run":
        """Return the run in numpy arrays, as it is saved."""
        vectors = {name: backend.host(vector) for name, vector in self.vectors.items()}
        return replace(
            self,
            memory=backend.host(self.memory),
            gradient=backend.host(self.gradient),
            vectors={name: np.asarray(v, np.float64) for name, v in vectors.items()},
        )

    def keep_if_best(self, epoch: Epoch, theta: FloatArray) -> None:
        """Remember the parameters of the epoch with the best validation result so far."""
        if self.best_epoch == 0 or _score(epoch) > _score(self.history[self.best_epoch - 1]):
            self.best_epoch, self.best_theta = epoch.number, theta.copy()


def _score(epoch: Epoch) -> tuple[float, float]:
    """Accuracy decides where there is one, then the cost."""
    return epoch.valid_accuracy or 0.0, -(epoch.valid_cost or 0.0)
