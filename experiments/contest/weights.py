"""The trained networks of runs as `.npz` files, each with what has to be known to use it.

A network that relaxes is a checkpoint of the engine (`engine.learning.checkpoint.load`), a module
of torch one array for each of its parameters. Both say in the text `settings` what was trained,
and how its inputs were normalised: `x = (raw - mean) / scale`; targets that are numbers, too.
"""

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.archives import read_arrays
from engine.errors import EngineError
from engine.learning import checkpoint
from engine.model.params import Params
from experiments.contest.jobs import TrainingJob
from experiments.records import write_bytes
from experiments.saved_network import FEED_FORWARD
from experiments.tasks import Split

Weights = Params | Mapping[str, npt.NDArray[Any]]


def save_weights(job: TrainingJob, weights: Weights, split: Split) -> None:
    """Write the network of a run, if it is to be kept."""
    path = job.weights
    if path is None:
        return
    about = json.dumps(_about(job, split))
    if isinstance(weights, Params):
        checkpoint.save(path, weights, settings=about)
        return
    content, head = io.BytesIO(), json.dumps({"format": FEED_FORWARD, "settings": about})
    np.savez(content, allow_pickle=False, head=np.array(head), **weights)
    write_bytes(path, content.getvalue())


def are_saved(job: TrainingJob) -> bool:
    """Tell whether the network of a run, with these settings, is where it should be, if at all."""
    if job.weights is None:
        return True
    try:
        head = json.loads(str(read_arrays(job.weights)["head"]))
        return bool(json.loads(head["settings"])["settings"] == job.settings.as_dict())
    except (OSError, ValueError, KeyError, TypeError, EngineError):
        return False


def _about(job: TrainingJob, split: Split) -> dict[str, Any]:
    target = {"target_mean": split.y_mean, "target_scale": split.y_scale}
    return {
        "task": job.task.name,
        "title": job.task.title,
        "names": list(job.task.names),
        "contestant": job.contestant,
        "seed": job.seed,
        "settings": job.settings.as_dict(),
        "mean": split.mean.tolist(),
        "scale": split.scale.tolist(),
        **(target if job.task.continuous else {}),
    }
