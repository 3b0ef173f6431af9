"""A trained network in a file, with what has to be known to use it on raw inputs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.errors import CheckpointError, EngineError
from engine.learning import checkpoint
from engine.model.params import Params
from experiments.tasks.task import RawArray

FEED_FORWARD = "settle feed-forward 1"
"""The format of a file that the engine has no network for."""
UNSCALED = "The file does not say how inputs were scaled: they are taken as they are."


@dataclass(frozen=True, eq=False)
class SavedNetwork:
    """Parameters, and how their inputs were scaled: `x = (raw - mean) / scale`."""

    params: Params
    mean: FloatArray
    scale: FloatArray
    names: tuple[str, ...] = ()
    """Of the classes, where the file has them."""
    task: str = ""
    is_scaled: bool = False
    """Whether the file says how inputs are scaled; else they are taken as they are."""
    target_mean: float = 0.0
    target_scale: float = 1.0
    """Of numbers to be predicted: `y = (raw - mean) / scale`."""

    def inputs(self, raw: FloatArray) -> FloatArray:
        """Return raw inputs as the network was trained on them, in its precision."""
        return ((raw - self.mean) / self.scale).astype(self.params.theta.dtype)

    def numbers(self, outputs: FloatArray) -> FloatArray:
        """Return what the network reads out in the units of the data that it was trained on."""
        return self.target_mean + self.target_scale * outputs.astype(np.float64)

    def targets(self, labels: RawArray) -> FloatArray:
        """Return labels that are numbers as the network was trained on them, `(samples, 1)`."""
        if labels.dtype.kind not in "biuf":
            raise EngineError(
                f"sample 1 has the label {str(labels[0])!r}, but the network predicts numbers."
            )
        return (labels.astype(np.float64)[:, None] - self.target_mean) / self.target_scale

    def label(self, place: int) -> str:
        """Return the name of a class, or its number where names are not known."""
        return self.names[place] if self.names else str(place)

    def places(self, labels: RawArray) -> IntArray:
        """Return the class of each label, counted from zero."""
        names = self.names or tuple(map(str, range(self.params.network.outputs)))
        known = {name: k for k, name in enumerate(names)}
        for row, label in enumerate(labels):
            if str(label) not in known:
                listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
                raise EngineError(
                    f"sample {row + 1} has the label {str(label)!r}, which is no class of the "
                    f"network; its classes: {listed}."
                )
        return np.array([known[str(label)] for label in labels], np.int64)


def read_network(path: Path) -> SavedNetwork:
    """Read what `engine.save` or `--save-weights` wrote; no code of the file is run."""
    try:
        params, _, settings = checkpoint.load(path)
    except CheckpointError as error:
        if FEED_FORWARD in str(error):
            raise EngineError(
                f"{path} is a feed-forward network, which does not relax: name one of EqProp, or "
                "of backprop through its relaxation."
            ) from None
        raise
    about = _about(settings)
    inputs = params.network.inputs
    if "mean" not in about:
        return SavedNetwork(params, np.zeros(inputs), np.ones(inputs))
    try:
        mean, scale = (np.asarray(about[name], np.float64) for name in ("mean", "scale"))
        names = tuple(map(str, about.get("names", ())))
        target_mean, target_scale = (
            float(about.get(f"target_{name}", usual)) for name, usual in (("mean", 0), ("scale", 1))
        )
    except (ValueError, TypeError, KeyError) as error:
        raise EngineError(f"{path} has no readable scaling of its inputs: {error}.") from None
    for name, values in (("mean", mean), ("scale", scale)):
        if values.shape not in ((), (1,), (inputs,)) or not np.isfinite(values).all():
            raise EngineError(
                f"{path} has a {name} of shape {values.shape}, expected ({inputs},) numbers."
            )
    if not (scale > 0.0).all():
        raise EngineError(f"{path} scales an input by {scale.min():g}, expected more than zero.")
    if not (np.isfinite(target_mean) and 0.0 < target_scale < np.inf):
        raise EngineError(f"{path} scales its target by {target_scale:g} from {target_mean:g}.")
    if names and len(names) != params.network.outputs:
        raise EngineError(
            f"{path} names {len(names)} classes, but its network has {params.network.outputs} "
            "outputs."
        )
    title = str(about.get("title", ""))
    return SavedNetwork(params, mean, scale, names, title, True, target_mean, target_scale)


def _about(settings: str) -> dict[str, Any]:
    """Return what `--save-weights` tells of a network; nothing for other files."""
    try:
        about = json.loads(settings)
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}
