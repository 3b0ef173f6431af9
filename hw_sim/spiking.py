"""Event driven (sigma-delta): a unit sends an event only when its state changed enough.

    if |s_i - sent_i| > threshold:  total_j += (s_i - sent_i) W_ij for all j;  sent_i <- s_i

Synapses of silent units do nothing. The read-out sends its error back in the same way. A chip keeps
what was sent: a phase that starts where the last free one ended sends nothing to begin with. When a
phase has ended, each unit tells its synapses its whole state once, for the local rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.arrays import FloatArray, IntArray, checked_sum
from engine.backend import Clamped, Equilibrium, Relaxation
from engine.border import checked
from engine.errors import EngineError, check_count
from engine.model.network import Network
from engine.model.params import Params
from hw_sim import real_kernels as kernels
from hw_sim.counts import BORDER, Footprint
from hw_sim.layout import HOP, MESSAGE, TRACE_READ, WEIGHT_READ, WEIGHT_WRITE, Batch, Ended, Kept
from hw_sim.substrate import NEURON_WORDS, Substrate
from hw_sim.wiring import (
    Way,
    feeds,
    input_ways,
    layer_table,
    owners,
    readout_ways,
    recurrent_ways,
    wires,
)

FROM_KEPT, FROM_STATE, FROM_DRIVE = range(3)


@checked
@dataclass(frozen=True)
class SpikingConfig:
    """When a unit speaks, and how many share a core of a square mesh."""

    threshold: float = 0.01
    neurons_per_core: int = 32

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < 1.0:
            raise EngineError(
                f"the spiking substrate has threshold {self.threshold}, expected from 0 to below 1."
            )
        check_count("neurons_per_core", self.neurons_per_core)


class SpikingBackend(Substrate):
    """Run a network by events of the size of what changed."""

    @checked
    def __init__(
        self, network: Network, params: Params, config: SpikingConfig | None = None
    ) -> None:
        self.config = config or SpikingConfig()
        self._fan_out = fan_out(network, self.config.neurons_per_core)
        self._from_inputs = fan_from_inputs(network, self.config.neurons_per_core)
        self._to_outputs = fan_to_outputs(network, self.config.neurons_per_core)
        self._free: tuple[FloatArray, Kept] | None = None
        super().__init__(network, params)

    @property
    def params(self) -> Params:
        """The weights."""
        return self._params

    @property
    def footprint(self) -> Footprint:
        """What was sent and the pull besides, each kept twice, to return to the free phase."""
        kept = ("sent", "pull", "free_sent", "free_total", "free_pull")
        return Footprint((*NEURON_WORDS, *kept), ("weight", "gradient"))

    def cores(self, units: int) -> int:
        """Return how many cores hold so many units."""
        return -(-units // self.config.neurons_per_core)

    def _load(self, params: Params) -> None:
        self._params = params.astype(np.float64)
        self._assemble()

    def _assemble(self) -> None:
        self._free = None
        self._feeds = feeds(self._params, np.float64)
        self._wires = wires(self._params, np.float64, self._fan_out)

    def _drive(self, x: FloatArray) -> FloatArray:
        drive, tally = np.zeros((len(x), self.network.units)), self._tally()
        kernels.drive_events(x, self._feeds, self._from_inputs, drive, tally)
        self._count("input", tally)
        self.counts.add("input", BORDER, "off_chip", x.size)
        return drive

    def _settle(
        self,
        clamped: Clamped,
        beta: float,
        relaxation: Relaxation,
        start: FloatArray | None,
        tally: IntArray,
    ) -> Equilibrium:
        samples, fresh = len(clamped.x), FROM_DRIVE if start is None else FROM_STATE
        state = np.zeros((samples, self.network.units)) if start is None else start.copy()
        kept = self._new_kept(samples)
        if start is not None and self._free is not None and start is self._free[0]:
            fresh, kept = FROM_KEPT, Kept(*(words.copy() for words in self._free[1]))
        ended = Ended(state, np.zeros(samples, np.int64), np.zeros(samples))
        goal = np.zeros((1, self.network.outputs)) if clamped.y is None else clamped.y
        kernels.relax_events(
            self._wires, Batch(clamped.drive, goal, beta), self.config.threshold, kept, ended,
            fresh, relaxation.max_steps, relaxation.tolerance, self._work(np.float64), tally,
        )  # fmt: skip
        if beta == 0.0:
            self._free = (ended.state, kept)
        converged = ended.residual <= relaxation.tolerance
        return Equilibrium(ended.state, ended.steps, ended.residual, converged, beta)

    def _new_kept(self, samples: int) -> Kept:
        units, outputs = self.network.units, self.network.outputs
        read = self.network.sizes[self.network.readout.layer]
        return Kept(*(np.zeros((samples, n)) for n in (units, units, outputs, outputs, read)))

    def _errors(self, equilibrium: Equilibrium, targets: Any, tally: IntArray) -> FloatArray:
        state, work = equilibrium.state, self._work(np.float64)
        kept = self._new_kept(len(state))
        kept.logits[:] = np.resize(self._wires.bias, self.network.outputs)  # at each position
        if self._free is not None and state is self._free[0]:
            kept = self._free[1]
        errors = np.zeros((len(state), self.network.outputs))
        args = self._wires, targets, self.config.threshold, kept, self._to_outputs
        kernels.read_events(*args, state, errors, work, tally)
        return errors

    def _correlate(
        self, x: FloatArray, state: FloatArray, total: Params, energy: float, tally: IntArray
    ) -> None:
        super()._correlate(x, state, total, energy, tally)
        for place, (first, last, _) in enumerate(layer_table(self.network)):
            messages, hops = self._fan_out[first:last].sum(0)
            tally[place, MESSAGE] += len(x) * messages
            tally[place, HOP] += len(x) * hops

    def _apply(self, update: FloatArray) -> None:
        self._params.theta[...] = checked_sum(self._params.theta, update)
        self._assemble()
        tally = self._tally()
        for kind in (TRACE_READ, WEIGHT_READ, WEIGHT_WRITE):
            np.add.at(tally[:, kind], owners(self.network), 1)
        self._count("update", tally)


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
    side = int(np.ceil(np.sqrt(core[-1] + 1)))
    found = np.zeros((len(listeners), 2), np.int64)
    for unit, heard in enumerate(listeners):
        row, column = divmod(int(core[unit]), side)
        hops = sum(abs(c // side - row) + abs(c % side - column) for c in heard)
        found[unit] = len(heard), hops
    return found
