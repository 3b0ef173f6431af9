"""The drive that no step changes: what biases and the input send."""

import numpy as np

from engine.arrays import FloatArray, by_sample
from engine.compiled.products import add_product, new_edge
from engine.compiled.windows import new_packed, send_input
from engine.couplings.link import INPUT, ONE, Link
from engine.model import dynamics
from engine.model.params import Params


class ClampedDrive:
    """The drive of the clamped couplings, with the matrices of the input packed once.

    It holds for the parameters as they are when it is made.
    """

    def __init__(self, params: Params) -> None:
        network = params.network
        self._params, self._bias, self._links = params, bias_drive(params), packed_inputs(params)
        self._formulas = [
            c for c in network.couplings if c.clamped and c.name not in network.senders
        ]
        self._compliance = dynamics.compliance(network, params)

    @property
    def macs(self) -> int:
        """Multiply-adds of a sample."""
        return sum(link.macs for link, _ in self._links)

    def new_room(self, samples: int) -> FloatArray:
        """Return room for the drive of so many samples, `(samples, units)`."""
        return np.empty((samples, len(self._bias)), self._bias.dtype)

    def write(self, x: FloatArray, drive: FloatArray) -> None:
        """Write what links and biases send; blocks of rows may do so on several cores."""
        columns = self._params.network.columns
        drive[...] = self._bias
        for link, packed in self._links:
            place = columns[link.target]
            if link.whole:
                add_input(link, packed, x, drive, place.start, slice(0, len(x)))
            else:
                drive[:, place] += send_input(link, packed, x)

    def finish(self, x: FloatArray, drive: FloatArray) -> None:
        """Add what is no link, by its own formula; conductances then divide the drive of a node."""
        columns = self._params.network.columns
        for coupling in self._formulas:
            parts = coupling.drive(self._params[coupling.name], x)
            for name, part in zip(coupling.layers, parts, strict=True):
                drive[:, columns[name]] += by_sample(part)
        if self._compliance is not None:
            drive *= self._compliance


def bias_drive(params: Params) -> FloatArray:
    """Return what the biases send to every sample, `(units,)`."""
    network = params.network
    drive = np.zeros(network.units, params.theta.dtype)
    for link in network.links.values():
        if link.source == ONE:
            places = drive[network.columns[link.target]].reshape(-1, link.fan_out)
            places += params[link.block].reshape(-1)
    return drive


def packed_inputs(params: Params) -> list[tuple[Link, FloatArray]]:
    """Return the links of the input, each with its matrix as products read it."""
    packed = []
    for name, link in params.network.senders.items():
        if link.source == INPUT:
            squares, block = params.network.squares.get(name), params[name]
            matrix = block if squares is None else squares.matrix(block)
            packed.append((link, new_packed(matrix.reshape(link.fan_in, link.fan_out))))
    return packed


def add_input(
    link: Link, packed: FloatArray, x: FloatArray, drive: FloatArray, first: int, rows: slice
) -> None:
    """Add `x W` of some samples to the columns of a layer, from `first` on; `W` is packed."""
    units = drive.shape[1]
    into = drive.reshape(-1)[rows.start * units + first :]
    count, edge, from_ = rows.stop - rows.start, new_edge(x.dtype), x.reshape(-1)
    sent = from_[rows.start * link.size :]
    add_product(sent, count, link.size, packed, into, link.fan_out, units, edge)
