"""How a network lies on a substrate: its couplings assembled, and the tables of the kernels."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, IntArray
from engine.couplings.link import INPUT, ONE
from engine.errors import EngineError
from engine.learning.spectral import recurrent_links, recurrent_matrix
from engine.model.network import Network
from engine.model.params import Params, partners
from hw_sim.layout import SOFTMAX, SQUARED_ERROR, Feeds, Wires

READOUT = "readout"
"""Name of the place that holds the weights of the read-out."""


def places(network: Network) -> tuple[str, ...]:
    """Return the places at which events are counted: the layers, then the read-out."""
    return (*network.columns, READOUT)


def check_network(network: Network) -> None:
    """Refuse activations, couplings and read-outs that no substrate has a model of."""
    for layer in network.layers:
        if layer.activation not in ("tanh", "hard_sigmoid"):
            raise EngineError(f"activation '{layer.activation}' has no model in hw_sim.")
    for coupling in network.couplings:
        link = network.links.get(coupling.name)
        if link is None or not link.whole:  # arrays hold whole matrices
            kind = type(coupling).__name__
            raise EngineError(f"coupling '{coupling.name}' ({kind}) has no model in hw_sim.")
    if network.reading is None or network.reading.positions > 1:
        raise EngineError(f"the read-out {type(network.readout).__name__} has no model in hw_sim.")


def feeds(params: Params, dtype: npt.DTypeLike) -> Feeds:
    """Assemble the clamped couplings; values are those of `params`, cast to `dtype`."""
    network = params.network
    inputs = np.zeros((network.inputs, network.units))
    bias, biased = np.zeros(network.units), np.zeros(network.units, np.int64)
    for link in network.links.values():
        span = network.columns[link.target]
        if link.source == INPUT:
            inputs[:, span] += params[link.block]
        elif link.source == ONE:
            bias[span] += params[link.block]
            biased[span] += 1
    tables = input_messages(network), layer_table(network)
    return Feeds(*tables, inputs.astype(dtype), bias.astype(dtype), biased)


def wires(params: Params, dtype: npt.DTypeLike, fan_out: IntArray | None = None) -> Wires:
    """Assemble the recurrent couplings and the read-out, cast to `dtype`."""
    network, readout = params.network, params.network.readout
    span = network.columns[readout.layer]
    weight: FloatArray = np.zeros((span.stop - span.start, 0))
    bias: FloatArray = np.zeros(0)
    if network.reading and network.reading.link:
        weight, bias = params[network.reading.link.block], params[network.reading.bias]
    return Wires(
        recurrent_messages(network),
        layer_table(network),
        recurrent_matrix(params).astype(dtype),
        SOFTMAX if weight.size else SQUARED_ERROR,
        span.start,
        span.stop,
        np.ascontiguousarray(weight, dtype),
        np.ascontiguousarray(bias, dtype),
        np.zeros((network.units + network.outputs, 2), np.int64) if fan_out is None else fan_out,
    )


@lru_cache(maxsize=64)
def layer_table(network: Network) -> IntArray:
    """One row for each layer: first unit, last unit, activation."""
    rows = [
        (network.columns[layer.name].start, network.columns[layer.name].stop, layer.rule.code)
        for layer in network.layers
    ]
    return np.array(rows, np.int64)


@lru_cache(maxsize=64)
def recurrent_messages(network: Network) -> IntArray:
    """One row for each direction of each recurrent coupling (columns: see `hw_sim.layout`)."""
    index = {name: k for k, name in enumerate(network.columns)}
    rows = []
    for link in recurrent_links(network):
        ends = (link.source, link.target)
        for source, target in {ends, ends[::-1]} if ends[0] != ends[1] else {ends}:
            spans = network.columns[source], network.columns[target]
            rows.append((*(edge for s in spans for edge in (s.start, s.stop)), index[target]))
    return np.array(sorted(set(rows)), np.int64).reshape(-1, 5)


@lru_cache(maxsize=64)
def input_messages(network: Network) -> IntArray:
    """One row for each layer that the input drives."""
    index = {name: k for k, name in enumerate(network.columns)}
    rows = []
    for link in network.links.values():
        if link.source == INPUT:
            span = network.columns[link.target]
            rows.append((0, network.inputs, span.start, span.stop, index[link.target]))
    return np.array(sorted(set(rows)), np.int64).reshape(-1, 5)


@lru_cache(maxsize=64)
def owners(network: Network) -> IntArray:
    """Place of every parameter: the layer that its coupling drives last, or the read-out."""
    found = np.full(network.size, len(network.layers), np.int64)
    index = {name: k for k, name in enumerate(network.columns)}
    for link in network.links.values():
        found[network.blocks[link.block].span] = index[link.target]
    return found


def symmetrised(network: Network, theta: FloatArray) -> Params:
    """Return parameters whose lateral blocks are `(W + W') / 2`."""
    return Params(network, (theta + theta[partners(network)]) / 2)
