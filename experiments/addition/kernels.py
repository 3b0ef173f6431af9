"""The compiled forward and backward pass of a one-layer, one-head model, and greedy decoding.

What depends on a token and its position alone comes in as a table `(position, feature, token)`.
Attention needs only the products of queries and keys, so both live in the smallest space that
gives the same scores. `LANES` sums go side by side: the last axis of every scratch array, so that
each innermost loop is a few vector instructions. A position is carried forward and back at once;
only the gradients of keys and values wait until all positions are done.

Library calls would keep their loops scalar, so `exp` and the normal distribution are branch-free
polynomials with an error near the rounding of float32. The number of lanes is read from the arrays:
a loop of known length would be unrolled before it could become vector instructions.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from engine.arrays import FloatArray
from experiments.addition.sums import POSITIONS, PROMPT, VOCABULARY

LANES = 128
FIRST = PROMPT - 1
"""Position of '=', the first that has to say something."""

RMS_EPS, LAYER_EPS = np.float32(1e-8), np.float32(1e-5)
ZERO, ONE = np.float32(0.0), np.float32(1.0)

LOG2_E = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
"""`ln 2` in two parts: the first has few bits, so that its multiples are exact."""

SHIFT = np.float32(1.5 * 2**23)
"""Added to a float32, it leaves the nearest whole number in the lowest bits."""

LOWEST = np.float32(-87.0)
"""Where `exp` ends: below, float32 has no normal numbers."""

INVERSE_FACTORIALS = tuple(np.float32(1 / k) for k in (5040, 720, 120, 24, 6, 2, 1, 1))

TAIL_SCALE = np.float32(0.34 / np.sqrt(2))
TAIL = tuple(
    np.float32(c / 2)
    for c in (
        -0.246984764312,
        1.08762122278,
        -1.25100692054,
        1.21120984163,
        -0.286050702843,
        0.305064020499,
        0.180147302071,
    )
)
"""`erfc(z) exp(z^2) = sum_k c_k t^k`, `t = 1 / (1 + 0.34 z)`: a minimax fit, error below 1e-9."""

DENSITY = np.float32(1 / np.sqrt(2 * np.pi))
HALF = np.float32(0.5)


_compiled = njit(cache=True, fastmath={"contract"}, error_model="numpy")
_summing = njit(cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
"""The same for a sum over lanes, which vector instructions must be free to reorder."""


class Weights(NamedTuple):
    """What a forward pass reads. `d` is the width, `c` that of scores, `e` that of values."""

    residual: FloatArray
    """Token plus position embedding `(position, d, token)`."""
    query: FloatArray
    """`(position, c, token)`, scaled for the softmax."""
    key: FloatArray
    """`(position, c, token)`."""
    value: FloatArray
    """`(position, e, token)`."""
    out: FloatArray
    """`(e, d)`: from mixed values to the residual stream."""
    up: FloatArray
    """`(d, ff)`."""
    down: FloatArray
    """`(ff, d)`."""
    head: FloatArray
    """`(d, token)`."""
    norm2: FloatArray
    """Gain and shift `(2, d)`."""
    norm_f: FloatArray
    """Gain and shift `(2, d)`."""


class Gradients(NamedTuple):
    """Of the loss by each of `Weights`."""

    residual: FloatArray
    query: FloatArray
    key: FloatArray
    value: FloatArray
    out: FloatArray
    up: FloatArray
    down: FloatArray
    head: FloatArray
    norm2: FloatArray
    norm_f: FloatArray


class Scratch(NamedTuple):
    """Working memory of one group of lanes; the last axis is the lane."""

    q: FloatArray
    k: FloatArray
    v: FloatArray
    p: FloatArray
    o: FloatArray
    x1: FloatArray
    n2: FloatArray
    z: FloatArray
    h: FloatArray
    act: FloatArray
    slope: FloatArray
    x2: FloatArray
    nf: FloatArray
    y: FloatArray
    logits: FloatArray
    scale2: FloatArray
    scale_f: FloatArray
    row: FloatArray
    other: FloatArray
    dp: FloatArray
    do: FloatArray
    dq: FloatArray
    dk: FloatArray
    dv: FloatArray
    dx: FloatArray
    dz: FloatArray
    dh: FloatArray


def gradients(weights: Weights) -> Gradients:
    """Allocate gradients of zero."""
    return Gradients(*(np.zeros_like(array) for array in weights))


def scratch(weights: Weights) -> Scratch:
    """Allocate the working memory of a group of lanes."""
    d, ff = weights.up.shape
    c, e = weights.key.shape[1], weights.value.shape[1]
    shapes: dict[str, tuple[int, ...]] = {
        "q": (c,), "k": (POSITIONS, c), "v": (POSITIONS, e), "p": (POSITIONS,), "o": (e,),
        "x1": (d,), "n2": (d,), "z": (d,), "h": (ff,), "act": (ff,), "slope": (ff,), "x2": (d,),
        "nf": (d,), "y": (d,), "logits": (VOCABULARY,), "scale2": (), "scale_f": (), "row": (),
        "other": (), "dp": (POSITIONS,), "do": (e,), "dq": (c,), "dk": (POSITIONS, c),
        "dv": (POSITIONS, e), "dx": (d,), "dz": (d,), "dh": (ff,),
    }  # fmt: skip
    dtype = weights.up.dtype
    return Scratch(**{name: np.zeros((*shape, LANES), dtype) for name, shape in shapes.items()})


@_compiled
def loss_and_gradients(rows, weight, weights, rms, grads, s):
    """Add the gradients of `sum_b weight_b CE_b` over the 12 targets; return that sum.

    `rows (groups, 34, LANES)` are whole rows of tokens, `weight (groups, LANES)` their share of
    the loss: zero for a lane that only fills up its group.
    """
    total = 0.0
    for g in range(rows.shape[0]):
        tokens = rows[g]
        _gather_keys(tokens, POSITIONS, weights, s)
        _clear3(s.dk)
        _clear3(s.dv)
        for i in range(FIRST, POSITIONS):
            _forward(tokens, i, weights, rms, s)
            total += _cross_entropy(tokens[i + 1], weight[g], s)
            _backward(tokens, i, weights, rms, grads, s)
        for j in range(POSITIONS):
            _scatter(s.dk[j], tokens[j], grads.key[j])
            _scatter(s.dv[j], tokens[j], grads.value[j])
    return total


@_compiled
def decode_greedily(rows, weights, rms, s):
    """Write the most likely next token, one after the other, behind each prompt of `rows`."""
    lanes = rows.shape[2]
    for g in range(rows.shape[0]):
        tokens = rows[g]
        _gather_keys(tokens, FIRST, weights, s)
        for i in range(FIRST, POSITIONS):
            _gather(weights.key[i], tokens[i], s.k[i])
            _gather(weights.value[i], tokens[i], s.v[i])
            _forward(tokens, i, weights, rms, s)
            for lane in range(lanes):
                best = 0
                for t in range(1, VOCABULARY):
                    if s.logits[t, lane] > s.logits[best, lane]:
                        best = t
                tokens[i + 1, lane] = best


@_compiled
def _forward(tokens, i, weights, rms, s):
    """Carry position `i` of a group from its tokens to the logits."""
    _gather(weights.query[i], tokens[i], s.q)
    _attend(i, s)
    _gather(weights.residual[i], tokens[i], s.x1)
    _add_product(weights.out, s.o, s.x1)
    _normalise(s.x1, weights.norm2, rms, s.n2, s.z, s.scale2, s.row)
    _clear(s.h)
    _add_product(weights.up, s.z, s.h)
    _gelu(s.h, s.act, s.slope)
    _copy(s.x1, s.x2)
    _add_product(weights.down, s.act, s.x2)
    _normalise(s.x2, weights.norm_f, rms, s.nf, s.y, s.scale_f, s.row)
    _clear(s.logits)
    _add_product(weights.head, s.y, s.logits)


@_compiled
def _backward(tokens, i, weights, rms, grads, s):
    """Carry `s.logits`, now the gradient by the logits, back to the tables."""
    _add_outer(s.y, s.logits, grads.head)
    _clear(s.dz)
    _add_transposed_product(weights.head, s.logits, s.dz)
    _clear(s.dx)
    _norm_backward(s.dz, s.nf, s.scale_f, weights.norm_f, rms, grads.norm_f, s.dx, s.row, s.other)
    _add_outer(s.act, s.dx, grads.down)
    _clear(s.dh)
    _add_transposed_product(weights.down, s.dx, s.dh)
    for f in range(s.dh.shape[0]):
        for lane in range(s.dh.shape[1]):
            s.dh[f, lane] *= s.slope[f, lane]
    _add_outer(s.z, s.dh, grads.up)
    _clear(s.dz)
    _add_transposed_product(weights.up, s.dh, s.dz)
    _norm_backward(s.dz, s.n2, s.scale2, weights.norm2, rms, grads.norm2, s.dx, s.row, s.other)
    _scatter(s.dx, tokens[i], grads.residual[i])
    _add_outer(s.o, s.dx, grads.out)
    _clear(s.do)
    _add_transposed_product(weights.out, s.dx, s.do)
    _attend_backward(i, s)
    _scatter(s.dq, tokens[i], grads.query[i])


@_compiled
def _attend(i, s):
    """Mix the values up to position `i`: `p = softmax(q k)`, `o = p v`."""
    lanes = s.row.shape[0]
    _clear(s.p[: i + 1])
    for j in range(i + 1):
        _add_dot(s.q, s.k[j], s.p[j])
    _copy1(s.p[0], s.row)
    for j in range(1, i + 1):
        for lane in range(lanes):
            s.row[lane] = max(s.row[lane], s.p[j, lane])
    _clear1(s.other)
    for j in range(i + 1):
        for lane in range(lanes):
            s.p[j, lane] = exp(s.p[j, lane] - s.row[lane])
            s.other[lane] += s.p[j, lane]
    for lane in range(lanes):
        s.other[lane] = ONE / s.other[lane]
    _clear(s.o)
    for j in range(i + 1):
        for lane in range(lanes):
            s.p[j, lane] *= s.other[lane]
        _add_scaled(s.p[j], s.v[j], s.o)


@_compiled
def _attend_backward(i, s):
    """From `do` to `dq`, and add to `dk` and `dv`."""
    lanes = s.row.shape[0]
    _clear1(s.row)
    _clear(s.dp[: i + 1])
    for j in range(i + 1):
        _add_dot(s.do, s.v[j], s.dp[j])
        _add_scaled(s.p[j], s.do, s.dv[j])
        for lane in range(lanes):
            s.row[lane] += s.p[j, lane] * s.dp[j, lane]
    _clear(s.dq)
    for j in range(i + 1):
        for lane in range(lanes):
            s.dp[j, lane] = s.p[j, lane] * (s.dp[j, lane] - s.row[lane])
        _add_scaled(s.dp[j], s.q, s.dk[j])
        _add_scaled(s.dp[j], s.k[j], s.dq)


@_compiled
def _cross_entropy(targets, weight, s):
    """Return the weighted loss of a group; leave its gradient by the logits in `s.logits`."""
    lanes = s.row.shape[0]
    _copy1(s.logits[0], s.row)
    for t in range(1, VOCABULARY):
        for lane in range(lanes):
            s.row[lane] = max(s.row[lane], s.logits[t, lane])
    total = 0.0
    for lane in range(lanes):
        total -= weight[lane] * (s.logits[targets[lane], lane] - s.row[lane])
    _clear1(s.other)
    for t in range(VOCABULARY):
        for lane in range(lanes):
            s.logits[t, lane] = exp(s.logits[t, lane] - s.row[lane])
            s.other[lane] += s.logits[t, lane]
    for lane in range(lanes):
        total += weight[lane] * np.log(s.other[lane])
        s.row[lane] = weight[lane] / s.other[lane]
    for t in range(VOCABULARY):
        for lane in range(lanes):
            s.logits[t, lane] *= s.row[lane]
    for lane in range(lanes):
        s.logits[targets[lane], lane] -= weight[lane]
    return total


@_compiled
def _normalise(x, gain_and_shift, rms, unit, out, scale, mean):
    """`unit = (x - mean) scale` and `out = gain unit + shift`; an RMS norm has no mean."""
    width, lanes = x.shape
    share = ONE / np.float32(width)
    _clear1(mean)
    if not rms:
        for k in range(width):
            for lane in range(lanes):
                mean[lane] += share * x[k, lane]
    _clear1(scale)
    for k in range(width):
        for lane in range(lanes):
            unit[k, lane] = x[k, lane] - mean[lane]
            scale[lane] += share * unit[k, lane] * unit[k, lane]
    eps = RMS_EPS if rms else LAYER_EPS
    for lane in range(lanes):
        scale[lane] = ONE / np.sqrt(scale[lane] + eps)
    for k in range(width):
        gain, shift = gain_and_shift[0, k], gain_and_shift[1, k]
        for lane in range(lanes):
            unit[k, lane] *= scale[lane]
            out[k, lane] = gain * unit[k, lane] + shift


@_summing
def _norm_backward(dout, unit, scale, gain_and_shift, rms, grad, dx, mean, slope):
    """Add the gradient by the input of a norm to `dx`;"""
    width, lanes = dout.shape
    share = ONE / np.float32(width)
    _clear1(mean)
    _clear1(slope)
    for k in range(width):
        gain = share * gain_and_shift[0, k]
        by_gain = by_shift = ZERO
        for lane in range(lanes):
            by_gain += dout[k, lane] * unit[k, lane]
            by_shift += dout[k, lane]
        grad[0, k] += by_gain
        grad[1, k] += by_shift
        for lane in range(lanes):
            mean[lane] += gain * dout[k, lane]
            slope[lane] += gain * dout[k, lane] * unit[k, lane]
    if rms:
        _clear1(mean)
    for k in range(width):
        gain = gain_and_shift[0, k]
        for lane in range(lanes):
            change = gain * dout[k, lane] - mean[lane] - unit[k, lane] * slope[lane]
            dx[k, lane] += scale[lane] * change


@_compiled
def _gelu(x, out, slope):
    """`out = x Phi(x)` and its derivative `Phi(x) + x phi(x)`."""
    for f in range(x.shape[0]):
        for lane in range(x.shape[1]):
            below, density = normal(x[f, lane])
            out[f, lane] = x[f, lane] * below
            slope[f, lane] = below + x[f, lane] * density


@_compiled
def _gather_keys(tokens, count, weights, s):
    for j in range(count):
        _gather(weights.key[j], tokens[j], s.k[j])
        _gather(weights.value[j], tokens[j], s.v[j])


@_compiled
def _gather(table, tokens, out):
    """`out[k] = table[k, token]`."""
    for k in range(out.shape[0]):
        for lane in range(out.shape[1]):
            out[k, lane] = table[k, tokens[lane]]


@_compiled
def _scatter(values, tokens, table):
    """`table[k, token] += values[k]`."""
    for k in range(values.shape[0]):
        for lane in range(values.shape[1]):
            table[k, tokens[lane]] += values[k, lane]


@_compiled
def _add_product(matrix, x, out):
    """`out += matrix' x`, lane by lane."""
    for j in range(out.shape[0]):
        for k in range(x.shape[0]):
            w = matrix[k, j]
            for lane in range(out.shape[1]):
                out[j, lane] += w * x[k, lane]


@_compiled
def _add_transposed_product(matrix, x, out):
    """`out += matrix x`, lane by lane."""
    for k in range(out.shape[0]):
        for j in range(x.shape[0]):
            w = matrix[k, j]
            for lane in range(out.shape[1]):
                out[k, lane] += w * x[j, lane]


@_summing
def _add_outer(x, y, out):
    """`out[k, j] += x[k] . y[j]`, summed over the lanes."""
    for k in range(x.shape[0]):
        for j in range(y.shape[0]):
            total = ZERO
            for lane in range(y.shape[1]):
                total += x[k, lane] * y[j, lane]
            out[k, j] += total


@_compiled
def _add_dot(x, y, out):
    """`out += x . y`, lane by lane."""
    for k in range(x.shape[0]):
        for lane in range(x.shape[1]):
            out[lane] += x[k, lane] * y[k, lane]


@_compiled
def _add_scaled(factor, x, out):
    """`out[k] += factor x[k]`, lane by lane."""
    for k in range(x.shape[0]):
        for lane in range(x.shape[1]):
            out[k, lane] += factor[lane] * x[k, lane]


@_compiled
def _clear1(x):
    for lane in range(x.shape[0]):
        x[lane] = ZERO


@_compiled
def _clear(x):
    for k in range(x.shape[0]):
        for lane in range(x.shape[1]):
            x[k, lane] = ZERO


@_compiled
def _clear3(x):
    for j in range(x.shape[0]):
        _clear(x[j])


@_compiled
def _copy1(x, out):
    for lane in range(x.shape[0]):
        out[lane] = x[lane]


@_compiled
def _copy(x, out):
    for k in range(x.shape[0]):
        for lane in range(x.shape[1]):
            out[k, lane] = x[k, lane]


@intrinsic
def _power_of_two(context: Any, shifted: Any) -> Any:
    """`2^n` of a float32 that holds `SHIFT + n`, through its bits."""
    if shifted != types.float32:
        return None

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        exponent = builder.add(builder.bitcast(arguments[0], word), ir.Constant(word, 127))
        bits = builder.shl(exponent, ir.Constant(word, 23))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.float32), build


@njit(inline="always", fastmath={"contract"})
def exp(x):
    """`e^x` for `x` of at most 80."""
    x = max(x, LOWEST)
    shifted = np.float32(np.float32(x) * LOG2_E + SHIFT)
    n = shifted - SHIFT
    f = (x - n * LN2_HIGH) - n * LN2_LOW
    a, b, c, d, e, g, h, i = INVERSE_FACTORIALS
    power: Any = _power_of_two(shifted)  # numba adds the context
    return (((((((a * f + b) * f + c) * f + d) * f + e) * f + g) * f + h) * f + i) * power


@njit(inline="always", fastmath={"contract"})
def normal(x):
    """Return the share of a standard normal below `x`, and the density at `x`."""
    bell = exp(-HALF * x * x)
    t = ONE / (ONE + TAIL_SCALE * abs(x))
    a, b, c, d, e, f, g = TAIL
    tail = ((((((a * t + b) * t + c) * t + d) * t + e) * t + f) * t + g) * t * bell
    return (ONE - tail if x > 0 else tail), DENSITY * bell
