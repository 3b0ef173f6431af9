"""Multiply-adds of one sample in one training step: the floor of what each method has to do.

Only products count, those of activations, optimizer and cap do not. What a method does beyond its
floor is overhead, and is in the measured times.
"""

from dataclasses import dataclass

from engine.couplings.link import INPUT, ONE
from engine.model.network import Network


@dataclass(frozen=True)
class StepsTaken:
    """Steps of the free phase and of each nudged one, as means over samples."""

    free: float
    nudged: float
    nudges: int = 1
    sweeps: bool = False
    """Whether the layers took turns."""


@dataclass(frozen=True)
class Products:
    """Multiply-adds of one signal through the links of a network, by what the links join.

    `tied` links join a layer to itself, and one signal serves both of their ends.
    """

    first: int
    tied: int
    inner: int
    read: int


def products_of(network: Network) -> Products:
    """Add up the links of a network; biases are no products."""
    first = tied = inner = 0
    for link in network.links.values():
        if link.source == INPUT:
            first += link.macs
        elif link.tied:
            tied += link.macs
        elif link.source != ONE:
            inner += link.macs
    reading = network.reading
    read = 0 if reading is None or reading.link is None else reading.link.macs
    return Products(first, tied, inner, read)


def eqprop_macs(network: Network, took: StepsTaken) -> float:
    """Return those of an estimate that took so many steps.

    A step sends a link both ways, a tied one once. The first nudged step starts from the drive
    of the free state, and of sweeps the first free one goes only up and the first nudged one only
    down: the rest is still at zero. Each nudged step reads out and sends the error back. A link
    learns from both of its ends, a tied one and that of the input from one.
    """
    one = products_of(network)
    steps = took.free + took.nudges * (took.nudged - 1.0)
    ways = 2.0 * steps
    if took.sweeps:
        ways = 2.0 * took.free - 1.0 + took.nudges * (2.0 * took.nudged - 1.0)
    reads = 2.0 * (took.nudges * took.nudged + 1.0)
    return 2.0 * one.first + (steps + 1.0) * one.tied + (ways + 2.0) * one.inner + reads * one.read


def backprop_macs(network: Network) -> float:
    """Return those of the layers as a feed-forward network.

    Forwards, backwards to the states, and to the weights; the input needs no gradient.
    """
    one = products_of(network)
    return float(2 * one.first + 3 * (one.inner + one.read))


def unrolled_macs(network: Network, steps: int) -> float:
    """Return those of BPTT through so many steps."""
    one = products_of(network)
    both = one.tied + 2 * one.inner
    return float(2 * one.first + 3 * steps * both + 3 * one.read)
