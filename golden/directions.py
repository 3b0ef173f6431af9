"""Directions in which parameters may move: a lateral block has to stay symmetric."""

import numpy as np

from engine.arrays import FloatArray
from engine.model.network import Network
from engine.model.params import partners


def symmetric_basis(network: Network) -> FloatArray:
    """Return an orthonormal basis `(directions, network.size)` of the allowed changes.

    A lateral weight moves with its mirror image: `(e_ij + e_ji) / sqrt 2`. A gradient that is
    symmetric there is the sum of its components along the basis.
    """
    mirror = partners(network)
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
    mirrored: FloatArray = (noise + noise[:, partners(network)]) / 2
    return mirrored
