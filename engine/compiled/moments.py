"""Passes over all parameters: the moments of Adam, the least there is, and the update itself."""

import math

import numpy as np

from engine.compiled.compiler import compiled


@compiled
def adam(gradient, first, second, take1, take2, correction, rate, eps):
    """Move both moments by the shares `take` and write the update over `gradient`, in one pass.

    `correction` scales the second moment under its root.
    """
    for j in range(gradient.size):
        g = gradient[j]
        first[j] += take1 * (g - first[j])
        second[j] += take2 * (g * g - second[j])
        gradient[j] = rate * first[j] / (math.sqrt(second[j] * correction) + eps)


@compiled
def lift(held, update, least, above):
    """Change the update so that no sum with what is held falls below the least, in one pass.

    A difference is rounded, and so may end one step of its precision, towards `above`, too low.
    """
    for j in range(held.size):
        if held[j] + update[j] < least:
            up = least - held[j]
            update[j] = np.nextafter(up, above) if held[j] + up < least else up


@compiled
def add_finite(theta, update, largest):
    """Add the update if every sum is a number of at most `largest`, and say whether it is.

    It looks first, and writes nothing if one is not: two passes, without a copy of either.
    """
    lost = False
    for j in range(theta.size):
        lost |= not abs(theta[j] + update[j]) <= largest
    if lost:
        return False
    for j in range(theta.size):
        theta[j] += update[j]
    return True
