"""How the kernels are handed a network: tables, and words of memory.

Kernels are scalar code. Samples run one by one, as on a chip that holds one of them; nothing is
allocated, sliced or summed as a whole, so that `hw_sim.audit` can run the same source in Python on
memory that records every access. Each kernel tallies what it does in `tally (places, kinds)`; a
place is a layer, or the read-out after the last of them.
"""

from typing import Any, NamedTuple

# Columns of the tables.
SOURCE, TARGET, PLACE, POSITIONS, ROWS, COLUMNS, BLOCK, READS, WRITES = range(9)  # messages
START, END, CODE = range(3)  # layers
JOINED, DRIVEN = range(2)  # tiles
BACK = 1  # row of the tiles of the read-out for what goes back
FIRST, LAST, HOME, SIDE, WIDTH, MIRROR = range(6)  # blocks that are updated
TANH = 0


class Messages(NamedTuple):
    """What is sent through blocks of weights: one row of `table` for each direction of a link.

    At each of its positions a message multiplies `ROWS` words by a block `(ROWS, COLUMNS)`, which
    lies in `weights`, where all words of the chip are, from `BLOCK` on, and adds to `COLUMNS`
    totals. The words that it reads follow one another from `SOURCE` on, position by position; where
    `READS` is not -1 they are those that `gather` lists from there on, counted from `SOURCE`, and
    -1 among them is a word of zero. The same holds of `TARGET` and `WRITES`, and what is added to
    -1 is lost.
    """

    table: Any
    gather: Any
    weights: Any


class Wires(NamedTuple):
    """A network and its weights: messages between layers, and one to the outputs.

    The read-out sees units `first` to `last`; where it is a softmax, `readout` is its only message
    and `bias` is added at each position, else there is none and the units are the outputs.
    """

    messages: Any
    readout: Any
    layers: Any
    first: Any
    last: Any
    bias: Any
    fan_out: Any
    """Messages and hops of one event of each unit and each output."""


class Feeds(NamedTuple):
    """The clamped couplings: messages of the input, `bias (units,)` and how many there are."""

    messages: Any
    layers: Any
    bias: Any
    biased: Any


class HeldBatch(NamedTuple):
    """A batch held fixed: `drive (samples, units)`, `targets (samples, outputs)`, the nudge."""

    drive: Any
    targets: Any
    beta: Any


class Endings(NamedTuple):
    """Where each sample ended: `state (samples, units)`, `steps`, `residual`."""

    state: Any
    steps: Any
    residual: Any


class Registers(NamedTuple):
    """The words of one sample.

    `total (1, units)` and `image (units,)`, `logits (1, outputs)` and `error (outputs,)`.
    """

    total: Any
    image: Any
    logits: Any
    error: Any


class Words(NamedTuple):
    """Formats of the digital substrate; tables of activations, and of exp(-h)."""

    low: Any
    high: Any
    state_fraction: Any
    weight_fraction: Any
    gain_fraction: Any
    table_shift: Any
    activations: Any
    odds: Any


class Arrays(NamedTuple):
    """How the arrays of some messages are cut, and how noisy they are.

    `tiles (messages, 2)`: rows whose currents join before a converter, and tiles that a row drives.
    `loud` are the messages with the variance of each pair at an input of one in place of its
    weight, empty unless it `is_noisy`. In `partial` and `power (1, totals)` the currents of a tile
    and the variances of those that join are added up: no words of the chip, so the audit does not
    follow them.
    """

    tiles: Any
    is_noisy: Any
    loud: Any
    partial: Any
    power: Any


class Cells(NamedTuple):
    """The pairs of a set of arrays: `level`, `gain` and `writes (2, pairs)`."""

    level: Any
    gain: Any
    writes: Any


class Pulses(NamedTuple):
    """How pulses move cells.

    A change of a weight by `span` asks each cell of its pair for its whole range: for `whole`
    pulses of one strength, or for a single one of any strength where that is 0. `cycle`, `curve`
    and `lean` are `cycle_variation`, `nonlinearity` and `asymmetry` of the settings.
    """

    span: Any
    whole: Any
    cycle: Any
    curve: Any
    lean: Any


class Lines(NamedTuple):
    """How pairs are seen: conductances from `off` to 1, through lines of so much `resistance`.

    Each tile of `height` rows and `width` columns has lines of its own. A pair adds `reach` times
    the difference of its cells to a current, and `loudness` times their squares to its variance.
    """

    off: Any
    resistance: Any
    height: Any
    width: Any
    reach: Any
    loudness: Any


class Carried(NamedTuple):
    """What the pieces of a tile hand on, of both cells of a pair.

    `along` and `dropped (2, rows)`: the current of a row that is left beyond a piece, and how far
    its voltage has dropped up to there; `across` and `below (2, columns)` the same of a column.
    """

    along: Any
    dropped: Any
    across: Any
    below: Any


class Update(NamedTuple):
    """Formats of an update: in units of `2^-shift` words it is `scale` times what is asked for."""

    scale: Any
    shift: Any
    low: Any
    high: Any


class Analog(NamedTuple):
    """Converters and arrays of the crossbar; a step of 0 is a perfect converter.

    With `looped` the state is converted in every step, else it is analog until it is read; then
    `held (layers,)` are the input cells that conduct all the while. `out_step` is of the ADC of the
    read-out. The arrays are those `between` layers, and that of the read-out, there and back.
    """

    looped: Any
    dac_step: Any
    adc_step: Any
    out_step: Any
    adc_limit: Any
    between: Any
    out: Any
    held: Any


class Kept(NamedTuple):
    """What event-driven units remember of a sample beside their state.

    `sent` and `total (units,)`, `logits` and `sent_error (outputs,)`, `pull (size,)`.
    """

    sent: Any
    total: Any
    logits: Any
    sent_error: Any
    pull: Any


class Landing(NamedTuple):
    """Where events land, a row for each sender and each core that it reaches, in their order.

    Those of a sender are the rows `first[sender]` to `first[sender + 1]`: a core, and how many
    synapses an event meets there.
    """

    first: Any
    core: Any
    synapses: Any


class Cores(NamedTuple):
    """The cores of an event-driven chip, and what each of them does in a step.

    `home (neurons,)` is the core of each unit and each output after them, `place (cores,)` where a
    core is counted, `units` and `outputs (cores,)` how many of each it holds, `idle` none. Events
    of neurons meet synapses as `landing` says. `work (5, cores)` holds the events of a step:
    updates, spikes, sends, receives, synapses, and `done (5, cores)` those of all steps so far;
    `lengths_ns (5,)` say which of them take longest.
    """

    home: Any
    place: Any
    units: Any
    outputs: Any
    idle: Any
    landing: Any
    lengths_ns: Any
    work: Any
    done: Any
