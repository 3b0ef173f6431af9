"""Event driven (sigma-delta): a unit sends an event only when its state changed enough.

    if |s_i - sent_i| > threshold:  total_j += (s_i - sent_i) W_ij for all j;  sent_i <- s_i

Synapses of silent units do nothing. The read-out sends its error back in the same way. A chip keeps
what was sent: a phase that starts where the last free one ended sends nothing to begin with. When a
phase has ended, each unit tells its synapses its whole state once, for the local rule.

Cores work side by side, and within a core one thing follows the other. A step lasts as long as the
longest work of a core, and ends with a barrier:

    max over cores of max(updates + spikes + sends, receives + synapses) + barrier
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.arrays import FloatArray, IntArray, checked_sum
from engine.border import checked
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.errors import EngineError, check_count
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.audit.recording import Trace, interpreted, recorded
from hw_sim.chips import event_kernels as kernels
from hw_sim.chips.chip import DENSE, Chip
from hw_sim.chips.exchange_kernels import tell_all
from hw_sim.chips.floor_plan import FloorPlan, on_cores
from hw_sim.chips.kernel_arguments import Endings, HeldBatch, Kept
from hw_sim.chips.landing import cores_of, landing_of_inputs, landing_on_outputs, learned
from hw_sim.chips.mesh import fan_from_inputs, fan_out, fan_to_outputs
from hw_sim.chips.messages import feeds, hold, layer_table, wires
from hw_sim.chips.settings import ChipSettings, check_between
from hw_sim.chips.substrate import NEURON_WORDS, WIRING, Substrate
from hw_sim.counts import Footprint, OpCounts, neuron_count
from hw_sim.events import HOP, MESSAGE, SPIKE_OUT, TRACE_READ, WEIGHT_READ, WEIGHT_WRITE
from hw_sim.places import BORDER, READOUT, owners

FROM_KEPT, FROM_STATE, FROM_DRIVE = range(3)
LONGEST_NS = 1e9


@checked
@dataclass(frozen=True)
class SpikingConfig(ChipSettings):
    """When a unit speaks, how many share a core of a square mesh, and how fast a core is.

    Times (SANA-FE's Loihi) only say which core a step waits for: what it then costs has a price.
    """

    threshold: float = 0.01
    neurons_per_core: int = 32
    cores_per_tile: int = 4
    """Whose routers are one: the barrier waits for tiles."""
    update_ns: float = 9.7
    spike_ns: float = 30.0
    send_ns: float = 5.1
    receive_ns: float = 16.0
    synapse_ns: float = 3.8

    @property
    def lengths_ns(self) -> tuple[float, ...]:
        """Of an update, a spike, a send, a receipt and a synaptic operation."""
        return self.update_ns, self.spike_ns, self.send_ns, self.receive_ns, self.synapse_ns

    def tiles(self, network: Network) -> int:
        """Return how many tiles hold a network."""
        cores = -(-neuron_count(network) // self.neurons_per_core)
        return -(-cores // self.cores_per_tile)

    def floor_plan(self, network: Network) -> FloorPlan | None:
        """Return its cores."""
        return on_cores(network, self.neurons_per_core)

    def hot_spots(self, network: Network, counts: OpCounts, core_work: IntArray) -> FloatArray:
        """Return how long each core worked, in nanoseconds."""
        worked: FloatArray = np.array(self.lengths_ns) @ core_work
        return worked[: -(-neuron_count(network) // self.neurons_per_core)]

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < 1.0:
            raise EngineError(
                f"the spiking substrate has threshold {self.threshold}, expected from 0 to below 1."
            )
        check_count("neurons_per_core", self.neurons_per_core)
        check_count("cores_per_tile", self.cores_per_tile)
        for name in ("update_ns", "spike_ns", "send_ns", "receive_ns", "synapse_ns"):
            check_between("the spiking substrate", name, getattr(self, name), 0.0, LONGEST_NS)


class SpikingBackend(Substrate):
    """Run a network by events of the size of what changed."""

    @checked
    def __init__(
        self, network: Network, params: Params, config: SpikingConfig | None = None
    ) -> None:
        self.config = config or SpikingConfig()
        self.neurons_per_core = self.config.neurons_per_core
        self._fan_out = fan_out(network, self.config.neurons_per_core)
        self._from_inputs = fan_from_inputs(network, self.config.neurons_per_core)
        self._to_outputs = fan_to_outputs(network, self.config.neurons_per_core)
        self._cores = cores_of(network, self.config.neurons_per_core, self.config.lengths_ns)
        self._inputs_land = landing_of_inputs(network, self._cores.home)
        self._outputs_land = landing_on_outputs(network, self._cores.home)
        self._learned = learned(network, self._cores.home)
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

    @property
    def core_work(self) -> IntArray:
        """What each core did so far: updates, spikes, sends, receipts, synaptic operations."""
        done: IntArray = self._cores.done.copy()
        return done

    @property
    def lengths_ns(self) -> tuple[float, ...]:
        """As they are set."""
        return self.config.lengths_ns

    def _load(self, params: Params) -> None:
        self._params = params.astype(np.float64)
        self._assemble()

    def _assemble(self) -> None:
        self._free = None
        held = hold(self._params, np.float64)
        self._feeds = feeds(self.network, held)
        self._wires = wires(self.network, held, self._fan_out)

    def _drive(self, x: FloatArray) -> FloatArray:
        drive, tally = np.zeros((len(x), self.network.units)), self._tally()
        fan = self._from_inputs, self._inputs_land, self._cores
        kernels.drive_events(x, self._feeds, *fan, drive, tally)
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
        ended = Endings(state, np.zeros(samples, np.int64), np.zeros(samples))
        goal = np.zeros((1, self.network.outputs)) if clamped.y is None else clamped.y
        kernels.relax_events(
            self._wires, HeldBatch(clamped.drive, goal, beta), self.config.threshold, kept, ended,
            fresh, relaxation.max_steps, relaxation.tolerance, self._registers(np.float64),
            self._cores, tally,
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
        state, work = equilibrium.state, self._registers(np.float64)
        kept = self._new_kept(len(state))
        kept.logits[:] = np.resize(self._wires.bias, self.network.outputs)  # at each position
        if self._free is not None and state is self._free[0]:
            kept = self._free[1]
        errors = np.zeros((len(state), self.network.outputs))
        told = self._to_outputs, self._outputs_land
        args = self._wires, targets, self.config.threshold, kept, *told
        kernels.read_events(*args, state, errors, work, self._cores, tally)
        return errors

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> None:
        super()._accumulate(clamped, equilibrium, gradient, energy, cost)
        if cost != 0.0:  # the outputs have heard all states, and learn one by one within a core
            products = len(clamped.x) * int(self._learned[1].max())
            self.counts.add("learn", READOUT, "busy_synapse", products)

    def _correlate(
        self, x: FloatArray, state: FloatArray, total: Params, energy: float, tally: IntArray
    ) -> None:
        super()._correlate(x, state, total, energy, tally)
        for place, (first, last, _) in enumerate(layer_table(self.network)):
            messages, hops = self._fan_out[first:last].sum(0)
            tally[place, SPIKE_OUT] += len(x) * (last - first)
            tally[place, MESSAGE] += len(x) * messages
            tally[place, HOP] += len(x) * hops
        tell_all(self._cores, self.network.units, self._learned[0], len(x), tally)

    def record_relaxation(
        self, x: FloatArray, y: FloatArray, beta: float, steps: int, trace: Trace
    ) -> Any:
        """Relax by events whatever the threshold: those are all accesses that there can be."""
        ended, work = self._recorded_words(len(x), trace)
        kept = recorded(self._new_kept(len(x)), trace)
        batch = HeldBatch(self._drive(x), y, beta)
        interpreted(kernels)["relax_events"](
            recorded(self._wires, trace, WIRING), recorded(batch, trace), 0.0, kept, ended,
            FROM_DRIVE, steps, -1.0, work, self._cores, self._tally(),
        )  # fmt: skip
        return ended.state.numbers()

    def _apply(self, update: FloatArray) -> None:
        self._params.theta[...] = checked_sum(self._params.theta, update)
        self._assemble()
        tally = self._tally()
        for kind in (TRACE_READ, WEIGHT_READ, WEIGHT_WRITE):
            np.add.at(tally[:, kind], owners(self.network), 1)
        self._count("update", tally)


SPIKING = Chip(
    name="spiking",
    backend=SpikingBackend,
    settings=SpikingConfig(),
    technologies=("loihi_like",),
    events=(*DENSE, "message", "hop", "spike_out"),
    tuned={
        "looped": {"eqprop": 0.032, "backprop": 0.016, "bptt": 0.032},
        "conv": {"eqprop": 0.008, "backprop": 0.016, "bptt": 0.064},
    },
)
