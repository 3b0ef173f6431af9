"""A network as the kernels read it: integer tables, and a place for every packed matrix."""

from typing import NamedTuple

import numpy as np

from engine.arrays import IntArray
from engine.compiled import kernels
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.errors import EngineError
from engine.model.network import Network


class Tables(NamedTuple):
    """What `engine.compiled.kernels` says of the columns; `packed` numbers hold all matrices."""

    layers: IntArray
    messages: IntArray
    gather: IntArray
    readout: IntArray
    packed: int
    window: int
    """Numbers that the places of a link read in one row, at most."""
    work: int
    """Multiply-adds of one row in one step, about."""


def tables_of(network: Network, itemsize: int) -> Tables:
    """Describe a network whose parameters have `itemsize` bytes, or refuse it."""
    packing = _Packing(itemsize)
    messages, gather = _message_table(network, packing)
    readout, layers = _readout_table(network, packing), _layer_table(network)
    places = messages[:, kernels.POSITIONS]
    windows = (places * messages[:, kernels.FAN_IN])[messages[:, kernels.GATHER] >= 0]
    again = ((places - 1) * messages[:, kernels.FAN_IN] * messages[:, kernels.FAN_OUT]).sum()
    work = packing.size + int(again)
    return Tables(
        layers, messages, gather, readout, packing.size, int(windows.max(initial=0)), work
    )


class _Packing:
    """Gives every packed matrix its place in one array."""

    def __init__(self, itemsize: int) -> None:
        self.size, self._itemsize = 0, itemsize

    def place(self, inner: int, columns: int) -> int:
        """Return where a matrix begins."""
        begin = self.size
        self.size += kernels.packed_size((inner, columns), self._itemsize)
        return begin


def _message_table(network: Network, packing: _Packing) -> tuple[IntArray, IntArray]:
    """One row for each direction of each link (see `engine.compiled.kernels`), and all gathers."""
    index = {layer.name: k for k, layer in enumerate(network.layers)}
    rows: list[tuple[int, ...]] = []
    gathers, read = [np.zeros(0, np.int64)], 0
    for coupling in network.recurrent:
        link = network.links.get(coupling.name)
        if link is None:
            raise EngineError(
                f"coupling '{coupling.name}' ({type(coupling).__name__}) has no compiled kernel."
            )
        start = network.blocks[link.block].start
        ends = index[link.source], index[link.target]
        gather = -1
        if not link.whole:
            gather, read = read, read + link.gather.size
            gathers.append(link.gather.ravel())
        shape = (link.positions, link.fan_in, link.fan_out, gather)
        place = packing.place(link.fan_in, link.fan_out)
        rows.append((*ends, start, False, place, *shape))
        if not link.tied:
            place = packing.place(link.fan_out, link.fan_in)
            rows.append((*ends[::-1], start, True, place, *shape))
    return np.array(rows, np.int64).reshape(-1, 9), np.concatenate(gathers)


def _layer_table(network: Network) -> IntArray:
    """One row for each layer (columns: see `engine.compiled.kernels`)."""
    try:
        second = network.halves[1]
    except EngineError:
        second = ()  # no halves: the alternating solver is refused before it would read them
    rows = [
        (network.columns[layer.name].start, layer.size, layer.rule.code, layer.name in second)
        for layer in network.layers
    ]
    return np.array(rows, np.int64)


def _readout_table(network: Network, packing: _Packing) -> IntArray:
    """The read-out (columns: see `engine.compiled.kernels`)."""
    readout = network.readout
    layer = [layer.name for layer in network.layers].index(readout.layer)
    if isinstance(readout, SoftmaxReadout):
        weight, bias = network.blocks["W_out"], network.blocks["b_out"]
        places = packing.place(*weight.shape), packing.place(*weight.shape[::-1])
        blocks = (weight.start, bias.start, readout.outputs, *places)
        return np.array((kernels.SOFTMAX, layer, *blocks), np.int64)
    if isinstance(readout, SquaredError):
        return np.array((kernels.SQUARED_ERROR, layer, 0, 0, network.outputs, 0, 0), np.int64)
    raise EngineError(f"the read-out {type(readout).__name__} has no compiled kernel.")
