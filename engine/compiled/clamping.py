"""The drive that no step changes: what the input and the biases send."""

import numpy as np

from engine.arrays import FloatArray, by_sample
from engine.compiled.products import add_product, new_edge
from engine.compiled.windows import new_packed, send_input
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT, ONE, Link
from engine.model.params import Params


class ClampedDrive:
    """The drive of the clamped couplings, with the matrices of the input packed once.

    It holds for the parameters as they are when it is made.
    """

    def __init__(self, params: Params) -> None:
        network = params.network
        self._params = params
        self._constant = np.zeros(network.units, params.theta.dtype)
        self._links: list[tuple[Link, FloatArray]] = []
        self._formulas: list[Coupling] = []
        for coupling in (c for c in network.couplings if c.clamped):
            link = network.links.get(coupling.name)
            if link is not None and link.source == INPUT:
                block = params[link.block].reshape(link.fan_in, link.fan_out)
                self._links.append((link, new_packed(block)))
            elif link is not None and link.source == ONE:
                everywhere = np.tile(params[link.block], link.positions)
                self._constant[network.columns[link.target]] += everywhere
            else:
                self._formulas.append(coupling)

    @property
    def macs(self) -> int:
        """Multiply-adds of a sample."""
        return sum(link.macs for link, _ in self._links)

    def new_room(self, samples: int) -> FloatArray:
        """Return room for the drive of so many samples, `(samples, units)`."""
        return np.empty((samples, len(self._constant)), self._constant.dtype)

    def write(self, x: FloatArray, drive: FloatArray) -> None:
        """Write what links and biases send; blocks of rows may do so on several cores."""
        columns, units = self._params.network.columns, drive.shape[1]
        drive[...] = 0
        for link, packed in self._links:
            place = columns[link.target]
            if not link.whole:
                drive[:, place] += send_input(link, packed, x)
                continue
            into, edge = drive.reshape(-1)[place.start :], new_edge(drive.dtype)
            shape = len(x), link.size, packed
            add_product(x.reshape(-1), *shape, into, link.fan_out, units, edge)
        drive += self._constant

    def add_formulas(self, x: FloatArray, drive: FloatArray) -> None:
        """Add what is no link: its own formula says what it sends."""
        columns = self._params.network.columns
        for coupling in self._formulas:
            parts = coupling.drive(self._params[coupling.name], x)
            for name, part in zip(coupling.layers, parts, strict=True):
                drive[:, columns[name]] += by_sample(part)
