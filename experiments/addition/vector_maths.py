"""Functions that a compiler turns into vector instructions: `exp` and the normal distribution.

Library calls would keep every loop they stand in scalar. These are branch-free polynomials, with a
relative error below 1e-7 of float32.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

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
HALF, ONE = np.float32(0.5), np.float32(1.0)


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
    return (((((((a * f + b) * f + c) * f + d) * f + e) * f + g) * f + h) * f + i) * _power_of_two(
        shifted
    )


@njit(inline="always", fastmath={"contract"})
def normal(x):
    """Return the share of a standard normal below `x`, and the density at `x`."""
    bell = exp(-HALF * x * x)
    t = ONE / (ONE + TAIL_SCALE * abs(x))
    a, b, c, d, e, f, g = TAIL
    tail = ((((((a * t + b) * t + c) * t + d) * t + e) * t + f) * t + g) * t * bell
    return (ONE - tail if x > 0 else tail), DENSITY * bell
