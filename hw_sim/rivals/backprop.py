"""The rivals: backprop and backprop through time, on the same words and cells as EqProp.

Backprop goes through the layers once, from the first to the last; BPTT unrolls the relaxing network
for a fixed number of synchronous steps, and stores the trajectory. The gradient is that of the cost
at the end, in double precision for the weights that the substrate holds; the substrate also writes
the updates. Optimizer, cap and order of the batches are those of EqProp.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.couplings.link import ONE
from engine.errors import EngineError
from engine.learning.estimator import Report
from engine.learning.run import Run
from engine.learning.training import Training, descend
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.chips.kernel_arguments import Feeds, Wires
from hw_sim.chips.messages import (
    feeds,
    forward_ways,
    hold,
    messages,
    mirrors,
    recurrent_ways,
    symmetrised,
    wires,
)
from hw_sim.chips.substrate import Substrate
from hw_sim.counts import OpCounts, WordCount
from hw_sim.places import BORDER
from hw_sim.rivals import backprop_kernels as kernels
from hw_sim.rivals.counting import Medium, backward_events, forward_events

Events = Callable[[Network, int, Medium], OpCounts]
"""What one sample of a network takes with so many steps."""


def feedforward(network: Network, activation: str | None = None) -> Network:
    """Return the same layers without recurrence: no layer is coupled to itself.

    What joins two layers stays, and backprop sends through it from the earlier to the later one.
    Units may have another `activation`.
    """
    inside = {name for name, link in network.links.items() if link.source == link.target}
    couplings = tuple(c for c in network.couplings if c.name not in inside)
    layers = network.layers
    if activation is not None:
        layers = tuple(replace(layer, activation=activation) for layer in layers)
    return replace(network, layers=layers, couplings=couplings)


@dataclass(frozen=True)
class Rival:
    """Backprop as a step of `engine.fit`; the substrate counts.

    With `steps` it is BPTT through so many; 0 is one pass through the layers, without feedback.
    """

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
        self._check(backend.network)
        network, (fed, wired) = backend.network, laid_out(backend.params, self.steps)
        memory, slopes = kernels.new_memory(network, self.steps), new_slopes(fed, wired)
        inputs, targets = np.array(x, np.float64), np.asarray(y, np.float64)
        cost = kernels.backpropagate(inputs, targets, self.steps, fed, wired, memory, slopes)
        self._count(backend, len(x), forward_events, backward_events)
        backend.counts.add("input", BORDER, "off_chip", x.size)
        backend.counts.add("backward", BORDER, "off_chip", y.size)
        gradient[:] = symmetrised(network, folded(network, slopes)).theta / len(x)
        return float(cost / len(x))

    def predict(self, backend: Substrate, x: FloatArray) -> FloatArray:
        """Return the outputs `(samples, outputs)` of a forward pass."""
        self._check(backend.network)
        network, (fed, wired) = backend.network, laid_out(backend.params, self.steps)
        inputs, memory = np.array(x, np.float64), kernels.new_memory(network, self.steps)
        outputs, none = np.zeros((2, len(x), network.outputs))
        kernels.predict(inputs, none, self.steps, fed, wired, memory, outputs)
        self._count(backend, len(x), forward_events)
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

    def _check(self, network: Network) -> None:
        """Refuse what has no softmax read-out, and steps where nothing is recurrent."""
        if not (network.reading and network.reading.link):
            raise EngineError("backprop is counted for a softmax read-out only.")
        if self.steps and not recurrent_ways(network):
            raise EngineError(f"backprop through {self.steps} steps needs a recurrent coupling.")

    def _count(self, backend: Substrate, samples: int, *passes: Events) -> None:
        medium = Medium(
            backend.in_array, backend.tile, backend.neurons_per_core, backend.lengths_ns
        )
        for events in passes:
            for key, count in events(backend.network, self.steps, medium):
                backend.counts.add(*key, samples * count)


def laid_out(params: Params, steps: int) -> tuple[Feeds, Wires]:
    """Return inputs, couplings and read-out of parameters as the kernels take them."""
    network, held = params.network, hold(params, np.float64)
    ways = recurrent_ways(network) if steps else forward_ways(network)
    wired = wires(network, held)._replace(messages=messages(network, ways, held))
    return feeds(network, held), wired


def new_slopes(fed: Feeds, wired: Wires) -> kernels.Slopes:
    """Return slopes of zero for everything that is laid out."""
    held = wired.messages.weights, fed.bias, wired.bias
    return kernels.Slopes(*(np.zeros(words.shape) for words in held))


def folded(network: Network, slopes: kernels.Slopes) -> FloatArray:
    """Return slopes as one gradient `(network.size,)`, of a block that is held twice their sum."""
    total = Params(network, slopes.weights[: network.size])
    for name, start in mirrors(network).items():
        rows, columns = network.links[name].fan_in, network.links[name].fan_out
        mirrored = slopes.weights[start : start + rows * columns].reshape(columns, rows)
        total[name][...] += mirrored.T.reshape(total[name].shape)
    for link in network.links.values():
        if link.source == ONE:
            sent = slopes.bias[None, network.columns[link.target]]
            total[link.block][...] = link.correlate(np.ones((1, 1)), sent)[0]
    if network.reading:
        total[network.reading.bias][...] = slopes.out
    return total.theta
