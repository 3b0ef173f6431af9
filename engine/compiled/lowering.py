"""A network as the kernels read it (`engine.compiled.program`): integer tables, made once."""

from typing import NamedTuple

import numpy as np

from engine.arrays import IntArray
from engine.compiled.packing import TABLE_COLUMNS
from engine.compiled.products import packed_size
from engine.compiled.program import (
    FAN_IN,
    FAN_OUT,
    GATHER,
    OFFSET,
    POSITIONS,
    SIZE,
    SOFTMAX,
    SQUARED_ERROR,
)
from engine.compiled.registry import Kernels, kernels_of
from engine.compiled.windows import at_once, windows_of
from engine.couplings.coupling import Coupling
from engine.couplings.link import Link
from engine.errors import EngineError
from engine.model.network import Network


class Tables(NamedTuple):
    """The tables of a network; `packed` numbers hold all matrices of its links."""

    layers: IntArray
    messages: IntArray
    runs: IntArray
    places: IntArray
    own: tuple["Own", ...]
    ends: IntArray
    """The layers that those couplings touch, by number, one coupling after the other."""
    offsets: IntArray
    """Where those layers begin in a state."""
    readout: IntArray
    matrices: IntArray
    """A row for each packed matrix (columns: see `engine.compiled.packing`)."""
    scales: tuple[float, ...]
    """What the numbers of each are multiplied with."""
    packed: int
    largest: int
    """Units of the largest layer."""
    window: int
    """Numbers of the windows that are read at a time, at most."""
    work: int
    """Multiply-adds of one row in one step, about."""


class Own(NamedTuple):
    """A coupling with kernels of its own."""

    coupling: Coupling
    kernels: Kernels
    sizes: tuple[int, ...]


def tables_of(network: Network, itemsize: int) -> Tables:
    """Describe a network whose parameters have `itemsize` bytes, or refuse it."""
    packing = _Packing(itemsize)
    messages, runs, places = _message_table(network, packing)
    readout, layers = _readout_table(network, packing), _layer_table(network)
    fans = {int(fan_in) for fan_in in messages[messages[:, GATHER] >= 0, FAN_IN]}
    again = ((messages[:, POSITIONS] - 1) * messages[:, FAN_IN] * messages[:, FAN_OUT]).sum()
    own = _own_couplings(network)
    work = packing.size + int(again) + sum(one.kernels.macs(one.sizes) for one in own)
    window = max((fan_in * at_once(fan_in, itemsize) for fan_in in fans), default=0)
    index = [layer.name for layer in network.layers]
    ends = np.array([index.index(name) for o in own for name in o.coupling.layers], np.int64)
    tables = (
        layers,
        messages,
        runs,
        places,
        own,
        ends,
        layers[ends, OFFSET],
        readout,
        np.array(packing.matrices, np.int64).reshape(-1, TABLE_COLUMNS),
        tuple(packing.scales),
    )
    return Tables(*tables, packing.size, int(layers[:, SIZE].max()), window, work)


def turns_of(network: Network, solver: str, nudged: bool) -> IntArray:
    """Return the turn of each layer, `(layers,)`, in a step of a solver."""
    turns = network.turns(solver, nudged)
    found = {name: turn for turn, names in enumerate(turns) for name in names}
    return np.array([found[layer.name] for layer in network.layers], np.int64)


class _Packing:
    """Gives every packed matrix its place in one array."""

    def __init__(self, itemsize: int) -> None:
        self.size, self._itemsize = 0, itemsize
        self.matrices: list[tuple[int, ...]] = []
        self.scales: list[float] = []

    def place(self, start: int, link: Link, turned: bool, scale: float = 1.0) -> int:
        """Return where the block of a link begins."""
        shape = (link.fan_in, link.fan_out)
        place = self.size
        self.matrices.append((start, *shape, turned, place))
        self.scales.append(scale)
        self.size += packed_size(shape[::-1] if turned else shape, self._itemsize)
        return place


def _message_table(network: Network, packing: _Packing) -> tuple[IntArray, IntArray, IntArray]:
    """One row for each direction of each link (see `engine.compiled.program`), runs and places."""
    index = {layer.name: k for k, layer in enumerate(network.layers)}
    rows: list[tuple[int, ...]] = []
    runs, places = np.zeros((0, 3), np.int64), np.zeros(0, np.int64)
    for link in (network.senders[c.name] for c in network.recurrent if c.name in network.senders):
        start, squares = network.blocks[link.block].start, network.squares.get(link.block)
        scale = 1.0 if squares is None else squares.amplification
        ends = index[link.source], index[link.target]
        gather = -1
        if not link.whole:
            gather, windows = len(places), windows_of(link)
            places = np.concatenate([places, len(runs) + windows.places])
            runs = np.concatenate([runs, windows.runs])
        shape = (link.positions, link.fan_in, link.fan_out, gather)
        place = packing.place(start, link, False, scale)
        rows.append((*ends, False, place, *shape))
        if not link.tied:
            place = packing.place(start, link, True, scale)
            rows.append((*ends[::-1], True, place, *shape))
    return np.array(rows, np.int64).reshape(-1, 8), runs, places


def _layer_table(network: Network) -> IntArray:
    """One row for each layer (columns: see `engine.compiled.program`)."""
    rows = [
        (network.columns[layer.name].start, layer.size, layer.rule.code) for layer in network.layers
    ]
    return np.array(rows, np.int64)


def _own_couplings(network: Network) -> tuple[Own, ...]:
    """The couplings that are no link, with what is registered for them."""
    found = []
    for coupling in network.recurrent:
        if coupling.name in network.senders:
            continue
        kernels = kernels_of(coupling)
        if kernels is None:
            raise EngineError(
                f"coupling '{coupling.name}' ({type(coupling).__name__}) has no compiled kernel: "
                "register one, or use the torch backend."
            )
        found.append(Own(coupling, kernels, kernels.sizes(coupling, network.shapes)))
    return tuple(found)


def _readout_table(network: Network, packing: _Packing) -> IntArray:
    """The read-out (columns: see `engine.compiled.program`)."""
    reading = network.reading
    layer = [layer.name for layer in network.layers].index(network.readout.layer)
    if reading is not None and reading.link is None:
        return np.array((SQUARED_ERROR, layer, 0, network.outputs, 0, 0, 1), np.int64)
    if reading is None or reading.link is None or not _side_by_side(reading.link):
        kind = type(network.readout).__name__
        raise EngineError(f"the read-out {kind} has no compiled kernel.")
    weight, bias = network.blocks[reading.link.block], network.blocks[reading.bias]
    packed = [packing.place(weight.start, reading.link, turned) for turned in (False, True)]
    blocks = (bias.start, reading.link.fan_out, *packed, reading.positions)
    return np.array((SOFTMAX, layer, *blocks), np.int64)


def _side_by_side(link: Link) -> bool:
    """Whether the positions read their units one after the other, each once."""
    return np.array_equal(link.gather.ravel(), np.arange(link.size))
