"""Workloads of publications as counts: passes through dense layers, word by word or by spikes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from engine.couplings.dense import Bias, InputDrive
from engine.couplings.readout import SquaredError
from engine.model.network import Layer, Network
from engine.model.params import initial_params
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.counts import OpCounts
from hw_sim.formula import dense_counts
from hw_sim.places import BORDER
from hw_sim.prices.technology import Technology


def forward_counts(sizes: Sequence[int]) -> OpCounts:
    """Return the events of one pass through dense layers: each is driven once, and activated."""
    counts = OpCounts()
    for k, (below, above) in enumerate(pairwise(sizes), start=1):
        counts += dense_counts(one_layer(below, above, k), 1, 0, 0, 0)
    return counts


def spiking_step(sizes: Sequence[int]) -> OpCounts:
    """Return the events of a step in which each neuron is updated and speaks to the next layer.

    What arrives is counted by the chip. It takes words for inputs from beyond the border; all but
    those of the first layer are spikes of the layer below.
    """
    counts, config = OpCounts(), SpikingConfig(neurons_per_core=1024)
    for k, (below, above) in enumerate(pairwise(sizes), start=1):
        network = one_layer(below, above, k)
        params = initial_params(network, np.random.default_rng(0))
        chip = SpikingBackend(network, params, config)
        chip.clamp(np.ones((1, below)))
        if k > 1:
            del chip.counts.events["input", BORDER, "off_chip"]
        counts += chip.counts
        for kind in ("activation", "spike_out"):
            counts.add("free", f"layer{k}", kind, above)
    return counts


def at_clock(technology: Technology, clock_hz: float, stated_hz: float = 100e6) -> Technology:
    """Return a technology whose times, stated at one clock, are those of another."""
    faster = {
        kind: price.at({}).times(stated_hz / clock_hz)
        for kind, price in technology.prices["latency"].items()
    }
    return replace(technology, prices={**technology.prices, "latency": faster})


def one_layer(inputs: int, units: int, number: int = 1) -> Network:
    """Build one layer that only hears inputs."""
    name = f"layer{number}"
    couplings = InputDrive(f"W_{number}", name), Bias(f"b_{number}", name)
    return Network(inputs, (Layer(name, (units,)),), couplings, SquaredError(name))
