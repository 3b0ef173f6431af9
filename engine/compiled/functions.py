"""Elementary functions: tanh, exponentials, activations, softmaxes."""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from engine.compiled.compiler import PLAIN, compiled, inner
from engine.compiled.parts import copy, part, part_of_row
from engine.compiled.program import (
    ACTIVATION,
    HARD_SIGMOID,
    LINEAR,
    MIRRORED_RELU,
    OFFSET,
    RELU,
    SIZE,
    TANH,
)

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


# In double precision tanh z = y / (y + 2) with y = exp 2z - 1 = 2^n q + (2^n - 1), where 2z =
# n ln 2 + r and q = exp r - 1 is a series in r, whose relative error is below rounding: r <= 0.35.
# There is no branch, so that it vectorises, and nothing cancels: z is positive.
_SATURATES, _LOG2E_DOUBLE = 20.0, 1.0 / math.log(2.0)
_LN2_TOP, _LN2_REST = 0.693147180369123816, 1.90821492927058770e-10  # the top has 32 bits
_SHIFTER = 1.5 * 2.0**52
"""A number is rounded to a whole one by adding this: its last bits then are that number."""
_S2, _S3, _S4, _S5, _S6, _S7, _S8, _S9, _S10, _S11, _S12, _S13 = (
    1.0 / math.factorial(k) for k in range(2, 14)
)


@intrinsic
def _power_by_bits(_, shifted):
    """Return 2^n in double precision from `n + _SHIFTER`."""

    def generate(context, builder, signature, arguments):
        word = context.get_value_type(types.int64)
        whole = builder.bitcast(arguments[0], word)
        exponent = builder.add(whole, word(1023))  # what lies above is shifted out
        bits = builder.shl(exponent, word(52))
        return builder.bitcast(bits, context.get_value_type(types.float64))

    return types.float64(types.float64), generate


def _power_plainly(shifted):
    """Do the same without the compiler."""
    return 2.0 ** (shifted - _SHIFTER)


_power_of_two = _power_plainly if PLAIN else _power_by_bits


def _exponential_tanh(x: Any) -> Any:
    z = abs(x)
    z = _SATURATES if z > _SATURATES else z  # false for NaN, which so passes through
    shifted = 2.0 * z * _LOG2E_DOUBLE + _SHIFTER
    n = shifted - _SHIFTER
    r = 2.0 * z - n * _LN2_TOP - n * _LN2_REST
    q = ((((_S13 * r + _S12) * r + _S11) * r + _S10) * r + _S9) * r + _S8
    q = ((((((q * r + _S7) * r + _S6) * r + _S5) * r + _S4) * r + _S3) * r + _S2) * r * r + r
    power = _power_of_two(shifted)
    y = power * q + (power - 1.0)
    t = y / (y + 2.0)
    return -t if x < 0.0 else t


def _tanh(x: Any) -> Any:
    """tanh in the precision of `x`; compiled code calls the overload below instead."""
    return _rational_tanh(x) if isinstance(x, np.float32) else _exponential_tanh(x)


@overload(_tanh)
def _tanh_of_type(x: Any) -> Any:
    return _rational_tanh if x == types.float32 else _exponential_tanh


@compiled
def tanh(x, out):
    """Write tanh of the vector `x` to `out`, as the relaxation computes it."""
    for j in range(x.size):
        out[j] = _tanh(x[j])


# exp x = 2^n exp r with |r| <= ln 2 / 2, and a polynomial in r (Cephes, single precision).
_LOG2E, _LN2_HIGH, _LN2_LOW = (
    np.float32(c) for c in (1.44269504088896341, 0.693359375, -2.12194440e-4)
)
_E0, _E1, _E2, _E3, _E4, _E5 = (
    np.float32(c)
    for c in (
        5.0000001201e-1,
        1.6666665459e-1,
        4.1665795894e-2,
        8.3334519073e-3,
        1.3981999507e-3,
        1.9875691500e-4,
    )
)
_LOWEST, _EXPONENT_ONE, _EXPONENT_UNIT = np.float32(-87.0), np.float32(127.0), np.float32(2.0**23)
_HALF, _ZERO = np.float32(0.5), np.float32(0.0)


@intrinsic
def _from_bits(_, whole):
    """Return the single precision number whose bits are those of a whole number."""

    def generate(context, builder, signature, arguments):
        bits = builder.fptosi(arguments[0], context.get_value_type(types.int32))
        return builder.bitcast(bits, context.get_value_type(types.float32))

    return types.float32(types.float32), generate


def _plainly_from_bits(whole):
    """Do the same without the compiler, which says nothing of what is not a number."""
    with np.errstate(invalid="ignore"):
        return np.int32(whole).view(np.float32)


_power = _plainly_from_bits if PLAIN else _from_bits


@compiled
def exponentials(x):
    """Replace the vector `x`, at most zero, by its exponentials.

    In single precision it is a polynomial that vectorises; below -87 the result is zero.
    """
    if x.itemsize == 8:
        for j in range(x.size):
            x[j] = math.exp(x[j])
        return
    for j in range(x.size):
        vanishes = x[j] < _LOWEST
        h = _LOWEST if vanishes else x[j]
        n = np.floor(h * _LOG2E + _HALF)
        r = h - n * _LN2_HIGH - n * _LN2_LOW
        p = ((((_E5 * r + _E4) * r + _E3) * r + _E2) * r + _E1) * r + _E0
        bits = _ZERO if vanishes else (n + _EXPONENT_ONE) * _EXPONENT_UNIT
        x[j] = (p * r * r + r + _ONE) * _power(bits)


