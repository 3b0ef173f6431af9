"""Executions put through the audit: a training step of a substrate, and one of its rivals."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.arrays import FloatArray
from engine.errors import EngineError
from hw_sim import backprop_kernels, digital_kernels, real_kernels
from hw_sim.audit import Memory, Rules, Trace, check_constant_memory, check_locality, interpreted
from hw_sim.audit import recorded as record
from hw_sim.backprop import PASSES
from hw_sim.digital import GAIN_FRACTION, RANDOM_BITS, DigitalBackend
from hw_sim.layout import KINDS, Batch, Ended
from hw_sim.wiring import feeds, owners, partners, places, wires


@dataclass(frozen=True)
class Audit:
    """What a passed audit found."""

    working_set: int
    """Words that were touched, for any number of steps."""
    synapse_writes: int
    """Writes of synapses that were found to be local."""


LATERAL = Rules(("gradient",), source=("state",), target=("state",))
"""The gradient of a synapse between units: the states of its two ends."""
WEIGHT = Rules(("theta",), own=("update", "noise"))
"""A weight: its own update and its own random word."""


def audit_digital(
    backend: DigitalBackend, x: FloatArray, y: FloatArray, beta: float = 0.25
) -> Audit:
    """Audit the relaxation, the local rule and the update of a looped digital substrate."""
    if "W_rec" not in backend.network.blocks:
        raise EngineError("the audit runs looped networks only.")
    steps = (2, 5, 9)
    words = check_constant_memory(lambda n: relax_recorded(backend, x, y, beta, n)[0], steps)
    trace, state = relax_recorded(backend, x, y, beta, steps[-1])
    trace = correlate_recorded(state)
    writes = check_locality(trace, LATERAL)
    words += len(trace.touched - {w for w in trace.touched if w[0] == "state"})
    trace = write_recorded(backend, np.full(backend.network.size, 0.01))
    return Audit(words + len(trace.touched), writes + check_locality(trace, WEIGHT))


def relax_recorded(
    backend: DigitalBackend, x: FloatArray, y: FloatArray, beta: float, steps: int
) -> tuple[Trace, Any]:
    """Relax under the audit; return the trace and the state words, `(samples, units)`."""
    trace, run = Trace(), interpreted(digital_kernels)
    network, samples = backend.network, len(x)
    drive = backend._drive(x)
    ended = Ended(np.zeros((samples, network.units), np.int64), *np.zeros((2, samples), np.int64))
    batch = Batch(drive, backend._target_words(y), int(beta * 2**GAIN_FRACTION))
    ended, batch = record(ended, trace, ("steps", "residual")), record(batch, trace)
    net = record(backend._wires, trace, ("messages", "layers", "fan_out"))
    tables, work = record(backend._words, trace), record(backend._work(np.int64), trace)
    tally = np.zeros((len(places(network)), len(KINDS)), np.int64)
    residual = _Plain(samples)
    ended = ended._replace(steps=residual, residual=residual)
    run["relax_digital"](net, batch, tables, ended, True, steps, -1, work, tally)
    # Which entry of a table is read depends on the data; the table is what the chip holds.
    shared = {word for word in trace.touched if word[0] in ("activations", "odds")}
    trace.touched -= shared
    trace.touched |= {(name,) for name, *_ in shared}
    return trace, ended.state.numbers()


def correlate_recorded(state: Any) -> Trace:
    """Add one phase to the gradient of a lateral block under the audit."""
    trace = Trace()
    units = state.shape[1]
    gradient = Memory("gradient", np.zeros((units, units)), trace)
    seen = Memory("state", state, trace)
    tally = np.zeros(len(KINDS), np.int64)
    interpreted(real_kernels)["correlate"](gradient, seen, seen, 0.5, tally)
    return trace


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


def audit_backprop(params: Any, x: FloatArray, y: FloatArray, steps: int | None = None) -> Audit:
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


def backprop_recorded(params: Any, x: FloatArray, y: FloatArray, steps: int) -> Trace:
    """Run one gradient of backprop under the audit."""
    trace, network = Trace(), params.network
    units, outputs = network.units, network.outputs
    slopes = backprop_kernels.Slopes(
        np.zeros((network.inputs, units)), np.zeros(units), np.zeros((units, units)),
        np.zeros((units, outputs)), np.zeros(outputs),
    )  # fmt: skip
    memory = backprop_kernels.Memory(
        np.zeros((steps + 1, units)), np.zeros(units), np.zeros((2, units)), np.zeros(units),
        np.zeros(outputs),
    )  # fmt: skip
    fed = record(feeds(params, np.float64), trace, ("messages", "layers", "biased"))
    net = record(wires(params, np.float64), trace, ("messages", "layers", "fan_out"))
    tally = np.zeros((len(PASSES), len(places(network)), len(KINDS)), np.int64)
    interpreted(backprop_kernels)["backpropagate"](
        Memory("x", x, trace), Memory("y", y, trace), fed, net, steps,
        record(memory, trace), record(slopes, trace, prefix="gradient."), tally,
    )  # fmt: skip
    return trace


class _Plain:
    """A sink for what the controller is told: it is no word of a neuron or a synapse."""

    def __init__(self, size: int) -> None:
        self.shape = (size,)

    def __setitem__(self, index: int, value: Any) -> None:
        pass
