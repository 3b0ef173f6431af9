"""What all substrates share: a backend that counts what it does and declares its memory."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, IntArray, by_sample
from engine.backend import Backend
from engine.couplings.link import INPUT, ONE, Link
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.errors import EngineError
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.audit.recording import Memory, Trace, recorded
from hw_sim.chips import local_rule_kernels
from hw_sim.chips.host_cores import over_cores
from hw_sim.chips.kernel_arguments import Endings, Registers
from hw_sim.chips.messages import check_activations, check_network, gathered
from hw_sim.counts import Footprint, OpCounts
from hw_sim.events import HOP, KINDS
from hw_sim.places import BORDER, places

NEURON_WORDS = ("state", "image", "drive", "total", "free", "opposite")
"""Of each neuron: its state and the next one, what drives it without and with the others, and its
states in the free phase, to return to, and in the phase that is compared."""


class Substrate(Backend):
    """A simulated chip. `counts` grows with everything that it does.

    Numbers cross the border in double precision. Steps are plain: one sample at a time applies
    `T`, and stops when it has settled.
    """

    solvers = frozenset({"fixed_point"})
    _number: ClassVar[npt.DTypeLike] = np.float64
    """Type of the words that a sample is calculated in."""
    in_array: ClassVar[bool] = False
    """Whether a matrix product is one read of an array, between converters."""
    tile: tuple[int, int] = (0, 0)
    """Rows and columns of the largest array; 0 is without end."""
    neurons_per_core: int = 0
    """That one core holds at most; 0 without cores."""

    def __init__(self, network: Network, params: Params) -> None:
        check_network(network)
        self.counts = OpCounts()
        super().__init__(network, params)
        self.counts = OpCounts()  # loading the first weights is no part of a run

    @property
    def dtype(self) -> npt.DTypeLike:
        """Of the numbers that cross the border."""
        return np.dtype(np.float64)

    @property
    @abstractmethod
    def footprint(self) -> Footprint:
        """The words of memory it holds for each neuron and each synapse."""

    @property
    def most_writes(self) -> int:
        """Writes of the weight cell that was written most; 0 where cells do not wear."""
        return 0

    @property
    def saturated(self) -> dict[str, int]:
        """How often a word would have left its width, by what happened to it."""
        return {}

    @property
    def core_work(self) -> IntArray:
        """What each core did so far, `(5, cores)`; none where there are no cores."""
        return np.zeros((5, 0), np.int64)

    @property
    def lengths_ns(self) -> tuple[float, ...]:
        """Of an update, a spike, a send, a receipt and a synaptic operation in a core."""
        return (0.0,) * 5

    def read(self, state: FloatArray) -> FloatArray:
        """Return a state as the read-out and the synapses see it."""
        return state

    def _predict(self, equilibrium: Equilibrium) -> FloatArray:
        """Read the outputs `(samples, outputs)` from a state."""
        network = self.network
        seen = by_sample(network.of(network.readout.layer, self.read(equilibrium.state)))
        tally, targets = self._tally(), np.zeros((len(seen), network.outputs))
        outputs: FloatArray = seen
        if network.reading and network.reading.link:
            outputs = self._errors(equilibrium, targets, tally)
        self._count("readout", tally)
        self.counts.add("readout", BORDER, "off_chip", outputs.size)
        return outputs.copy()

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        check_activations(self.network)
        if relaxation.damping != 1.0:
            raise EngineError(f"{type(self).__name__} has no damping; it takes whole steps.")
        tally = self._tally()
        equilibrium = self._settle(clamped, beta, relaxation, start, tally)
        self._count("free" if beta == 0.0 else "nudged", tally)
        if beta != 0.0 and clamped.y is not None:
            self.counts.add("nudged", BORDER, "off_chip", clamped.y.size)
        return equilibrium

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> None:
        total, tally = Params(self.network, gradient), self._tally()
        if energy != 0.0:
            self._correlate(clamped.x, self.read(equilibrium.state), total, energy, tally)
        reading = self.network.reading
        if cost != 0.0 and reading and reading.link:
            error = self._errors(equilibrium, clamped.y, tally)
            seen = self._end(self.network.readout.layer, self.read(equilibrium.state))
            _correlate_link(total, reading.link, seen, error, cost, tally[-1])
            everywhere = np.zeros((reading.positions, 1), np.int64)
            local_rule_kernels.correlate_bias(
                total[reading.bias], error, everywhere, cost, tally[-1]
            )
        tally[:, HOP] += len(clamped.x) * self._learning_hops(energy != 0.0, cost != 0.0)
        self._count("learn", tally)

    def _learning_hops(self, energy: bool, cost: bool) -> IntArray:
        """Return the hops of words that synapses learn from, of one sample, `(places,)`."""
        return np.zeros(len(places(self.network)), np.int64)

    def _correlate(
        self, x: FloatArray, state: FloatArray, total: Params, energy: float, tally: IntArray
    ) -> None:
        """Add `energy dE/dw` of every coupling: each synapse sees its two ends."""
        network, names = self.network, places(self.network)
        seen = self._seen_input(x)
        for link in network.links.values():
            row = tally[names.index(link.target)]
            target = self._end(link.target, state)
            if link.source == ONE:
                block = total[link.block].reshape(-1)
                local_rule_kernels.correlate_bias(block, target, gathered(link), -energy, row)
                continue
            source = seen if link.source == INPUT else self._end(link.source, state)
            share = -energy / 2 if link.tied else -energy
            _correlate_link(total, link, source, target, share, row)

    def _end(self, layer: str, state: FloatArray) -> FloatArray:
        """Return the units of a layer as a kernel reads them, `(samples, size)`."""
        return np.ascontiguousarray(by_sample(self.network.of(layer, state)))

    def _seen_input(self, x: FloatArray) -> FloatArray:
        """Return the inputs as the substrate holds them."""
        return x

    @abstractmethod
    def record_relaxation(
        self, x: FloatArray, y: FloatArray, beta: float, steps: int, trace: Trace
    ) -> Any:
        """Relax in plain Python on memory that records; return the words of the state.

        All steps are taken, even at rest.
        """

    def _recorded_words(self, samples: int, trace: Trace) -> tuple[Endings, Registers]:
        """Return where a recorded relaxation ends, and what it is calculated in."""
        check_activations(self.network)
        number, told = self._number, _Told(samples)
        state = Memory("state", np.zeros((samples, self.network.units), number), trace)
        work: Registers = recorded(self._registers(number), trace, prefix="work.")
        return Endings(state, told, told), work

    def record_update(self, update: FloatArray, trace: Trace) -> bool:
        """Update copies of the weights that record; return whether the chip has a kernel for it."""
        return False

    def _tally(self) -> IntArray:
        return np.zeros((len(places(self.network)), len(KINDS)), np.int64)

    def _count(self, phase: str, tally: IntArray) -> None:
        self.counts.add_tally(phase, self.network, tally)

    def _registers(self, dtype: npt.DTypeLike) -> Registers:
        units, outputs = self.network.units, self.network.outputs
        shapes = (1, units), (units,), (1, outputs), (outputs,)
        return Registers(*(np.zeros(shape, dtype) for shape in shapes))

    @abstractmethod
    def _settle(
        self,
        clamped: Clamped,
        beta: float,
        relaxation: Relaxation,
        start: FloatArray | None,
        tally: IntArray,
    ) -> Equilibrium:
        """Relax every sample and tally it."""

    @abstractmethod
    def _errors(self, equilibrium: Equilibrium, targets: Any, tally: IntArray) -> FloatArray:
        """Return `softmax - targets` at a state that is read, `(samples, outputs)`."""


WIRING = ("table", "gather", "layers", "fan_out")
"""What the kernels are handed beside words: who is connected to whom, which no audit follows."""


class _Told:
    """A sink for what the controller is told: it is no word of a neuron or a synapse."""

    def __init__(self, size: int) -> None:
        self.shape = (size,)

    def __setitem__(self, index: int, value: Any) -> None:
        pass


def _correlate_link(
    total: Params, link: Link, source: FloatArray, target: FloatArray, scale: float, row: IntArray
) -> None:
    """Add `scale` times the products of both ends to the block of a link."""
    block, gather = total[link.block].reshape(link.fan_in, link.fan_out), gathered(link)

    def run(rows: slice, tally: IntArray) -> int:
        ends = source, target, gather, scale, rows.start, rows.stop
        local_rule_kernels.correlate(block, *ends, tally)
        return 0

    over_cores(run, link.fan_in, len(source) * link.positions * link.fan_out, row)
