"""Random inputs and targets that a network accepts."""

import numpy as np

from engine.arrays import FloatArray
from engine.couplings.readout import SoftmaxReadout
from engine.couplings.tokens import TokenReadout
from engine.model.network import Network


def draw_inputs(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw tokens where the network takes tokens, else standard normal numbers."""
    shape = (samples, network.inputs)
    if network.vocabulary is not None:
        return rng.integers(network.vocabulary, size=shape).astype(np.float64)
    return rng.standard_normal(shape)


def draw_probabilities(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw targets whose rows (of each position, where there are several) sum to one."""
    readout = network.readout
    each = readout.outputs if isinstance(readout, TokenReadout) else network.outputs
    rows = rng.dirichlet(np.ones(each), (samples, network.outputs // each))
    return rows.reshape(samples, network.outputs)


def draw_targets(network: Network, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw what there is to learn about `x`, with certainty.

    The classes of a random linear teacher, its values within the range of the layer, or the
    tokens in reverse.
    """
    readout = network.readout
    if isinstance(readout, TokenReadout):
        return readout.targets(x[:, ::-1].astype(np.int64) % readout.outputs, np.float64)
    teacher = x @ rng.standard_normal((network.inputs, network.outputs))
    if isinstance(readout, SoftmaxReadout):
        one_hot: FloatArray = np.eye(network.outputs)[teacher.argmax(-1)]
        return one_hot
    targets: FloatArray = 1 / (1 + np.exp(-teacher))
    return targets
