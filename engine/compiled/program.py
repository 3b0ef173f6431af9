"""What the kernels are handed: a network as integer tables, a stage, buffers, results.

One compiled signature for each precision serves every network. A *message* is one direction of a
link (`engine.couplings.link`): its block `(FAN_IN, FAN_OUT)`, which lies packed from `PACKED` on,
is read at `POSITIONS` places. `BACK` goes from the target of the link to its source. `GATHER` is
where its places begin in the table of all of them; it is negative for a plain matrix, which reads
its source as it lies. A coupling that is no link has a kernel of its own
(`engine.compiled.registry`), at an `ADDRESS`.

Batches are `(samples, units)`. `state`, `before` and `drive` hold the samples that still move as
one contiguous `(rows, size)` block for each layer. Row `i` of a block belongs to sample `order[i]`;
when a sample has settled, the last row takes its place.
"""

from typing import Any, NamedTuple

# Columns of the tables.
OFFSET, SIZE, ACTIVATION = range(3)  # layers
SOURCE, TARGET, BACK, PACKED, POSITIONS, FAN_IN, FAN_OUT, GATHER = range(8)  # messages
ADDRESS, ENDS, ENDS_STOP, SIZES, SIZES_STOP, CONSTANTS, CONSTANTS_STOP = range(7)  # own kernels
KIND, LAYER, BIAS, OUTPUTS, PACKED_OUT, PACKED_BACK, PLACES = range(7)  # read-out
SOFTMAX, SQUARED_ERROR = range(2)
TANH, HARD_SIGMOID, RELU, MIRRORED_RELU, LINEAR = range(5)
PRODUCT, BEND, BEND_FURTHER, SEND_ON, SEND_BACK = range(5)  # calls


class Program(NamedTuple):
    """A network and its parameters; `packed` holds the matrices again, laid out for products."""

    theta: Any
    packed: Any
    layers: Any
    messages: Any
    runs: Any
    """What the places of links read (`engine.compiled.windows`)."""
    places: Any
    """The first run of each place, and after those of a link the end of its last one."""
    own: Any
    """One row for each coupling with a kernel of its own."""
    ends: Any
    """The layers that such couplings touch, by number, one coupling after the other."""
    sizes: Any
    """What their kernels are told as whole numbers."""
    constants: Any
    """What they are told as numbers: their parameters, packed as they like it."""
    compliance: Any
    """What every unit makes of its drive, `(units,)`; empty where no coupling is a conductance."""
    readout: Any
    calls: Any
    """Where the kernels lie that are called by their address."""


class Stage(NamedTuple):
    """A batch held fixed: `clamped (samples, units)`, `targets (samples, outputs)`, the nudges.

    `betas (phases,)` are relaxed side by side, from the same states; one is zero only if it is
    alone. Sample `k` of phase `p` has the number `p * samples + k`.
    """

    clamped: Any
    """What no step changes: the drive of clamped couplings, or the anchor of a displacement."""
    targets: Any
    betas: Any
    known: Any
    """Recurrent drive `(samples, units)` of the starting states, or no row at all."""
    origin: Any
    """States `(samples, units)` that are displaced; no row where states are iterated."""
    turns: Any
    """Turn in which each layer is updated, `(layers,)`, from 0 on."""
    last_turn: Any
    """The largest of them."""
    refresh: Any
    """Whether the drive that is handed on has to be that of the last state."""


class Buffers(NamedTuple):
    """Buffers of one relaxation; the `_bits` are integer views of their floats.

    A step writes over `state` layer by layer, and leaves what it was in `before`. Of a displacement
    both hold how far samples are from their origin.
    """

    state: Any
    before: Any
    drive: Any
    stirred: Any
    """Whether a layer has anything to send, `(layers,)`: displacements, and layers that are late,
    begin with nothing."""
    read: Any
    """The states that are read out, of displaced samples."""
    error: Any
    windows: Any
    """What a handful of places of a link read, or send back, one after the other."""
    starts: Any
    """Where the layers of `Program.ends` begin in `state` and `drive`."""
    scratch: Any
    """What the kernels of couplings need for themselves."""
    edge: Any
    order: Any
    gap: Any
    gap_bits: Any
    residual: Any
    residual_bits: Any


class Results(NamedTuple):
    """Where each sample of each phase ended, by its number: `state`, `steps`, `residual`.

    `drive` takes the last recurrent drive, if it has room; then no beta may nudge it. It is that of
    the state where this converged, or if it was to be refreshed; else the one that led to it.
    """

    state: Any
    moved: Any
    """Displacements, if there is an origin."""
    drive: Any
    steps: Any
    residual: Any


class History(NamedTuple):
    """What Anderson mixing keeps of each sample: fixed in size, whatever the number of steps.

    `states` and their `gaps` are `(samples, memory, units)`, `gram (samples, memory, memory)` holds
    the inner products of the gaps, `plain (samples, units)` the last `T(s)`, `best` the residual
    before it, `kept` how many pairs are in use and `newest` which of them came last.
    """

    states: Any
    gaps: Any
    plain: Any
    gram: Any
    system: Any
    weights: Any
    best: Any
    kept: Any
    newest: Any
