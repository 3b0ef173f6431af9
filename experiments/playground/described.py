"""A trained network and its pictures as plain data, from which the page computes."""

import base64
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from engine import EngineError, Network, NumbaBackend, Params, recurrent_norm
from engine.arrays import FloatArray
from engine.couplings.link import INPUT, ONE, Link
from experiments.playground.choices import View
from experiments.tasks import Split, Task

MOST_NUMBERS = 1_000_000
"""Of all matrices together: more would make a page that no phone loads."""


def check_drawable(network: Network, task: Task) -> None:
    """Refuse a network that the page cannot compute, or that reads other pictures."""
    if (network.inputs, network.outputs) != (task.inputs, task.classes):
        raise EngineError(
            f"the network has {network.inputs} inputs and {network.outputs} outputs, but task "
            f"'{task.name}' has {task.inputs} and {task.classes}."
        )
    for coupling in network.couplings:
        if coupling.name not in network.links:
            kind = type(coupling).__name__
            raise EngineError(
                f"coupling '{coupling.name}' ({kind}) is no matrix, and the page computes no other."
            )
    reading = network.reading
    if reading is None or reading.positions > 1:
        kind = type(network.readout).__name__
        raise EngineError(f"the page does not compute the read-out {kind}.")
    numbers = sum(link.size * network.sizes[link.target] for link in network.links.values())
    if numbers > MOST_NUMBERS:
        raise EngineError(
            f"the matrices of the network have {numbers:,} numbers; a page holds {MOST_NUMBERS:,}."
        )


def describe(params: Params, split: Split, view: View, samples: Sequence[int]) -> dict[str, Any]:
    """Return everything but the agreement: network, normalisation, view, samples, names."""
    raw = split.x_test[samples] * split.scale + split.mean
    return {
        "network": describe_network(params, reach_of(params, split)),
        "normalisation": {"mean": float(split.mean), "scale": float(split.scale)},
        "view": asdict(view),
        "samples": [
            {"pixels": np.rint(pixels).tolist(), "label": int(label)}
            for pixels, label in zip(raw, split.y_test[samples], strict=True)
        ],
        "names": [str(k) for k in range(params.network.outputs)],
    }


def describe_network(params: Params, reach: dict[str, float]) -> dict[str, Any]:
    """Return layers, links as whole matrices, and the read-out."""
    network = params.network
    reading = network.reading
    assert reading is not None, "check_drawable has refused others"
    weights = bias = None
    if reading.link is not None:
        weights = packed(reading.link.matrix(params[reading.link.block]))
        bias = packed(params[reading.bias])
    return {
        "units": network.units,
        "norm": recurrent_norm(params),
        "layers": [
            {
                "name": layer.name,
                "start": network.columns[layer.name].start,
                "size": layer.size,
                "activation": layer.activation,
                "low": layer.rule.low if np.isfinite(layer.rule.low) else None,
                "high": layer.rule.high if np.isfinite(layer.rule.high) else None,
                "reach": reach[layer.name],
                "signed": layer.rule.low < 0.0,
            }
            for layer in network.layers
        ],
        "links": [_described(link, params) for link in network.links.values()],
        "readout": {
            "layer": network.readout.layer,
            "classes": network.outputs,
            "weights": weights,
            "bias": bias,
        },
    }


def _described(link: Link, params: Params) -> dict[str, Any]:
    matrix = link.matrix(params[link.block])
    return {
        "source": {INPUT: "input", ONE: "one"}.get(link.source, link.source),
        "target": link.target,
        "clamped": link.clamped,
        "tied": link.tied,
        "rows": matrix.shape[0],
        "columns": matrix.shape[1],
        "weights": packed(matrix),
    }


def reach_of(params: Params, split: Split) -> dict[str, float]:
    """Return the largest value of each layer: of its activation, or else on the test pictures."""
    network = params.network
    backend = NumbaBackend(network, params)
    state = backend.settle(backend.clamp(split.x_test[:1000])).state
    found = {}
    for layer in network.layers:
        ends = [abs(end) for end in (layer.rule.low, layer.rule.high)]
        seen = float(np.abs(network.of(layer.name, state)).max())
        found[layer.name] = max(ends) if np.isfinite(ends).all() else max(seen, 1e-6)
    return found


def packed(array: FloatArray) -> dict[str, str]:
    """Return an array as text, bit for bit, row by row."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {
        "dtype": array.dtype.name,
        "base64": base64.b64encode(little.tobytes()).decode(),
    }
