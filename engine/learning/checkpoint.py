"""Checkpoints: a network, its parameters and its run in one `.npz`, without pickle.

The file appears whole or not at all, and reading it runs no code from it.
"""

import json
import os
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from engine.archives import read_arrays
from engine.border import checked
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.conductance import Conductance, InputConductance
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.couplings.skip import Skip
from engine.couplings.tokens import Embedding, Position, TokenReadout
from engine.errors import CheckpointError, reason
from engine.learning.run import Epoch, Run
from engine.model.network import Layer, Network
from engine.model.params import Params

FORMAT = "settle checkpoint 2"
_COUPLINGS = (
    *(InputDrive, Bias, Dense, Lateral, Embedding, Position, Attention, Hopfield),
    *(Convolution, InputConvolution, ChannelBias, Skip, Conductance, InputConductance),
)
_READOUTS = (SoftmaxReadout, SquaredError, TokenReadout)
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Layer, *_COUPLINGS, *_READOUTS)}


def register(kind: type) -> None:
    """Let files hold couplings or read-outs of this class: a dataclass of plain values.

    Only classes that are known when a file is read are made from it.
    """
    if not is_dataclass(kind):
        raise CheckpointError(f"{kind!r} is no dataclass, whose fields a file could hold.")
    if _KINDS.setdefault(kind.__name__, kind) is not kind:
        raise CheckpointError(f"another class is known to files as '{kind.__name__}'.")


@checked
def save(path: Path | str, params: Params, run: Run | None = None, settings: str = "") -> None:
    """Write a checkpoint atomically; with `run`, training can go on from it."""
    params.check()
    head: dict[str, Any] = {
        "format": FORMAT,
        "network": describe_network(params.network),
        "settings": settings,
    }
    arrays = {"theta": params.theta}
    if run is not None:
        head["run"] = {
            "epoch": run.epoch,
            "step": run.step,
            "best_epoch": run.best_epoch,
            "rng": run.rng.bit_generator.state,
            "history": [asdict(epoch) for epoch in run.history],
        }
        arrays["memory"] = run.memory
        arrays |= {f"vector {name}": vector for name, vector in run.vectors.items()}
        if run.best_theta is not None:
            arrays["best_theta"] = run.best_theta
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"'{name}' holds a value that is not finite: nothing was saved.")
    _write(Path(path), head=np.array(json.dumps(head)), **arrays)


@checked
def load(path: Path | str) -> tuple[Params, Run | None, str]:
    """Read the parameters, the run (if there is one) and the settings it was saved with."""
    path = Path(path)
    if not path.exists():
        raise CheckpointError(f"there is no file {path}.")
    try:
        arrays = read_arrays(path)
        if "head" not in arrays:
            raise CheckpointError(f"{path} is no Settle checkpoint: it holds {_listed(arrays)}.")
        head = json.loads(str(arrays.pop("head")))
        if head["format"] != FORMAT:
            raise CheckpointError(f"{path} has format '{head['format']}', expected '{FORMAT}'.")
        if "theta" not in arrays:
            raise ValueError("it has no array 'theta'")
        params = Params(network_from(head["network"]), arrays["theta"])
        params.check()
        return params, _run(head.get("run"), arrays, params), str(head["settings"])
    except CheckpointError:
        raise
    except Exception as error:  # a damaged archive fails in as many ways as it has readers
        raise CheckpointError(
            f"{path} is not a whole Settle checkpoint: {reason(error)}."
        ) from None


def _listed(arrays: dict[str, Any]) -> str:
    """Name the arrays of a file, or the first of many."""
    names = [repr(name) for name in arrays]
    return ", ".join(names[:5]) + (" and others" if len(names) > 5 else "") if names else "nothing"


def check_place(path: Path | str) -> None:
    """Refuse a path that no file can be written to, before the work that it is for."""
    path = Path(path)
    if not path.name or "\0" in path.name or path.is_dir():
        raise CheckpointError(f"the path {str(path)!r} names no file.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be written: {error}.") from None


def _write(path: Path, **arrays: Any) -> None:
    check_place(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            np.savez(file, **arrays)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def describe_network(network: Network) -> dict[str, Any]:
    """Say what a network is in numbers and texts alone, fit for JSON."""
    return {
        "inputs": network.inputs,
        "layers": [_item(layer) for layer in network.layers],
        "couplings": [_item(coupling) for coupling in network.couplings],
        "readout": _item(network.readout),
    }


def _item(part: Any) -> dict[str, Any]:
    kind = type(part).__name__
    if _KINDS.get(kind) is not type(part):  # a stranger may have the name of a known kind
        raise CheckpointError(f"a checkpoint cannot hold a {kind}.")
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    return {"kind": kind, "fields": {name: _plain(value) for name, value in values.items()}}


def _plain(value: Any) -> Any:
    """Return a field as JSON has it; a tuple is marked, for JSON knows only lists."""
    return {"tuple": [_plain(item) for item in value]} if isinstance(value, tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(_restored(item) for item in value["tuple"])
    return value


def network_from(text: dict[str, Any]) -> Network:
    """Rebuild the network that `describe_network` described; only known kinds are made."""
    layers = tuple(_part(item) for item in text["layers"])
    couplings = tuple(_part(item) for item in text["couplings"])
    return Network(text["inputs"], layers, couplings, _part(text["readout"]))


def _part(item: dict[str, Any]) -> Any:
    return _KINDS[item["kind"]](**{name: _restored(v) for name, v in item["fields"].items()})


def _run(text: dict[str, Any] | None, arrays: dict[str, Any], params: Params) -> Run | None:
    if text is None:
        return None
    run = Run.start(params.network, len(arrays["memory"]), params.theta.dtype, seed=0)
    _fill(run.memory, "memory", arrays)
    for name, vector in run.vectors.items():
        _fill(vector, f"vector {name}", arrays)
    run.rng.bit_generator.state = text["rng"]
    run.epoch, run.step, run.best_epoch = text["epoch"], text["step"], text["best_epoch"]
    run.history = [Epoch(**epoch) for epoch in text["history"]]
    if not (run.epoch == len(run.history) and 0 <= run.best_epoch <= run.epoch <= run.step):
        raise ValueError(f"epoch {run.epoch} and step {run.step} do not fit the history")
    if run.best_epoch > 0:
        run.best_theta = np.empty_like(params.theta)
        _fill(run.best_theta, "best_theta", arrays)
    return run


def _fill(held: Any, name: str, arrays: dict[str, Any]) -> None:
    """Write an array of the file into one of the same shape and type."""
    found = arrays[name]
    if found.shape != held.shape or found.dtype != held.dtype:
        raise TypeError(f"'{name}' is {found.dtype} {found.shape}, not {held.dtype} {held.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"'{name}' holds a value that is not finite")
    held[...] = found
