"""The drive that no step changes: what biases and the input send."""

import numpy as np

from engine.arrays import FloatArray
from engine.compiled.products import add_product, new_edge
from engine.couplings.link import ONE, Link
from engine.model.params import Params


def bias_drive(params: Params) -> FloatArray:
    """Return what the biases send to every sample, `(units,)`."""
    network = params.network
    drive = np.zeros(network.units, params.theta.dtype)
    for link in network.links.values():
        if link.source == ONE:
            places = drive[network.columns[link.target]].reshape(-1, link.fan_out)
            places += params[link.block].reshape(-1)
    return drive


def add_input(
    link: Link, packed: FloatArray, x: FloatArray, drive: FloatArray, first: int, rows: slice
) -> None:
    """Add `x W` of some samples to the columns of a layer, from `first` on; `W` is packed."""
    units = drive.shape[1]
    into = drive.reshape(-1)[rows.start * units + first :]
    count, edge, from_ = rows.stop - rows.start, new_edge(x.dtype), x.reshape(-1)
    sent = from_[rows.start * link.size :]
    add_product(sent, count, link.size, packed, into, link.fan_out, units, edge)
