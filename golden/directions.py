"""Directions in which parameters may move: a lateral block has to stay symmetric."""

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.coupling import Lateral
from engine.network import Network


def symmetric_basis(network: Network) -> FloatArray:
    """Return an orthonormal basis `(directions, network.size)` of the allowed changes.

    A lateral weight moves with its mirror image: `(e_ij + e_ji) / sqrt 2`. A gradient that is
    symmetric there is the sum of its components along the basis.
    """
    mirror = _mirror(network)
    rows = []
    for k, other in enumerate(mirror):
        if k <= other:
            row = np.zeros(network.size)
            row[k] = row[other] = 1.0 if k == other else 0.5**0.5
            rows.append(row)
    return np.array(rows)


def random_directions(network: Network, rng: np.random.Generator, count: int) -> FloatArray:
    """Draw `(count, network.size)` allowed directions with entries of variance about one."""
    noise = rng.standard_normal((count, network.size))
    mirrored: FloatArray = (noise + noise[:, _mirror(network)]) / 2
    return mirrored


def _mirror(network: Network) -> IntArray:
    """Place of the parameter that has to change along with each parameter, `(network.size,)`."""
    mirror = np.arange(network.size)
    for coupling in network.couplings:
        if isinstance(coupling, Lateral):
            block = network.blocks[coupling.name]
            mirror[block.span] = mirror[block.span].reshape(block.shape).T.ravel()
    return mirror
