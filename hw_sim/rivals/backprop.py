"""The rivals: backprop and backprop through time, on the same words and cells as EqProp.

A looped network is unrolled for a fixed number of steps, and the trajectory is stored. Without
recurrent couplings and steps this is plain backprop through one hidden layer. The gradient is that
of the cost after the last step, in double precision for the weights that the substrate holds; the
substrate also writes the updates. Optimizer, cap and order of the batches are those of EqProp.
"""

from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.backend import Backend
from engine.couplings.dense import Bias, InputDrive
from engine.couplings.readout import SoftmaxReadout
from engine.errors import EngineError
from engine.learning.estimator import Report
from engine.learning.run import Run
from engine.learning.training import Training, descend
from engine.model.activation import ACTIVATIONS
from engine.model.network import Layer, Network
from engine.model.params import Params
from hw_sim.chips.messages import Way, input_ways, recurrent_ways, symmetrised
from hw_sim.chips.substrate import Substrate
from hw_sim.chips.tile_mesh import tile_mesh
from hw_sim.chips.tile_traffic import traffic_of
from hw_sim.counts import WordCount
from hw_sim.events import HOP, KINDS
from hw_sim.places import BORDER, places
from hw_sim.rivals import backprop_kernels as kernels

BLOCKS = [
    {"W_in", "b", "W_out", "b_out"},
    {"W_in", "b", "W_rec", "W_out", "b_out"},
]
"""Of the networks that the kernels know."""
PASSES = ("input", "free", "backward", "learn")
"""Phases in which a rival counts, in the order of the rows of its tally."""


def feedforward(inputs: int, hidden: int, outputs: int) -> Network:
    """Build the same network without recurrence: one tanh layer, read out by softmax."""
    return Network(
        inputs,
        (Layer("hidden", (hidden,)),),
        (InputDrive("W_in", "hidden"), Bias("b", "hidden")),
        SoftmaxReadout("hidden", outputs),
    )


@dataclass(frozen=True)
class Rival:
    """Backprop through `steps` steps, as a step of `engine.fit`; the substrate counts."""

    steps: int

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 0:
            raise EngineError(f"steps is {self.steps!r}, expected 0 or a whole number above.")

    def __call__(
        self,
        backend: Backend,
        x: FloatArray,
        y: FloatArray,
        training: Training,
        run: Run,
        total: int,
    ) -> Report:
        """Update by the gradient of one batch."""
        if not isinstance(backend, Substrate):
            raise EngineError(f"backprop is counted on a substrate, not {type(backend).__name__}.")
        cost = self.gradient(backend, x, y, run.gradient)
        descend(backend, training, run, total)
        return Report(cost, float(self.steps), 0.0, 0.0)

    def gradient(
        self, backend: Substrate, x: FloatArray, y: FloatArray, gradient: FloatArray
    ) -> float:
        """Write the gradient of the mean cost into `gradient`; return the mean cost."""
        network, total = backend.network, Params(backend.network, np.zeros(backend.network.size))
        memory, tally = kernels.new_memory(network, self.steps), _new_tally(network)
        batch = self._batch(backend, x, y)
        cost = kernels.backpropagate(*batch, memory, kernels.matrices_of(total), tally)
        self._move_words(backend, len(x), tally, is_trained=True)
        _count(backend, tally)
        backend.counts.add("input", BORDER, "off_chip", x.size)
        backend.counts.add("backward", BORDER, "off_chip", y.size)
        gradient[:] = symmetrised(network, total.theta).theta / len(x)
        return float(cost / len(x))

    def predict(self, backend: Substrate, x: FloatArray) -> FloatArray:
        """Return the outputs `(samples, outputs)` of a forward pass."""
        network, tally = backend.network, _new_tally(backend.network)
        outputs = np.zeros((len(x), network.outputs))
        batch = self._batch(backend, x, np.zeros_like(outputs))
        kernels.predict(*batch, kernels.new_memory(network, self.steps), outputs, tally)
        self._move_words(backend, len(x), tally, is_trained=False)
        _count(backend, tally)
        backend.counts.add("input", BORDER, "off_chip", x.size)
        backend.counts.add("readout", BORDER, "off_chip", outputs.size)
        return outputs

    def words(self, backend: Substrate, moments: int = 0) -> WordCount:
        """Return the memory it needs: the trajectory grows with the steps."""
        network, held = backend.network, backend.footprint
        units, outputs = network.units, network.outputs
        # Beside the trajectory: the drive, two deltas and their sum; logits and error.
        state, total = units * (self.steps + 1 + 2) + outputs, units + outputs
        words = {"state": state, "drive": units, "total": total}
        return replace(held.count(network, moments), **held.by_width(words))

    def _move_words(
        self, backend: Substrate, samples: int, tally: IntArray, is_trained: bool
    ) -> None:
        """Count what moves between tiles; each product sends its words, as in EqProp.

        To learn, deltas are where they have been sent back to, and states are sent once more.
        """
        network = backend.network
        moved, mesh = traffic_of(network, backend.tile), tile_mesh(network, backend.tile)
        for row, hops in zip(tally[..., HOP], (moved.input, self.steps * moved.step), strict=False):
            row += samples * hops
        tally[PASSES.index("free"), :, HOP] += samples * moved.readout
        if not is_trained:
            return
        tally[PASSES.index("backward"), :, HOP] += samples * moved.errors
        hidden = tally[:, 0, HOP]
        for way in recurrent_ways(network):
            back = mesh.read(Way(way.link, backwards=True)).sum()
            hidden[PASSES.index("backward")] += samples * self.steps * back
            again = mesh.sent(way.link, from_rows=True).sum()
            hidden[PASSES.index("learn")] += samples * self.steps * again
        for way in input_ways(network):
            hidden[PASSES.index("learn")] += samples * mesh.told(way.link).sum()

    def _batch(
        self, backend: Substrate, x: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray, kernels.Matrices, int, kernels.Medium]:
        """Return what both kernels take: data, weights, steps, and how products are done."""
        network = backend.network
        _check_network(network, self.steps)
        sizes = network.units, network.outputs
        medium = kernels.Medium(
            backend.in_array,
            np.array([backend.cores(units) for units in sizes], np.int64),
            np.array(backend.tile, np.int64),
            np.array([backend.fullest_core(units) for units in sizes], np.int64),
            np.array(backend.lengths_ns),
        )
        inputs, targets = np.asarray(x, np.float64), np.asarray(y, np.float64)
        held = kernels.matrices_of(backend.params.astype(np.float64))
        return inputs, targets, held, self.steps, medium


def _check_network(network: Network, steps: int) -> None:
    """Refuse what is not one layer between whole matrices."""
    if len(network.layers) > 1 or not (network.reading and network.reading.link):
        raise EngineError("backprop is counted for one layer with a softmax read-out only.")
    if network.layers[0].rule is not ACTIVATIONS["tanh"]:
        raise EngineError("backprop is counted for tanh only.")
    links = [*network.links.values(), network.reading.link]
    if set(network.blocks) not in BLOCKS or not all(link.whole for link in links):
        names = ", ".join(network.blocks)
        raise EngineError(f"backprop is counted for looped_mlp and feedforward, not for {names}.")
    if steps and "W_rec" not in network.blocks:
        raise EngineError(f"backprop through {steps} steps needs a recurrent coupling W_rec.")


def _new_tally(network: Network) -> IntArray:
    return np.zeros((len(PASSES), len(places(network)), len(KINDS)), np.int64)


def _count(backend: Substrate, tally: IntArray) -> None:
    for phase, part in zip(PASSES, tally, strict=True):
        backend.counts.add_tally(phase, backend.network, part)
