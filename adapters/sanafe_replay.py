"""SANA-FE as a judge: the same network on the same cores, firing as it is told, step by step.

Each unit is a leaky integrate-and-fire neuron of SANA-FE, and so is each output. It leaks all it
has and all weights are zero, so that it fires when its bias says so and never else. What SANA-FE
then reports of energy and time is its own.
"""

import contextlib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.couplings.link import INPUT, ONE, Link
from engine.errors import EngineError, check_count
from engine.model.network import Network

try:
    import sanafe
except ImportError:
    raise ImportError('this needs SANA-FE: pip install "settle[sanafe]".') from None

TIMINGS = ("simple", "detailed", "cycle")
"""SANA-FE's models of time: of the busiest core, with queues and routes, and of the whole mesh."""
FIRING, SILENT = 2.0, 0.0
"""Bias of a neuron with a threshold of one."""
GROUP = "neurons"


@dataclass(frozen=True)
class Replayed:
    """What SANA-FE says of a run."""

    energy_j: float
    time_s: float
    synaptic_events: int
    packets: int
    """From a neuron to a core."""
    hops: int
    """Between tiles."""
    spikes: int
    updates: int


def replay(
    network: Network,
    fired: npt.ArrayLike,
    neurons_per_core: int,
    timing: str = "detailed",
    architecture: Path | None = None,
) -> Replayed:
    """Run steps in which neurons fire as `fired (steps, units + outputs)` says.

    Units lie on cores in their order and the outputs after them. Without an `architecture` the
    chip is SANA-FE's own description of Loihi.
    """
    pattern = np.asarray(fired, bool)
    neurons = network.units + network.outputs
    check_count("neurons_per_core", neurons_per_core)
    if pattern.ndim != 2 or pattern.shape[1] != neurons:
        raise EngineError(f"fired has shape {pattern.shape}, expected (steps, {neurons}).")
    if timing not in TIMINGS:
        raise EngineError(f"timing is '{timing}', known: {', '.join(TIMINGS)}.")
    with contextlib.redirect_stdout(io.StringIO()):  # it reports every step
        chip = _chip(network, neurons_per_core, architecture)
        return _run(chip, pattern, timing)


def _chip(network: Network, per_core: int, architecture: Path | None) -> Any:
    """Load the network onto a chip."""
    found = sanafe.load_loihi() if architecture is None else sanafe.load_arch(architecture)
    cores = [core for tile in found.tiles for core in tile.cores]
    neurons = network.units + network.outputs
    needed = -(-neurons // per_core)
    if needed > len(cores):
        raise EngineError(
            f"{neurons} neurons need {needed} cores of {per_core}, the chip has {len(cores)}."
        )
    net = sanafe.Network()
    group = net.create_neuron_group(
        GROUP, neurons, {"threshold": 1.0, "leak_decay": 0.0, "bias": SILENT, "force_update": True}
    )
    for k, neuron in enumerate(group):
        neuron.map_to_core(cores[k // per_core])
    pairs = synapses(network)
    group.connect_neurons_sparse(group, {"weight": [0.0] * len(pairs)}, pairs)
    chip = sanafe.SpikingChip(found)
    chip.load(net)
    return chip


def synapses(network: Network) -> list[tuple[int, int]]:
    """Return sender and listener of every synapse; outputs come after the units."""
    pairs: list[tuple[int, int]] = []
    for link in network.links.values():
        if link.source in (INPUT, ONE):
            continue
        ends = network.columns[link.source].start, network.columns[link.target].start
        forward = list(_pairs(link, *ends))
        pairs += forward if link.tied else forward + [pair[::-1] for pair in forward]
    if network.reading and network.reading.link:
        first = network.columns[network.readout.layer].start
        forward = list(_pairs(network.reading.link, first, network.units))
        pairs += forward + [pair[::-1] for pair in forward]
    return pairs


def _pairs(link: Link, source: int, target: int) -> Iterable[tuple[int, int]]:
    for p, units in enumerate(link.gather.tolist()):
        for j in range(p * link.fan_out, (p + 1) * link.fan_out):
            yield from ((source + i, target + j) for i in units if i >= 0)


def _run(chip: Any, pattern: npt.NDArray[np.bool_], timing: str) -> Replayed:
    neurons, before = chip.mapped_neuron_groups[GROUP], np.zeros(pattern.shape[1], bool)
    total = Replayed(0.0, 0.0, 0, 0, 0, 0, 0)
    for fires in pattern:
        for k in np.flatnonzero(fires != before).tolist():
            bias = FIRING if fires[k] else SILENT
            neurons[k].set_attributes(model_attributes={"bias": bias})
        before = fires
        step = chip.sim(1, timing_model=timing, processing_threads=1, perf_trace=True)
        total = Replayed(
            total.energy_j + step["energy"]["total"],
            total.time_s + step["sim_time"],
            total.synaptic_events + step["spikes"],
            total.packets + step["packets_sent"],
            total.hops + sum(step["perf_trace"]["hops"]),
            total.spikes + step["neurons_fired"],
            total.updates + step["neurons_updated"],
        )
    return total
