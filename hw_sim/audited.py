"""Executions put through the audit: a training step of a substrate, and one of its rivals."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.arrays import FloatArray, by_sample
from engine.couplings.link import INPUT, ONE, OUTPUT
from engine.errors import EngineError
from engine.model.network import Network
from engine.model.params import Params, partners
from hw_sim import backprop_kernels, digital_kernels, real_kernels
from hw_sim.audit import (
    AuditError,
    Memory,
    Rules,
    Trace,
    check_constant_memory,
    check_locality,
    interpreted,
)
from hw_sim.audit import recorded as record
from hw_sim.backprop import PASSES
from hw_sim.counts import Footprint
from hw_sim.crossbar import CrossbarBackend
from hw_sim.digital import GAIN_FRACTION, RANDOM_BITS, DigitalBackend
from hw_sim.layout import KINDS, Batch, Ended
from hw_sim.spiking import FROM_DRIVE, SpikingBackend
from hw_sim.substrate import Substrate
from hw_sim.wiring import gathered, owners, places

STEPS = (2, 5, 9)
"""Numbers of steps that have to touch the same words."""
NEURON_ARRAYS = {
    "state": "state", "work.image": "image", "drive": "drive", "work.total": "total",
    "total": "total", "sent": "sent", "pull": "pull",
    "targets": "drive", "logits": "total", "work.logits": "image", "work.error": "state",
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
    if isinstance(backend, DigitalBackend):
        trace = write_recorded(backend, np.full(backend.network.size, 0.01))
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
    """Relax under the audit; return the trace and the state words, `(samples, units)`.

    Events are sent whatever the threshold: those are all accesses that there can be.
    """
    trace, samples = Trace(), len(x)
    drive, digital = backend._drive(x), isinstance(backend, DigitalBackend)
    number = np.int64 if digital else np.float64
    told = _Told(samples)
    start = Memory("state", np.zeros((samples, backend.network.units), number), trace)
    ended = Ended(start, told, told)
    work = record(backend._work(number), trace, prefix="work.")
    tally = np.zeros((len(places(backend.network)), len(KINDS)), np.int64)
    fixed = ("table", "gather", "layers", "fan_out")
    match backend:
        case DigitalBackend():
            goal, gain = backend._target_words(y), int(beta * 2**GAIN_FRACTION)
            interpreted(digital_kernels)["relax_digital"](
                record(backend._wires, trace, fixed), record(Batch(drive, goal, gain), trace),
                record(backend._words, trace), ended, True, steps, -1, work, tally,
            )  # fmt: skip
        case CrossbarBackend():
            phase = backend._phases[0]
            interpreted(real_kernels)["relax_crossbar"](
                record(phase.wires, trace, fixed), record(Batch(drive[0], y, beta), trace),
                backend._analog(phase), backend._rng, ended, True, steps, -1.0, work, tally,
            )  # fmt: skip
        case SpikingBackend():
            interpreted(real_kernels)["relax_events"](
                record(backend._wires, trace, fixed), record(Batch(drive, y, beta), trace), 0.0,
                record(backend._new_kept(samples), trace), ended, FROM_DRIVE, steps, -1.0, work,
                tally,
            )  # fmt: skip
        case _:
            raise EngineError(f"the audit has no execution of {type(backend).__name__}.")
    # Which entry of a table is read depends on the data; the table is what the chip holds.
    shared = {word for word in trace.touched if word[0] in TABLES}
    trace.touched = (trace.touched - shared) | {(name,) for name, *_ in shared}
    return trace, start.numbers()


def correlate_recorded(
    network: Network, name: str, state: Any, x: FloatArray, y: FloatArray
) -> tuple[Trace, Rules]:
    """Add one phase to the gradient of a block under the audit; return what it may read."""
    trace, run, reading = Trace(), interpreted(real_kernels), network.reading
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
    run["correlate"](gradient, source, target, gather, 0.5, tally)
    return trace, replace(rules, source=(link.source,))


def write_recorded(backend: DigitalBackend, update: FloatArray) -> Trace:
    """Apply an update to copies of the weight words under the audit."""
    trace, network = Trace(), backend.network
    scale = 2.0 ** (backend.config.weight_fraction + RANDOM_BITS)
    noise = np.zeros(network.size, np.int64)
    digital_kernels.draw_words(noise, partners(network), 1, 2**RANDOM_BITS - 1)
    arrays = {"theta": backend.words, "update": (update * scale).astype(np.int64), "noise": noise}
    held = [Memory(name, values, trace) for name, values in arrays.items()]
    limit = 2 ** (backend.config.weight_bits - 1)
    tally = np.zeros((len(places(network)), len(KINDS)), np.int64)
    interpreted(digital_kernels)["write_words"](
        *held, RANDOM_BITS, 1 - limit, limit - 1, owners(network), tally
    )
    return trace


def audit_backprop(params: Params, x: FloatArray, y: FloatArray, steps: int | None = None) -> Audit:
    """Put backprop through the same audit; it raises `AuditError` with the offending access.

    `steps` is the number of steps for plain backprop of a network without recurrence (0). Left
    out, BPTT is run with several numbers of steps.
    """
    words = 0
    if steps is None:
        words = check_constant_memory(lambda n: backprop_recorded(params, x, y, n), (2, 5, 9))
    trace = backprop_recorded(params, x, y, steps or 0)
    rules = Rules(("gradient.inputs",), source=("x",), target=("trajectory",))
    return Audit(words or len(trace.touched), check_locality(trace, rules))


def backprop_recorded(params: Params, x: FloatArray, y: FloatArray, steps: int) -> Trace:
    """Run one gradient of backprop under the audit."""
    trace, network = Trace(), params.network
    slopes = backprop_kernels.blocks_of(Params(network, np.zeros(network.size)))
    memory = backprop_kernels.new_memory(network, steps)
    medium = backprop_kernels.Medium(False, np.zeros(2, np.int64))
    held = record(backprop_kernels.blocks_of(params), trace)
    tally = np.zeros((len(PASSES), len(places(network)), len(KINDS)), np.int64)
    interpreted(backprop_kernels)["backpropagate"](
        Memory("x", x, trace), Memory("y", y, trace), held, steps, medium,
        record(memory, trace), record(slopes, trace, prefix="gradient."), tally,
    )  # fmt: skip
    return trace


class _Told:
    """A sink for what the controller is told: it is no word of a neuron or a synapse."""

    def __init__(self, size: int) -> None:
        self.shape = (size,)

    def __setitem__(self, index: int, value: Any) -> None:
        pass
