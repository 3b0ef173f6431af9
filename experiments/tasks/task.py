"""What a task is: a declaration, and the split that its loader returns."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.int64]
"""As in `engine.arrays`, which brings the compiler along: a command names its tasks at once."""
RawArray: TypeAlias = npt.NDArray[Any]
"""Inputs before normalisation, of any numeric type."""

Part: TypeAlias = tuple[RawArray, RawArray]
"""Raw inputs `(samples, inputs)` and their labels `(samples,)`, integers but for numbers that are
to be predicted."""

Policy: TypeAlias = Callable[[FloatArray], IntArray]
"""Map raw observations `(batch, inputs)` to actions `(batch,)`."""


Image: TypeAlias = tuple[int, int, int]
"""Height, width and channels of an image; the last index is the first to change."""


class TaskError(ValueError):
    """A task, a data file or a policy that cannot be used, as one sentence."""


class MissingDataError(TaskError):
    """Published data that is not on this machine and cannot be fetched."""


@dataclass(frozen=True)
class Environment:
    """A gymnasium environment with discrete actions, and an expert worth imitating in it."""

    gym_id: str
    actions: int
    expert: Policy


@dataclass(frozen=True, eq=False)
class Split:
    """Normalised inputs (float32) and labels (int64) for training, validation and test.

    `mean` and `scale` come from the training part alone: `x = (raw - mean) / scale`. Where a
    number is to be predicted, the labels are targets (float32) of shape `(samples, 1)`, normalised
    by `y_mean` and `y_scale`.
    """

    x_train: FloatArray
    y_train: RawArray
    x_valid: FloatArray
    y_valid: RawArray
    x_test: FloatArray
    y_test: RawArray
    mean: FloatArray
    scale: FloatArray
    description: str
    y_mean: float = 0.0
    y_scale: float = 1.0

    @property
    def majority_rate(self) -> float:
        """Score on the test part of the best constant answer: accuracy, or an R2 of zero."""
        if self.y_test.dtype.kind == "f":
            return 0.0
        return float(np.bincount(self.y_test).max() / len(self.y_test))

    def normalise(self, raw: RawArray) -> FloatArray:
        """Return `raw` as the network saw its training inputs."""
        return _scaled(raw, self.mean, self.scale)

    def joined(self) -> "Split":
        """Return the split with validation joined to training, for runs after tuning.

        The validation part is then empty; the normalisation stays that of the tuned runs.
        """
        return replace(
            self,
            x_train=np.concatenate([self.x_train, self.x_valid]),
            y_train=np.concatenate([self.y_train, self.y_valid]),
            x_valid=self.x_valid[:0],
            y_valid=self.y_valid[:0],
            description=f"{self.description}; validation joined to training",
        )


@dataclass(frozen=True)
class Task:
    """Classes or numbers to be predicted: `load(seed)` returns the same split for the same seed.

    To run in other processes, `load` must pickle: a module's function, or a partial of one.
    """

    name: str
    title: str
    inputs: int
    classes: int
    load: Callable[[int], Split]
    environment: Environment | None = None
    """Where a cloned policy can act; its actions are then the classes."""
    image: Image | None = None
    """Height, width and channels, where the inputs are pixels in that order."""
    names: tuple[str, ...] = ()
    """Of the classes, where they have any but their numbers."""
    continuous: bool = False
    """Whether a number is to be predicted, of which there is one: `classes` is then 1."""
    note: str = ""
    """What was read from a user's file."""


def normalised_split(
    train: Part, valid: Part, test: Part, *, per_feature: bool, description: str
) -> Split:
    """Build a split from raw parts, with the mean and deviation of the training part.

    One number each for all inputs, or one for each input with `per_feature`. An input that never
    varies in training is only centred. Targets that are numbers are normalised as well.
    """
    axis = 0 if per_feature else None
    mean = np.asarray(train[0].mean(axis, dtype=np.float64))
    deviation = np.asarray(train[0].std(axis, dtype=np.float64))
    scale = np.where(deviation > 0, deviation, 1.0)
    x_train, x_valid, x_test = (_scaled(x, mean, scale) for x, _ in (train, valid, test))
    y_mean, y_scale, labels = 0.0, 1.0, [train[1], valid[1], test[1]]
    if train[1].dtype.kind == "f":
        y_mean, y_scale = float(train[1].mean()), float(train[1].std()) or 1.0
        labels = [((y[:, None] - y_mean) / y_scale).astype(np.float32) for y in labels]
    else:
        labels = [y.astype(np.int64) for y in labels]
    y_train, y_valid, y_test = labels
    return Split(
        *(x_train, y_train, x_valid, y_valid, x_test, y_test, mean, scale, description),
        y_mean,
        y_scale,
    )


def stratified_parts(
    x: RawArray, y: RawArray, seed: int, by_class: bool = True
) -> tuple[Part, Part, Part]:
    """Cut samples into 60 % training, 20 % validation and 20 % test, class by class or at random.

    Numbers that are to be predicted have no classes.
    """
    rest, test = held_out(x, y, seed, 0.2, by_class)
    return (*held_out(*rest, seed, 0.25, by_class), test)


def held_out(
    x: RawArray, y: RawArray, seed: int, share: float, by_class: bool = True
) -> tuple[Part, Part]:
    """Cut a share of the samples off, class by class or at random; return the rest and them."""
    # Here, since it takes over a second, and the help of a command names tasks without loading any.
    from sklearn.model_selection import train_test_split

    x_rest, x_held, y_rest, y_held = train_test_split(
        x, y, test_size=share, stratify=y if by_class else None, random_state=seed
    )
    return (x_rest, y_rest), (x_held, y_held)


def _scaled(raw: RawArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    # The difference is taken in float64, since a large mean would eat the digits that vary, but
    # in place of float32: a float64 copy of MNIST would weigh 350 MB.
    x = np.empty(raw.shape, dtype=np.float32)
    np.subtract(raw, mean, out=x, dtype=np.float64, casting="same_kind")
    np.divide(x, scale, out=x, dtype=np.float64, casting="same_kind")
    return x
