"""The rivals: backprop and backprop through time, run and counted on the same words.

A looped network is unrolled for a fixed number of steps, and the trajectory is stored. Without
recurrent couplings and steps this is plain backprop through one hidden layer. The gradient is that
of the cost after the last step; optimizer, cap and order of the batches are those of EqProp.
"""

from dataclasses import dataclass, field

import numpy as np

from engine.activation import ACTIVATIONS
from engine.arrays import FloatArray
from engine.backend import Backend
from engine.coupling import Bias, InputDrive
from engine.errors import EngineError
from engine.estimator import Report
from engine.network import Layer, Network
from engine.params import Params
from engine.readout import SoftmaxReadout
from engine.run import Run
from engine.train import Training, descend
from hw_sim import backprop_kernels as kernels
from hw_sim.counts import BORDER, OpCounts
from hw_sim.layout import KINDS
from hw_sim.wiring import check_network, feeds, owners, places, symmetrised, wires

PASSES = ("input", "free", "backward", "learn")
"""Phases in which a rival counts, in the order of the rows of its tally."""


def feedforward(inputs: int, hidden: int, outputs: int) -> Network:
    """Build the same network without recurrence: one tanh layer, read out by softmax."""
    return Network(
        inputs,
        (Layer("hidden", hidden),),
        (InputDrive("W_in", "hidden"), Bias("b", "hidden")),
        SoftmaxReadout("hidden", outputs),
    )


@dataclass
class Rival:
    """Backprop through `steps` steps, as a step of `engine.train.fit`; `counts` grows with it."""

    steps: int
    counts: OpCounts = field(default_factory=OpCounts)

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
        cost = self.gradient(backend.params, x, y, run.gradient)
        descend(backend, training, run, total)
        network = backend.network
        for place, name in enumerate(places(network)):
            words = int((owners(network) == place).sum())
            for kind in ("trace_read", "weight_read", "weight_write"):
                self.counts.add("update", name, kind, words)
        return Report(cost, float(self.steps), 0.0, 0.0)

    def gradient(self, params: Params, x: FloatArray, y: FloatArray, gradient: FloatArray) -> float:
        """Write the gradient of the mean cost into `gradient`; return the mean cost."""
        network, samples = params.network, len(x)
        check_network(network)
        if len(network.layers) > 1 or not isinstance(network.readout, SoftmaxReadout):
            raise EngineError("backprop is counted for one layer with a softmax read-out only.")
        if network.layers[0].rule is not ACTIVATIONS["tanh"]:
            raise EngineError("backprop is counted for tanh only.")
        held = params.astype(np.float64)
        total = Params(network, np.zeros(network.size))
        units, outputs = network.units, network.outputs
        recurrent = total["W_rec"] if "W_rec" in total else np.zeros((units, units))
        blocks = kernels.Slopes(
            total["W_in"], total["b"], recurrent, total["W_out"], total["b_out"]
        )
        memory = kernels.Memory(
            np.zeros((self.steps + 1, units)), np.zeros(units), np.zeros((2, units)),
            np.zeros(units), np.zeros(outputs),
        )  # fmt: skip
        tally = np.zeros((len(PASSES), len(places(network)), len(KINDS)), np.int64)
        cost = kernels.backpropagate(
            np.asarray(x, np.float64), np.asarray(y, np.float64),
            feeds(held, np.float64), wires(held, np.float64), self.steps, memory, blocks, tally,
        )  # fmt: skip
        for phase, part in zip(PASSES, tally, strict=True):
            self.counts.add_tally(phase, network, part)
        self.counts.add("input", BORDER, "off_chip", x.size)
        self.counts.add("backward", BORDER, "off_chip", y.size)
        gradient[:] = symmetrised(network, total.theta).theta / samples
        return float(cost / samples)

    def words(self, network: Network, moments: int = 0) -> int:
        """Return the words of memory it needs: the trajectory grows with the steps."""
        neuron = network.units * (self.steps + 1 + 4) + 2 * network.outputs
        return neuron + network.size * (2 + moments)
