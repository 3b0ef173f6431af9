"""A network as the kernels read it: integer tables, and a place for every packed matrix."""

from typing import NamedTuple

import numpy as np

from engine import kernels
from engine.arrays import IntArray
from engine.coupling import Dense, Lateral
from engine.errors import EngineError
from engine.network import Network
from engine.readout import SoftmaxReadout, SquaredError


class Tables(NamedTuple):
    """What `engine.kernels` says of the columns; `packed` numbers hold all matrices."""

    layers: IntArray
    messages: IntArray
    readout: IntArray
    packed: int


def tables_of(network: Network, itemsize: int) -> Tables:
    """Describe a network whose parameters have `itemsize` bytes, or refuse it."""
    packing = _Packing(itemsize)
    messages, readout = _message_table(network, packing), _readout_table(network, packing)
    return Tables(_layer_table(network), messages, readout, packing.size)


class _Packing:
    """Gives every packed matrix its place in one array."""

    def __init__(self, itemsize: int) -> None:
        self.size, self._itemsize = 0, itemsize

    def place(self, inner: int, columns: int) -> int:
        """Return where a matrix begins."""
        begin = self.size
        self.size += kernels.packed_size((inner, columns), self._itemsize)
        return begin


def _message_table(network: Network, packing: _Packing) -> IntArray:
    """One row for each direction of each recurrent coupling (columns: see `engine.kernels`)."""
    index = {layer.name: k for k, layer in enumerate(network.layers)}
    rows: list[tuple[int, ...]] = []
    for coupling in network.recurrent:
        start = network.blocks[coupling.name].start
        if isinstance(coupling, Lateral):
            directions = [(coupling.layer, coupling.layer, False)]
        elif isinstance(coupling, Dense):
            ends = coupling.source, coupling.target
            directions = [(*ends, False), (*ends[::-1], True)]
        else:
            raise EngineError(
                f"coupling '{coupling.name}' ({type(coupling).__name__}) has no compiled kernel."
            )
        for source, target, transposed in directions:
            place = packing.place(network.sizes[source], network.sizes[target])
            rows.append((index[source], index[target], start, transposed, place))
    return np.array(rows, np.int64).reshape(-1, 5)


def _layer_table(network: Network) -> IntArray:
    """One row for each layer (columns: see `engine.kernels`)."""
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
    """The read-out (columns: see `engine.kernels`)."""
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
