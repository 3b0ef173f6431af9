"""The square mesh of cores on which event-driven units lie: who is reached by which messages."""

from collections.abc import Sequence

import numpy as np

from engine.arrays import IntArray
from engine.model.network import Network
from hw_sim.chips.messages import Way, input_ways, readout_ways, recurrent_ways


def side_of(count: int) -> int:
    """Return the side of the square mesh on which so many cores or tiles lie."""
    return int(np.ceil(np.sqrt(count)))


def hops_between(here: IntArray, there: IntArray, count: int) -> IntArray:
    """Return the steps from cores to cores of a mesh of so many, row by row and then along it."""
    side = side_of(count)
    hops: IntArray = abs(here // side - there // side) + abs(here % side - there % side)
    return hops


def fan_out(network: Network, per_core: int) -> IntArray:
    """Messages and hops of one event, for each unit and each output, `(units + outputs, 2)`.

    Units lie on the cores of a square mesh in their order, the outputs after them. An event is one
    message to each core that holds a listener; a hop is one step of a mesh between cores.
    """
    total = network.units + network.outputs
    core = np.arange(total) // per_core
    listeners: list[set[int]] = [set() for _ in range(total)]
    for way in recurrent_ways(network):
        _add_listeners(listeners, core, way, *(network.columns[end].start for end in way.ends))
    for way in readout_ways(network):
        span = network.columns[network.readout.layer]
        _add_listeners(listeners, core, way, span.start, network.units)
        back = Way(way.link, backwards=True)
        _add_listeners(listeners, core, back, network.units, span.start)
    return _ways(core, listeners)


def fan_to_outputs(network: Network, per_core: int) -> IntArray:
    """Messages and hops to the outputs alone, of each unit that is read out, `(size, 2)`."""
    core = np.arange(network.units + network.outputs) // per_core
    listeners: list[set[int]] = [set() for _ in range(network.units)]
    span = network.columns[network.readout.layer]
    for way in readout_ways(network):
        _add_listeners(listeners, core, way, span.start, network.units)
    return _ways(core, listeners)[span]


def fan_from_inputs(network: Network, per_core: int) -> IntArray:
    """Messages of one input to the cores of each layer that it drives, `(inputs, layers)`."""
    found = np.zeros((network.inputs, len(network.layers)), np.int64)
    for k, layer in enumerate(network.layers):
        core = np.arange(layer.size) // per_core
        listeners: list[set[int]] = [set() for _ in range(network.inputs)]
        for way in input_ways(network):
            if way.link.target == layer.name:
                _add_listeners(listeners, core, way, 0, 0)
        found[:, k] = [len(heard) for heard in listeners]
    return found


def _add_listeners(
    listeners: list[set[int]], core: IntArray, way: Way, first: int, target: int
) -> None:
    """Enter the cores that hear a way from units after `first` to units after `target`."""
    for p, units in enumerate(way.link.gather):
        there, here = units[units >= 0], np.arange(p * way.link.fan_out, (p + 1) * way.link.fan_out)
        sources, targets = (here, there) if way.backwards else (there, here)
        heard = set(core[target + targets].tolist())
        for unit in sources.tolist():
            listeners[first + unit] |= heard


def _ways(core: IntArray, listeners: Sequence[set[int]]) -> IntArray:
    """Messages and hops from each sender to the cores that hear it."""
    found = np.zeros((len(listeners), 2), np.int64)
    for unit, heard in enumerate(listeners):
        reached = np.array(sorted(heard), np.int64)
        hops = hops_between(core[unit], reached, int(core[-1]) + 1)
        found[unit] = len(heard), hops.sum()
    return found
