"""Random inputs and targets that a network accepts."""

from zlib import crc32

import numpy as np

from engine.arrays import FloatArray
from engine.model.network import Network


def stream(seed: int, name: str) -> np.random.Generator:
    """Return random numbers of its own for whatever has a name: others may come and go."""
    return np.random.default_rng([seed, crc32(name.encode())])


def draw_inputs(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw tokens where the network takes tokens, else standard normal numbers."""
    shape = (samples, network.inputs)
    if network.vocabulary is not None:
        return rng.integers(network.vocabulary, size=shape).astype(np.float64)
    return rng.standard_normal(shape)


def draw_probabilities(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw targets whose rows (of each position, where there are several) sum to one."""
    places = max(1, network.reading.positions) if network.reading else 1
    rows = rng.dirichlet(np.ones(network.outputs // places), (samples, places))
    return rows.reshape(samples, network.outputs)


def draw_targets(network: Network, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw what there is to learn about `x`, with certainty.

    The classes of a random linear teacher, its values within the range of the layer, or the
    tokens in reverse.
    """
    places = network.reading.positions if network.reading else 0
    if network.vocabulary is not None and places == network.inputs:
        classes = network.outputs // places
        reverse: FloatArray = np.eye(classes)[x[:, ::-1].astype(np.int64) % classes]
        return reverse.reshape(len(x), -1)
    teacher = x @ rng.standard_normal((network.inputs, network.outputs))
    if places == 1:
        one_hot: FloatArray = np.eye(network.outputs)[teacher.argmax(-1)]
        return one_hot
    targets: FloatArray = 1 / (1 + np.exp(-teacher))
    return targets
