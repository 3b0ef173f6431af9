"""Every compiled function. Results are written in place; nothing is allocated in a step.

A network arrives as integer tables (`engine.compiled.tables` makes them), so one compiled signature
for each precision serves every network. A *message* is one direction of a link
(`engine.couplings.link`): its block, `(FAN_IN, FAN_OUT)` from `START` on, is read at `POSITIONS`
places. `BACK` goes from the target of the link to its source. `GATHER` is where the units that the
places read begin in the table of all of them; it is negative for a plain matrix, which reads its
source as it lies.

Batches are `(samples, units)`. `state`, `drive` and `mapped` hold the samples that still move as
one contiguous `(rows, size)` block for each layer. Row `i` of a block belongs to sample `order[i]`;
when a sample has settled, the last row takes its place.

All kernels are in one file because numba's cache does not see a change in a callee of another.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

# Columns of the tables.
OFFSET, SIZE, ACTIVATION, HALF = range(4)  # layers
SOURCE, TARGET, START, BACK, PACKED, POSITIONS, FAN_IN, FAN_OUT, GATHER = range(9)  # messages
KIND, LAYER, WEIGHT, BIAS, OUTPUTS, PACKED_OUT, PACKED_BACK = range(7)  # read-out
SOFTMAX, SQUARED_ERROR = range(2)
TANH, HARD_SIGMOID, RELU = range(3)
BOTH = -1
"""Stands for both halves of the layers."""

TILE_ROWS, TILE_VECTORS, VECTOR_BYTES = 6, 2, 32
"""A tile of a product: its sums fill 12 of the 16 vector registers that a core has at least."""
DEPTH = 2048
"""Rows of a packed matrix that a tile sums over in one go."""
PASS = 192
"""Rows of states that stay in the second cache while a packed matrix passes by."""
TURNED = 48
"""Columns of a batch that are turned into rows at a time."""


# Division by zero gives what IEEE 754 says: a branch that could raise would keep every loop with a
# division from being vectorised. Of fastmath only fused multiply-add: it keeps NaN, infinity and
# the order of sums. Without the GIL, blocks of rows relax on several cores at once.
_compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})


class Program(NamedTuple):
    """A network and its parameters; `packed` holds the matrices again, laid out for products."""

    theta: Any
    packed: Any
    layers: Any
    messages: Any
    gather: Any
    readout: Any


class Phase(NamedTuple):
    """A batch held fixed: `clamped (samples, units)`, `targets (samples, outputs)`, the nudges.

    `betas (phases,)` are relaxed side by side, from the same states; one is zero only if it is
    alone. Sample `k` of phase `p` has the number `p * samples + k`.
    """

    clamped: Any
    targets: Any
    betas: Any
    known: Any
    """Recurrent drive `(samples, units)` of the starting states, or no row at all."""


class Work(NamedTuple):
    """Buffers of one relaxation; the `_bits` are integer views of their floats."""

    state: Any
    drive: Any
    mapped: Any
    error: Any
    windows: Any
    """What the places of a link read, or send back, one after the other."""
    edge: Any
    order: Any
    gap: Any
    gap_bits: Any
    residual: Any
    residual_bits: Any


class Ended(NamedTuple):
    """Where each sample of each phase ended, by its number: `state`, `steps`, `residual`.

    `drive` takes the recurrent drive of those states, if it has room; then no beta may nudge it.
    """

    state: Any
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


# tanh x = x P(x^2) / Q(x^2) for |x| <= 8.5, a weighted least-squares fit for float32.
_EDGE, _ONE = np.float32(8.5), np.float32(1.0)
_P0, _P1, _P2, _P3, _P4 = (
    np.float32(c)
    for c in (
        9.999999881829e-1,
        1.341326001154e-1,
        3.534042028697e-3,
        2.125127820817e-5,
        1.426952e-8,
    )
)
_Q1, _Q2, _Q3, _Q4 = (
    np.float32(c) for c in (4.674658275793e-1, 2.602281003497e-2, 3.348888945342e-4, 8.14524992e-7)
)


def _rational_tanh(x: Any) -> Any:
    # Each comparison is false for NaN, which so passes through.
    x = _EDGE if x > _EDGE else x
    x = -_EDGE if x < -_EDGE else x
    u = x * x
    p = (((_P4 * u + _P3) * u + _P2) * u + _P1) * u + _P0
    q = (((_Q4 * u + _Q3) * u + _Q2) * u + _Q1) * u + _ONE
    y = x * p / q
    y = _ONE if y > _ONE else y
    return -_ONE if y < -_ONE else y


def _library_tanh(x: Any) -> Any:
    return math.tanh(x)


def _tanh(x: Any) -> Any:
    """tanh in the precision of `x`; compiled code calls the overload below instead."""
    return _rational_tanh(x) if isinstance(x, np.float32) else _library_tanh(x)


@overload(_tanh)
def _tanh_of_type(x: Any) -> Any:
    return _rational_tanh if x == types.float32 else _library_tanh


@_compiled
def tanh(x, out):
    """Write tanh of the vector `x` to `out`, as the relaxation computes it."""
    for j in range(x.size):
        out[j] = _tanh(x[j])


@_compiled
def adam(gradient, first, second, take1, take2, correction, rate, eps):
    """Move both moments by the shares `take` and write the update over `gradient`, in one pass.

    `correction` scales the second moment under its root.
    """
    for j in range(gradient.size):
        g = gradient[j]
        first[j] += take1 * (g - first[j])
        second[j] += take2 * (g * g - second[j])
        gradient[j] = rate * first[j] / (math.sqrt(second[j] * correction) + eps)


def _tile_of(count):
    """Make the function that adds a tile of `count` rows."""

    @intrinsic
    def add_tile(
        _, a, a_start, a_step, left, depth, packed, packed_start, out, out_start, out_step
    ):
        """Add a tile of `a b` to `out`: `count` rows, as many columns as `TILE_VECTORS` vectors.

        Each array is flat and used from its start on; rows of `a` and `out` are a step apart. Rows
        beyond the first `left` repeat the last of them, which costs no branch and changes nothing.
        Written as instructions for vectors, because LLVM does not find them in a loop over numbers:
        the sums have to stay in registers.
        """

        def generate(context, builder, signature, arguments):
            number = signature.args[0].dtype
            scalar, whole = context.get_value_type(number), context.get_value_type(types.intp)
            lanes = 8 * VECTOR_BYTES // number.bitwidth
            vector = ir.VectorType(scalar, lanes)
            nothing = ir.Constant(vector, ir.Undefined)
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            loose = {"align": number.bitwidth // 8}  # a vector may lie anywhere

            def constant(value):
                return ir.Constant(whole, value)

            def address(array, start):
                kind = context.make_array(signature.args[array])
                return builder.gep(
                    kind(context, builder, arguments[array]).data, [arguments[start]]
                )

            def vectors(start, offset):
                places = (builder.add(offset, constant(v * lanes)) for v in range(TILE_VECTORS))
                return [
                    builder.bitcast(builder.gep(start, [place]), vector.as_pointer())
                    for place in places
                ]

            def fused(x, y, total):
                product = builder.fmul(x, y, flags=("contract",))
                return builder.fadd(product, total, flags=("contract",))

            a, packed, out = address(0, 1), address(5, 6), address(7, 8)
            a_step, left, depth, out_step = (arguments[k] for k in (2, 3, 4, 9))
            last = builder.sub(left, constant(1))
            rows = [
                builder.select(builder.icmp_signed("<", constant(r), last), constant(r), last)
                for r in range(count)
            ]
            reads = [builder.gep(a, [builder.mul(row, a_step)]) for row in rows]
            writes = [vectors(out, builder.mul(row, out_step)) for row in rows]
            sums = [
                [cgutils.alloca_once_value(builder, builder.load(place, **loose)) for place in row]
                for row in writes
            ]
            with cgutils.for_range(builder, depth) as loop:
                start = builder.mul(loop.index, constant(TILE_VECTORS * lanes))
                columns = [builder.load(place, **loose) for place in vectors(packed, start)]
                for read, row in zip(reads, sums, strict=True):
                    one = builder.load(builder.gep(read, [loop.index]))
                    filled = builder.insert_element(nothing, one, ir.Constant(ir.IntType(32), 0))
                    filled = builder.shuffle_vector(filled, nothing, everywhere)
                    for column, total in zip(columns, row, strict=True):
                        builder.store(fused(filled, column, builder.load(total)), total)
            for places, row in zip(writes, sums, strict=True):
                for place, total in zip(places, row, strict=True):
                    builder.store(builder.load(total), place, **loose)
            return context.get_dummy_value()

        size = types.intp
        steps = (size, size, size, size)
        return types.void(a, *steps, packed, size, out, size, size), generate

    return add_tile


def _plain_tile_of(count):
    """Make the function that does the same without the compiler."""

    def add_tile(a, a_start, a_step, left, depth, packed, packed_start, out, out_start, out_step):
        width = TILE_VECTORS * VECTOR_BYTES // packed.itemsize
        columns = packed[packed_start : packed_start + depth * width].reshape((depth, width))
        into = out.reshape(-1)
        for row in range(min(count, left)):
            start, to = a_start + row * a_step, out_start + row * out_step
            into[to : to + width] += np.add.reduce(a[start : start + depth, None] * columns, 0)

    return add_tile


_make_tile = _plain_tile_of if config.DISABLE_JIT else _tile_of  # type: ignore[attr-defined]
_add_tile = _make_tile(TILE_ROWS)
_add_row = _make_tile(1)  # of the same sums: six for one would be five too many


def packed_size(shape: tuple[int, ...], itemsize: int) -> int:
    """Return how many numbers a packed matrix `(inner, columns)` has."""
    inner, columns = shape
    width = TILE_VECTORS * VECTOR_BYTES // itemsize
    return inner * width * -(-columns // width)


def new_edge(dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the scratch of a product for the columns at its right edge."""
    return np.empty((TILE_ROWS, TILE_VECTORS * VECTOR_BYTES // np.dtype(dtype).itemsize), dtype)


@_compiled
def pack(matrix, packed):
    """Lay `matrix (inner, columns)` out as tiles read it.

    Of each stretch of `DEPTH` rows the columns of a tile come first, row by row, then those of the
    next one; the last are filled up with zeros.
    """
    inner, columns = matrix.shape
    width = TILE_VECTORS * VECTOR_BYTES // matrix.itemsize
    padded = -(-columns // width) * width
    for top in range(0, inner, DEPTH):
        depth = min(DEPTH, inner - top)
        for i in range(depth):
            for j in range(0, columns, width):
                start = top * padded + j * depth + i * width
                into, part = packed[start : start + width], matrix[top + i, j : j + width]
                for c in range(part.size):
                    into[c] = part[c]
                for c in range(part.size, width):
                    into[c] = 0


@_compiled
def add_product(a, rows, inner, packed, out, columns, out_step, edge):
    """Add `a b` to `out`, with `a (rows, inner)` in a flat array and `b` as `pack` left it.

    The rows of `out` begin `out_step` apart in a flat array. `edge` is a tile of scratch. The sum
    of a row is taken in the same order whatever the other rows are.
    """
    width = edge.shape[1]
    for top in range(0, rows, PASS):
        bottom = min(rows, top + PASS)
        used = 0
        for k in range(0, inner, DEPTH):
            depth = min(DEPTH, inner - k)
            for j in range(0, columns, width):
                for i in range(top, bottom, TILE_ROWS):
                    left, from_, to = min(TILE_ROWS, bottom - i), i * inner + k, i * out_step + j
                    if j + width <= columns and left > 1:
                        _add_tile(a, from_, inner, left, depth, packed, used, out, to, out_step)
                        continue
                    if j + width <= columns:
                        _add_row(a, from_, inner, left, depth, packed, used, out, to, out_step)
                        continue
                    for r in range(left):
                        for c in range(columns - j):
                            edge[r, c] = out[to + r * out_step + c]
                    _add_tile(a, from_, inner, left, depth, packed, used, edge, 0, width)
                    for r in range(left):
                        for c in range(columns - j):
                            out[to + r * out_step + c] = edge[r, c]
                used += depth * width


@_compiled
def add_correlation(a, b, out, packed, turned, edge):
    """Add `a' b` to the flat `out (columns of a, columns of b)`; the batches have a row a sample.

    `packed` has room for `b`, `turned (rows, samples)` for so many columns of `a` at a time.
    """
    samples, columns = b.shape
    pack(b, packed)
    for top in range(0, a.shape[1], len(turned)):
        count = min(len(turned), a.shape[1] - top)
        for s in range(samples):
            for i in range(count):
                turned[i, s] = a[s, top + i]
        part = out[top * columns :]
        add_product(turned.reshape(-1), count, samples, packed, part, columns, columns, edge)


@_compiled
def pack_weights(net):
    """Fill `net.packed` with the matrices of the messages and of the read-out."""
    for message in net.messages:
        fan_in, fan_out = message[FAN_IN], message[FAN_OUT]
        weight = net.theta[message[START] : message[START] + fan_in * fan_out]
        into = net.packed[message[PACKED] :]
        if message[BACK]:
            pack(weight.reshape((fan_in, fan_out)).T, into)
        else:
            pack(weight.reshape((fan_in, fan_out)), into)
    if net.readout[KIND] != SQUARED_ERROR:
        size, outputs = net.layers[net.readout[LAYER]][SIZE], net.readout[OUTPUTS]
        weight = net.theta[net.readout[WEIGHT] : net.readout[WEIGHT] + size * outputs]
        pack(weight.reshape((size, outputs)), net.packed[net.readout[PACKED_OUT] :])
        pack(weight.reshape((size, outputs)).T, net.packed[net.readout[PACKED_BACK] :])


@_compiled
def compare(state, opposite, scale, gap, middle):
    """Write `scale (state - opposite)` and the mean of both, all `(samples, units)`."""
    for i in range(len(state)):
        for j in range(state.shape[1]):
            gap[i, j] = scale * (state[i, j] - opposite[i, j])
            middle[i, j] = (state[i, j] + opposite[i, j]) / 2


@_compiled
def _block(buffer, capacity, layer, rows):
    """View the first `rows` samples of a layer as `(rows, size)`."""
    start = capacity * layer[OFFSET]
    return buffer[start : start + rows * layer[SIZE]].reshape((rows, layer[SIZE]))


@_compiled
def _row(buffer, capacity, layer, row):
    """View one sample of a layer."""
    start = capacity * layer[OFFSET] + row * layer[SIZE]
    return buffer[start : start + layer[SIZE]]


@_compiled
def _part(sample, layer):
    """View a layer in a sample `(units,)`."""
    return sample[layer[OFFSET] : layer[OFFSET] + layer[SIZE]]


@_compiled
def _begin(net, phase, start, first, work):
    """Lay the states of the samples from `first` on out in blocks, once for each phase.

    There are as many as the buffers have room for; all move. Returns the number of rows.
    """
    count = len(work.order) // len(phase.betas)
    for p in range(len(phase.betas)):
        for k in range(count):
            row = p * count + k
            work.order[row] = p * len(start) + first + k
            for layer in net.layers:
                _row(work.state, len(work.order), layer, row)[:] = _part(start[first + k], layer)
    return len(work.order)


@_compiled
def _store(net, work, row, ended):
    """Write a row of the state out to its sample."""
    sample, capacity = work.order[row], len(work.order)
    for layer in net.layers:
        _part(ended.state[sample], layer)[:] = _row(work.state, capacity, layer, row)
        if len(ended.drive) > 0:
            _part(ended.drive[sample], layer)[:] = _row(work.drive, capacity, layer, row)


@_compiled
def _send(net, work, half, rows):
    """Write the recurrent drive of the layers in `half`."""
    capacity = len(work.order)
    for layer in net.layers:
        if half in (BOTH, layer[HALF]):
            _block(work.drive, capacity, layer, rows)[:] = 0
    for message in net.messages:
        source, target = net.layers[message[SOURCE]], net.layers[message[TARGET]]
        if half in (BOTH, target[HALF]):
            states = work.state[capacity * source[OFFSET] :]
            drive = work.drive[capacity * target[OFFSET] :]
            packed = net.packed[message[PACKED] :]
            size = target[SIZE]
            if message[GATHER] < 0:
                add_product(states, rows, source[SIZE], packed, drive, size, size, work.edge)
            elif message[BACK]:
                _send_back(net, message, states, rows, packed, drive, size, work)
            else:
                _send_on(net, message, states, rows, packed, drive, source[SIZE], work)


@_compiled
def _send_on(net, message, states, rows, packed, drive, size, work):
    """Add what the places of a link send on: each reads its units of the source, of `size`."""
    places, fan_in, fan_out = message[POSITIONS], message[FAN_IN], message[FAN_OUT]
    count = places * fan_in
    read = net.gather[message[GATHER] : message[GATHER] + count]
    for i in range(rows):
        row, window = states[i * size : (i + 1) * size], work.windows[i * count : (i + 1) * count]
        for j in range(count):
            window[j] = row[read[j]] if read[j] >= 0 else 0
    # The units of a place lie side by side in the target: its rows are those of the places.
    places_all = rows * places
    add_product(work.windows, places_all, fan_in, packed, drive, fan_out, fan_out, work.edge)


@_compiled
def _send_back(net, message, states, rows, packed, drive, size, work):
    """Add what the places of a link send back to the source, of `size`, unit by unit."""
    places, fan_in, fan_out = message[POSITIONS], message[FAN_IN], message[FAN_OUT]
    count = places * fan_in
    read = net.gather[message[GATHER] : message[GATHER] + count]
    work.windows[: rows * count] = 0
    add_product(states, rows * places, fan_out, packed, work.windows, fan_in, fan_in, work.edge)
    for i in range(rows):
        row, window = drive[i * size : (i + 1) * size], work.windows[i * count : (i + 1) * count]
        for j in range(count):  # in this order, whatever the other rows are
            if read[j] >= 0:
                row[read[j]] += window[j]


@_compiled
def _softmax_error(row, target, scale):
    """Turn the logits in `row` into `scale (p - y)`; return the cost `-sum_k y_k ln p_k`."""
    peak = row.max()
    total = cost = 0.0
    for k in range(row.size):
        shifted = row[k] - peak
        cost -= target[k] * shifted
        row[k] = math.exp(shifted)
        total += row[k]
    for k in range(row.size):
        row[k] = scale * (row[k] / total - target[k])
    return cost + math.log(total)  # the targets add up to one


@_compiled
def softmax_errors(logits, targets, costs):
    """Turn `logits (samples, outputs)` into `p - y` in place, and write the cost of each sample."""
    for i in range(len(logits)):
        costs[i] = _softmax_error(logits[i], targets[i], 1.0)


@_compiled
def _nudge(net, phase, work, rows):
    """Subtract `beta dC/ds` from the drive of the layer that is read out."""
    capacity, samples = len(work.order), len(phase.targets)
    layer = net.layers[net.readout[LAYER]]
    size, outputs = layer[SIZE], net.readout[OUTPUTS]
    if net.readout[KIND] == SQUARED_ERROR:
        for i in range(rows):
            target = phase.targets[work.order[i] % samples]
            beta = phase.betas[work.order[i] // samples]
            s = _row(work.state, capacity, layer, i)
            drive = _row(work.drive, capacity, layer, i)
            for j in range(size):
                drive[j] -= beta * (s[j] - target[j])
        return
    s = work.state[capacity * layer[OFFSET] :]
    drive = work.drive[capacity * layer[OFFSET] :]
    out, back = net.packed[net.readout[PACKED_OUT] :], net.packed[net.readout[PACKED_BACK] :]
    error = work.error[: rows * outputs]
    slopes = error.reshape((rows, outputs))
    slopes[:] = net.theta[net.readout[BIAS] : net.readout[BIAS] + outputs]
    add_product(s, rows, size, out, error, outputs, outputs, work.edge)
    for i in range(rows):
        phase_of, sample = divmod(work.order[i], samples)
        _softmax_error(slopes[i], phase.targets[sample], -phase.betas[phase_of])
    add_product(error, rows, outputs, back, drive, size, size, work.edge)


@_compiled
def _bend(layer, drive, clamped, out):
    """Write the activation of the whole drive, recurrent and clamped, to `out`."""
    if layer[ACTIVATION] == TANH:
        for j in range(out.size):
            out[j] = _tanh(drive[j] + clamped[j])
    elif layer[ACTIVATION] == HARD_SIGMOID:
        for j in range(out.size):
            h = drive[j] + clamped[j]
            out[j] = 0.0 if h < 0.0 else (1.0 if h > 1.0 else h)
    else:
        for j in range(out.size):
            h = drive[j] + clamped[j]
            out[j] = 0.0 if h < 0.0 else h


@_compiled
def activate(layers, clamped, out):
    """Write the activation of the drive `clamped (samples, units)` to `out`."""
    out[:] = 0
    for i in range(len(clamped)):
        for layer in layers:
            part = _part(out[i], layer)
            _bend(layer, part, _part(clamped[i], layer), part)


@_compiled
def _activate(net, phase, work, half, rows):
    """Write `T(s)` to `mapped`; raise the residual of each row to its largest gap.

    The bits of non-negative floats are ordered as the floats are, with NaN above all: an integer
    maximum is exact, needs no fastmath to be vectorised, and cannot lose a NaN.
    """
    capacity = len(work.order)
    gap, gap_bits = work.gap, work.gap_bits
    for layer in net.layers:
        if half not in (BOTH, layer[HALF]):
            continue
        for i in range(rows):
            clamped = _part(phase.clamped[work.order[i] % len(phase.clamped)], layer)
            old = _row(work.state, capacity, layer, i)
            new = _row(work.mapped, capacity, layer, i)
            _bend(layer, _row(work.drive, capacity, layer, i), clamped, new)
            for j in range(new.size):
                gap[j] = abs(new[j] - old[j])
            worst = work.residual_bits[i]
            for j in range(new.size):
                worst = max(worst, gap_bits[j])
            work.residual_bits[i] = worst


@_compiled
def _map(net, phase, work, half, rows):
    """Write `T(s)` of the layers in `half` to `mapped`, and the residual of each row."""
    _send(net, work, half, rows)
    _respond(net, phase, work, half, rows)


@_compiled
def _map_first(net, phase, work, rows):
    """Do the same in the first step: every phase starts alike, so one product serves all."""
    count, samples = rows // len(phase.betas), len(phase.clamped)
    known = len(phase.known) > 0
    if not known:
        _send(net, work, BOTH, count)
    for layer in net.layers:
        drive = _block(work.drive, len(work.order), layer, rows)
        for i in range(0 if known else count, rows):
            sample = work.order[i] % samples
            drive[i] = _part(phase.known[sample], layer) if known else drive[i % count]
    _respond(net, phase, work, BOTH, rows)


@_compiled
def _respond(net, phase, work, half, rows):
    """Turn the recurrent drive into `T(s)` in `mapped`, and note the residual of each row."""
    if phase.betas[0] != 0.0 and half in (BOTH, net.layers[net.readout[LAYER]][HALF]):
        _nudge(net, phase, work, rows)
    work.residual_bits[:rows] = 0
    _activate(net, phase, work, half, rows)


@_compiled
def _retire(net, work, tolerance, step, rows, ended):
    """Store the rows that have settled, close the gaps they leave, and count those that move.

    A residual that is not a number is noted and ends the relaxation: the count is then zero.
    """
    capacity = len(work.order)
    for i in range(rows - 1, -1, -1):
        sample = work.order[i]
        ended.residual[sample] = work.residual[i]
        ended.steps[sample] = step
        if work.residual[i] > tolerance:
            continue
        if math.isnan(work.residual[i]):
            for row in range(rows):
                _store(net, work, row, ended)
            return 0
        _store(net, work, i, ended)
        rows -= 1
        if i == rows:
            continue  # numba would allocate a copy of a row that is assigned to itself
        work.order[i] = work.order[rows]
        for layer in net.layers:
            _row(work.state, capacity, layer, i)[:] = _row(work.state, capacity, layer, rows)
            _row(work.mapped, capacity, layer, i)[:] = _row(work.mapped, capacity, layer, rows)
        work.residual[i] = work.residual[rows]
    return rows


@_compiled
def _advance(net, work, half, damping, rows):
    """Step `s <- s + damping (T(s) - s)` in the layers of `half`."""
    capacity = len(work.order)
    for layer in net.layers:
        if half not in (BOTH, layer[HALF]):
            continue
        first = capacity * layer[OFFSET]
        last = first + rows * layer[SIZE]
        if damping == 1.0:
            work.state[first:last] = work.mapped[first:last]
        else:
            for j in range(first, last):
                work.state[j] += damping * (work.mapped[j] - work.state[j])


@_compiled
def _exchanged(work):
    """Let the image be the state: a whole step without a copy."""
    return Work(
        work.mapped,
        work.drive,
        work.state,
        work.error,
        work.windows,
        work.edge,
        work.order,
        work.gap,
        work.gap_bits,
        work.residual,
        work.residual_bits,
    )


@_compiled
def relax_fixed_point(net, phase, start, first, work, damping, tolerance, max_steps, ended):
    """Relax by damped steps of the whole state."""
    rows = _begin(net, phase, start, first, work)
    for step in range(1, max_steps + 1):
        if step == 1:
            _map_first(net, phase, work, rows)
        else:
            _map(net, phase, work, BOTH, rows)
        rows = _retire(net, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        if damping == 1.0:
            work = _exchanged(work)
        else:
            _advance(net, work, BOTH, damping, rows)
    if len(ended.drive) > 0:
        _send(net, work, BOTH, rows)  # that of the last step is of the states before it
    for i in range(rows):
        _store(net, work, i, ended)


@_compiled
def relax_alternating(net, phase, start, first, work, tolerance, max_steps, ended):
    """Relax one half of the layers from the other and back.

    After a step the second half equals its `T(s)`, and keeps to it while the first half is mapped:
    the residual of the first half is then that of the whole state.
    """
    rows = _begin(net, phase, start, first, work)
    for step in range(1, max_steps + 1):
        _map(net, phase, work, BOTH if step == 1 else 0, rows)
        rows = _retire(net, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        _advance(net, work, 0, 1.0, rows)
        _map(net, phase, work, 1, rows)
        _advance(net, work, 1, 1.0, rows)
    for i in range(rows):
        _store(net, work, i, ended)


@_compiled
def _mixing_weights(gram, system, weights, count):
    """Minimise `|sum w_i gap_i|^2` under `sum w_i = 1`, from the inner products of the gaps.

    Solves `(gram + ridge) w ~ 1` by elimination: positive definite, so it needs no pivots, and
    unlike `np.linalg.solve` it allocates nothing. Says whether there is a solution: not where the
    squares of the gaps are lost to underflow.
    """
    trace = 0.0
    for i in range(count):
        trace += gram[i, i]
    limits = np.finfo(gram.dtype)
    if not trace > limits.tiny / limits.eps:
        return False
    ridge = 10 * limits.eps * trace
    for i in range(count):
        weights[i] = 1.0
        for j in range(count):
            system[i, j] = gram[i, j]
        system[i, i] += ridge
    for i in range(count):
        for k in range(i + 1, count):
            factor = system[k, i] / system[i, i]
            weights[k] -= factor * weights[i]
            for j in range(i, count):
                system[k, j] -= factor * system[i, j]
    total = 0.0
    for i in range(count - 1, -1, -1):
        for j in range(i + 1, count):
            weights[i] -= system[i, j] * weights[j]
        weights[i] /= system[i, i]
        total += weights[i]
    for i in range(count):
        weights[i] /= total
    return True


@_compiled
def _remember(net, work, row, sample, past):
    """Add the row's state and gap to the history of its sample."""
    memory = past.gaps.shape[1]
    slot = (past.newest[sample] + 1) % memory
    past.newest[sample] = slot
    past.kept[sample] = min(past.kept[sample] + 1, memory)
    past.best[sample] = work.residual[row]
    for layer in net.layers:
        old = _row(work.state, len(work.order), layer, row)
        new = _row(work.mapped, len(work.order), layer, row)
        _part(past.plain[sample], layer)[:] = new
        _part(past.states[sample, slot], layer)[:] = old
        gap = _part(past.gaps[sample, slot], layer)
        for j in range(gap.size):
            gap[j] = new[j] - old[j]
    for j in range(past.kept[sample]):
        product = np.dot(past.gaps[sample, slot], past.gaps[sample, j])
        past.gram[sample, slot, j] = product
        past.gram[sample, j, slot] = product


@_compiled
def _step_plainly(net, work, row, sample, past):
    """Replace the row's state by the last `T(s)` of its sample."""
    for layer in net.layers:
        _row(work.state, len(work.order), layer, row)[:] = _part(past.plain[sample], layer)


@_compiled
def _mix(net, work, row, sample, past):
    """Replace the row's state by the mixture `sum w_i (s_i + gap_i)`, kept within its range."""
    count = past.kept[sample]
    if not _mixing_weights(past.gram[sample], past.system, past.weights, count):
        _step_plainly(net, work, row, sample, past)
        return
    for layer in net.layers:
        low = -1.0 if layer[ACTIVATION] == TANH else 0.0
        high = math.inf if layer[ACTIVATION] == RELU else 1.0
        state = _row(work.state, len(work.order), layer, row)
        state[:] = 0
        for i in range(count):
            old = _part(past.states[sample, i], layer)
            gap = _part(past.gaps[sample, i], layer)
            for j in range(state.size):
                state[j] += past.weights[i] * (old[j] + gap[j])
        for j in range(state.size):
            state[j] = min(max(state[j], low), high)


@_compiled
def relax_anderson(net, phase, start, first, work, past, tolerance, max_steps, ended):
    """Relax by mixing the last steps of each sample.

    A mixture whose residual is above the one before it is undone: the sample takes the plain step
    it would have taken instead, and its history starts again.
    """
    rows = _begin(net, phase, start, first, work)
    count = rows // len(phase.betas)
    for step in range(1, max_steps + 1):
        _map(net, phase, work, BOTH, rows)
        rows = _retire(net, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        for i in range(rows):
            phase_of, sample_of = divmod(work.order[i], len(start))
            sample = phase_of * count + sample_of - first  # as the history of this block counts
            if past.kept[sample] > 1 and work.residual[i] > past.best[sample]:
                past.kept[sample] = 0
                past.newest[sample] = -1
                _step_plainly(net, work, i, sample, past)
                continue
            _remember(net, work, i, sample, past)
            if past.kept[sample] > 1:
                _mix(net, work, i, sample, past)
            else:
                _step_plainly(net, work, i, sample, past)
    for i in range(rows):
        _store(net, work, i, ended)