@compiled
def softmax_rows(scores):
    """Turn each row of `scores (rows, columns)` into shares."""
    for row in scores:
        peak = row[0]
        for j in range(1, row.size):
            if not row[j] <= peak:  # a NaN becomes the peak, and then the whole row
                peak = row[j]
        for j in range(row.size):
            row[j] -= peak
    exponentials(scores.reshape(scores.size))
    for row in scores:
        total = row[0]
        for j in range(1, row.size):
            total += row[j]
        for j in range(row.size):
            row[j] /= total


@compiled
def softmax_columns(scores, peak):
    """Turn `scores (places, rows)` into shares over the places; `peak (rows,)` is scratch."""
    places, rows = scores.shape
    copy(scores[0], peak)
    for j in range(1, places):
        for b in range(rows):
            peak[b] = peak[b] if scores[j, b] <= peak[b] else scores[j, b]
    for j in range(places):
        for b in range(rows):
            scores[j, b] -= peak[b]
    exponentials(scores.reshape(scores.size))
    total = peak
    copy(scores[0], total)
    for j in range(1, places):
        for b in range(rows):
            total[b] += scores[j, b]
    for j in range(places):
        for b in range(rows):
            scores[j, b] /= total[b]


@inner
def bend(activation, drive, clamped, out):
    """Write the activation of the whole drive, recurrent and clamped, to `out`."""
    if activation == TANH:
        for j in range(out.size):
            out[j] = _tanh(drive[j] + clamped[j])
    elif activation == HARD_SIGMOID:
        for j in range(out.size):
            h = drive[j] + clamped[j]
            out[j] = 0.0 if h < 0.0 else (1.0 if h > 1.0 else h)
    elif activation == RELU:
        for j in range(out.size):
            h = drive[j] + clamped[j]
            out[j] = 0.0 if h < 0.0 else h
    elif activation == MIRRORED_RELU:
        for j in range(out.size):
            h = drive[j] + clamped[j]
            out[j] = 0.0 if h > 0.0 else h
    else:
        for j in range(out.size):
            out[j] = drive[j] + clamped[j]


@inner
def bend_further(activation, drive, anchor, out):
    """Write `sigma(h + e) - sigma(h)` to `out`, for the drive `e` that comes on top of `h`.

    `anchor` is what `find_anchor` made of `h`. No two numbers of the size of a state are
    subtracted: however small `e` is, its relative error is that of a few roundings (the formulas
    are those of `engine.model.activation`).
    """
    if activation == TANH:
        for j in range(out.size):
            a, t = anchor[j], _tanh(drive[j])
            out[j] = t * ((1 - a) * (1 + a)) / (1 + a * t)
    elif activation == HARD_SIGMOID:
        for j in range(out.size):
            h, e = anchor[j], drive[j]
            if h <= 0.0:
                out[j] = min(max(h + e, 0.0), 1.0)
            elif h >= 1.0:
                out[j] = min(max((h - 1.0) + e, -1.0), 0.0)
            else:
                out[j] = min(max(e, -h), 1.0 - h)
    elif activation == LINEAR:
        copy(drive, out)
    else:  # relu, as it is or seen in a mirror
        side = out.dtype.type(-1.0 if activation == MIRRORED_RELU else 1.0)
        for j in range(out.size):
            h, e = side * anchor[j], side * drive[j]
            if h > 0.0:
                moved = -h if e < -h else e
            else:
                moved = out.dtype.type(0) if h + e < 0.0 else h + e
            out[j] = side * moved


@compiled
def find_anchor(layers, clamped, drive, compliance, first, stop, anchor):
    """Write what displacements need of the whole drive `h` of samples `first` to `stop`.

    That is tanh h where the activation is that, `h` itself elsewhere: `(samples, units)`.
    """
    for i in range(first, stop):
        for k in range(len(layers)):
            offset, size = layers[k, OFFSET], layers[k, SIZE]
            held, sent = part_of_row(clamped, i, offset, size), part_of_row(drive, i, offset, size)
            out = part_of_row(anchor, i, offset, size)
            for j in range(size):
                h = sent[j] * compliance[offset + j] if len(compliance) > 0 else sent[j]
                h += held[j]
                out[j] = _tanh(h) if layers[k, ACTIVATION] == TANH else h


@compiled
def activate(layers, clamped, out):
    """Write the activation of the drive `clamped (samples, units)` to `out`."""
    out[:] = 0
    silent = out[
        len(out) - 1
    ]  # until its own turn: no loop is vectorised that reads what it writes
    for i in range(len(clamped)):
        for k in range(len(layers)):
            offset, size = layers[k, OFFSET], layers[k, SIZE]
            held, bent = part(clamped[i], offset, size), part(out[i], offset, size)
            bend(layers[k, ACTIVATION], part(silent, offset, size), held, bent)
