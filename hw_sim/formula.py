"""The events of EqProp on digital logic, by a closed formula: no chip is run.

A machine with words for states and weights does one thing after the other, as the digital chip
does; for networks of links it counts the same, event by event. Couplings that are no link say what
they cost themselves (`engine.couplings.effort`), so that networks which no chip runs have a bill
too: evaluations of `T` are the steps that any backend reports.
"""

from collections.abc import Mapping

import numpy as np

from engine.border import checked
from engine.couplings.coupling import Coupling
from engine.couplings.effort import Effort, effort_of, summed
from engine.couplings.link import ONE, Link
from engine.errors import EngineError
from engine.model.network import Network
from hw_sim.counts import OpCounts
from hw_sim.places import READOUT, homes

Events = Mapping[str, int]
"""How often each kind of event happens for one sample."""


@checked
def dense_counts(
    network: Network, samples: int, free_evaluations: int, nudged_evaluations: int, phases: int
) -> OpCounts:
    """Return the events of EqProp, but for updates and for words that cross the border.

    Evaluations of `T` are summed over the samples; `phases` are those that accumulate the energy.
    The read-out learns once for a sample, at the free equilibrium.
    """
    counts, home = OpCounts(), homes(network)
    evaluations = {"free": free_evaluations, "nudged": nudged_evaluations}
    for layer in network.layers:
        counts.add("input", layer.name, "state_write", samples * layer.size)
        start = {"activation": layer.size, "state_write": layer.size}  # sigma of the drive
        _add(counts, "free", layer.name, start, samples)
        for phase, times in evaluations.items():
            image = start | {"state_read": layer.size, "compare": layer.size}
            _add(counts, phase, layer.name, image, times)
    for coupling in network.couplings:
        for place, events in _drives(network, coupling):
            for phase, times in ({"input": samples} if coupling.clamped else evaluations).items():
                _add(counts, phase, place, events, times)
        learned = _learning(network, coupling)
        _add(counts, "learn", home[coupling.name], learned, samples * phases)
    _add(counts, "nudged", READOUT, _nudge(network), nudged_evaluations)
    _add(counts, "learn", READOUT, _delta_rule(network), samples)
    return counts


@checked
def inference_counts(network: Network, samples: int, evaluations: int) -> OpCounts:
    """Return the events of relaxing so many samples freely, and of reading their outputs."""
    whole, counts = dense_counts(network, samples, evaluations, 0, 0), OpCounts()
    for (phase, place, kind), count in whole:
        if phase in ("input", "free"):
            counts.add(phase, place, kind, count)
    _add(counts, "readout", READOUT, _errors(network), samples)
    return counts


@checked
def update_counts(network: Network, updates: int) -> OpCounts:
    """Return the events of writing all weights so many times, beside those of the optimizer."""
    counts = OpCounts()
    for name, place in homes(network).items():
        size = network.blocks[name].size
        each = dict.fromkeys(("trace_read", "weight_read", "weight_write"), size)
        _add(counts, "update", place, each, updates)
    return counts


def _add(counts: OpCounts, phase: str, place: str, events: Events, times: int) -> None:
    for kind, count in events.items():
        counts.add(phase, place, kind, times * count)


def _drives(network: Network, coupling: Coupling) -> list[tuple[str, Events]]:
    """Return what one drive of a coupling does, at the places that receive it."""
    link = network.links.get(coupling.name)
    if link is None:
        return [(coupling.layers[-1], _own_effort(network, coupling).drive)]
    if link.source == ONE:
        return [(link.target, {"weight_read": _reads(link) * link.fan_out})]
    products = {"mac": link.macs, "weight_read": link.macs}
    found: list[tuple[str, Events]] = [(link.target, products | {"state_read": _reads(link)})]
    if not (link.clamped or link.tied):
        found.append((link.source, products | {"state_read": link.positions * link.fan_out}))
    return found


def _learning(network: Network, coupling: Coupling) -> Events:
    """Return what the local rule of a coupling does in one phase."""
    link = network.links.get(coupling.name)
    if link is None:
        return _own_effort(network, coupling).correlate
    if link.source == ONE:
        words = _reads(link) * link.fan_out
        return {"trace_read": words, "trace_write": words, "state_read": words}
    return _products(link)


def _own_effort(network: Network, coupling: Coupling) -> Effort:
    effort = effort_of(coupling, network.shapes)
    if effort is None:
        kind = type(coupling).__name__
        raise EngineError(
            f"coupling '{coupling.name}' ({kind}) is no link and does not say what it costs."
        )
    return effort


def _products(link: Link) -> Events:
    """Every synapse adds the product of its two ends to its trace, at each position."""
    ends = _reads(link) + link.positions * link.fan_out
    traces = {"trace_read": link.macs, "trace_write": link.macs}
    return {"mac": link.macs, "state_read": ends} | traces


def _errors(network: Network) -> Events:
    """Return what `softmax - y` takes, nothing where the units are the outputs."""
    reading = network.reading
    if reading is None:
        kind = type(network.readout).__name__
        raise EngineError(f"the read-out {kind} does not say what it is to those who count.")
    if reading.link is None:
        return {}
    macs, outputs = reading.link.macs, network.outputs
    logits = {"mac": macs, "weight_read": macs + outputs, "state_read": _reads(reading.link)}
    largest = {"compare": outputs - reading.positions}
    return logits | largest | {"activation": outputs, "divide": outputs, "state_write": outputs}


def _nudge(network: Network) -> Events:
    """Return what a nudge adds to an evaluation: the errors, sent back and scaled by beta."""
    errors, outputs = _errors(network), network.outputs
    link = network.reading.link if network.reading else None
    if link is None:
        return {"mac": outputs, "state_read": outputs}
    back = {"mac": link.macs + _reads(link), "weight_read": link.macs, "state_read": outputs}
    return summed(errors, back)


def _delta_rule(network: Network) -> Events:
    """Return what the read-out does to learn: errors, and their products with what it reads."""
    errors, outputs = _errors(network), network.outputs
    link = network.reading.link if network.reading else None
    if link is None:
        return {}
    bias = {"trace_read": outputs, "trace_write": outputs, "state_read": outputs}
    return summed(errors, _products(link), bias)


def _reads(link: Link) -> int:
    """Words that a link reads from its source, at all positions."""
    return int(np.count_nonzero(link.gather >= 0))
