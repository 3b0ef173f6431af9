"""Put one training step through the audit: that of a chip, and that of its rivals."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.arrays import FloatArray, by_sample
from engine.couplings.link import INPUT, ONE, OUTPUT
from engine.errors import EngineError
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.audit.recording import Memory, Trace, Word, interpreted, recorded
from hw_sim.audit.rules import AuditError, Rules, check_constant_memory, check_locality
from hw_sim.chips import local_rule_kernels
from hw_sim.chips.messages import gathered, input_ways
from hw_sim.chips.substrate import WIRING, Substrate
from hw_sim.counts import Footprint
from hw_sim.events import KINDS
from hw_sim.rivals import backprop_kernels
from hw_sim.rivals.backprop import laid_out, new_slopes

STEPS = (2, 5, 9)
"""Numbers of steps that have to touch the same words."""
NEURON_ARRAYS = {
    "state": "state", "work.image": "image", "drive": "drive", "work.total": "total",
    "total": "total", "sent": "sent", "pull": "pull",
    "targets": "drive", "logits": "total", "work.logits": "total", "work.error": "state",
    "sent_error": "sent",
}  # fmt: skip
"""Arrays of the kernels, and the word of a neuron that each is; the second half of outputs."""
SYNAPSE_ARRAYS = ("messages.weights", "readout.weights", "bias")
TABLES = ("activations", "odds")


@dataclass(frozen=True)
class Audit:
    """What a passed audit found."""

    working_set: int
    """Words that were touched, for any number of steps."""
    synapse_writes: int
    """Writes of synapses that were found to be local."""


def audit_substrate(backend: Substrate, x: FloatArray, y: FloatArray, beta: float = 0.25) -> Audit:
    """Audit relaxation and local rule of one sample, and the update where it is a kernel."""
    x, y = x[:1], y[:1]
    words = check_constant_memory(lambda n: relax_recorded(backend, x, y, beta, n)[0], STEPS)
    trace, state = relax_recorded(backend, x, y, beta, STEPS[-1])
    check_footprint(trace, backend.footprint)
    writes = 0
    for name in backend.network.blocks:
        trace, rules = correlate_recorded(backend.network, name, state, x, y)
        writes += check_locality(trace, rules)
        words += sum(word[0] == "gradient" for word in trace.touched)
    trace = Trace()
    if backend.record_update(np.full(backend.network.size, 0.01), trace):
        writes += check_locality(trace, Rules(("theta",), own=("update", "noise")))
    return Audit(words, writes)


def check_footprint(trace: Trace, footprint: Footprint) -> None:
    """Refuse a word that the footprint does not declare."""
    for name in sorted({word[0] for word in trace.touched} - set(TABLES)):
        declared = NEURON_ARRAYS.get(name) in footprint.neuron_words
        if name in SYNAPSE_ARRAYS:
            declared = "weight" in footprint.synapse_words or bool(footprint.cells)
        if not declared:
            raise AuditError(f"the execution touched '{name}', which the footprint does not hold.")


def relax_recorded(
    backend: Substrate, x: FloatArray, y: FloatArray, beta: float, steps: int
) -> tuple[Trace, Any]:
    """Relax under the audit; return the trace and the state words, `(samples, units)`."""
    trace = Trace()
    state = backend.record_relaxation(x, y, beta, steps, trace)
    # Which entry of a table is read depends on the data; the table is what the chip holds.
    shared = {word for word in trace.touched if word[0] in TABLES}
    trace.touched = (trace.touched - shared) | {(name,) for name, *_ in shared}
    return trace, state


def correlate_recorded(
    network: Network, name: str, state: Any, x: FloatArray, y: FloatArray
) -> tuple[Trace, Rules]:
    """Add one phase to the gradient of a block under the audit; return what it may read."""
    trace, run, reading = Trace(), interpreted(local_rule_kernels), network.reading
    outside = reading.link if reading else None
    link = network.links.get(name, outside)
    if link is None:
        raise EngineError(f"block '{name}' belongs to no link.")
    values = {layer: by_sample(network.of(layer, state)) for layer in network.columns}
    values |= {INPUT: x, OUTPUT: y}
    target, tally = Memory(link.target, values[link.target], trace), np.zeros(len(KINDS), np.int64)
    gather = gathered(link) if name == link.block else np.zeros((link.positions, 1), np.int64)
    rules = Rules(("gradient",), target=(link.target,), gather=gather, columns=link.fan_out)
    if link.source == ONE or name != link.block:
        gradient = Memory("gradient", np.zeros(link.fan_out), trace)
        run["correlate_bias"](gradient, target, gather, 0.5, tally)
        return trace, rules
    gradient = Memory("gradient", np.zeros((link.fan_in, link.fan_out)), trace)
    source = target  # a layer that is coupled to itself
    if link.source != link.target:
        source = Memory(link.source, values[link.source], trace)
    run["correlate"](gradient, source, target, gather, 0.5, 0, link.fan_in, tally)
    return trace, replace(rules, source=(link.source,))


def audit_backprop(params: Params, x: FloatArray, y: FloatArray, steps: int | None = None) -> Audit:
    """Put backprop through the same audit; it raises `AuditError` with the offending access.

    `steps` is 0 for one pass through the layers. Left out, BPTT is run with several numbers of
    steps.
    """
    words, (way, *_) = 0, input_ways(params.network)
    if steps is None:
        words = check_constant_memory(lambda n: backprop_recorded(params, x, y, n), STEPS)
    trace = backprop_recorded(params, x, y, steps or 0)
    rules = Rules(
        (f"gradient.{way.link.block}",), source=("x",), target=("trajectory",),
        gather=gathered(way.link), columns=way.link.fan_out,
    )  # fmt: skip
    return Audit(words or len(trace.touched), check_locality(trace, rules))


def backprop_recorded(params: Params, x: FloatArray, y: FloatArray, steps: int) -> Trace:
    """Run one gradient of backprop under the audit; its words are named by their blocks."""
    trace, network = Trace(), params.network
    fed, wired = laid_out(params, steps)
    slopes, memory = new_slopes(fed, wired), backprop_kernels.new_memory(network, steps)
    interpreted(backprop_kernels)["backpropagate"](
        Memory("x", x, trace), Memory("y", y, trace), steps, recorded(fed, trace, WIRING),
        recorded(wired, trace, WIRING), recorded(memory, trace),
        recorded(slopes, trace, prefix="gradient."),
    )  # fmt: skip
    trace.writes = [
        (_named(network, word), frozenset(_named(network, read) for read in words))
        for word, words in trace.writes
    ]
    return trace


def _named(network: Network, word: Word) -> Word:
    """Return the address of a gradient word in its block, `gradient.W[i, j]`."""
    if word[0] == "gradient.weights":
        for name, block in network.blocks.items():
            if block.span.start <= word[1] < block.span.stop:
                return (f"gradient.{name}", *divmod(word[1] - block.span.start, block.shape[-1]))
    return word
