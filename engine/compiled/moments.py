"""The moments of Adam, in one pass over the parameters."""

import math

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
