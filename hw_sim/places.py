"""Where events are counted: the layers of a network, its read-out, and the border of the chip."""

from functools import lru_cache

import numpy as np

from engine.arrays import IntArray
from engine.model.network import Network

READOUT = "readout"
"""Name of the place that holds the weights of the read-out."""
BORDER = "border"
"""Place of traffic that enters or leaves the chip."""


def places(network: Network) -> tuple[str, ...]:
    """Return the places at which kernels count: the layers, then the read-out."""
    return (*network.columns, READOUT)


def homes(network: Network) -> dict[str, str]:
    """Return the place of every block: the layer that its coupling drives last, or the read-out."""
    last = {coupling.name: coupling.layers[-1] for coupling in network.couplings}
    return {name: last.get(name, READOUT) for name in network.blocks}


@lru_cache(maxsize=64)
def owners(network: Network) -> IntArray:
    """Return the number of the place of every parameter."""
    found, names = np.zeros(network.size, np.int64), places(network)
    for name, place in homes(network).items():
        found[network.blocks[name].span] = names.index(place)
    return found
