"""Conductances once more, resistor by resistor: currents, and squares of voltage drops."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from engine.couplings.conductance import Conductance, InputConductance

Vector: TypeAlias = list[float]
Weights: TypeAlias = Any


def send(
    coupling: Conductance, w: Weights, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> tuple[Vector, ...]:
    """Currents that the ends would get from each other if they were at zero themselves."""
    below, above, gain = *ends, coupling.amplification
    to_below, to_above = [0.0] * len(below), [0.0] * len(above)
    for i, row in enumerate(w):
        for j, g in enumerate(row):
            to_above[j] += g * (gain * below[i])
            to_below[i] += gain * (g * above[j])
    return to_below, to_above


def correlate(
    coupling: Conductance, w: Weights, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> Vector:
    """Minus half the square of every voltage drop."""
    below, above = ends
    return [-((coupling.amplification * a - b) ** 2) / 2 for a in below for b in above]


def stiffness(coupling: Conductance, w: Weights) -> tuple[Vector, ...]:
    """All conductance that meets at a node; an amplifier shows its square to the node before it."""
    below = [coupling.amplification**2 * sum(row) for row in w]
    return below, [sum(row[j] for row in w) for j in range(len(w[0]))]


def send_input(
    coupling: InputConductance, w: Weights, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> tuple[Vector, ...]:
    """Currents from both sources of every pair into nodes at zero."""
    sent = [0.0] * len(w[0][0])
    for sign, rows in zip((1.0, -1.0), w, strict=True):
        for value, row in zip(x, rows, strict=True):
            for j, g in enumerate(row):
                sent[j] += g * (sign * coupling.amplification * value)
    return (sent,)


def correlate_input(
    coupling: InputConductance, w: Weights, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> Vector:
    """Minus half the square of every voltage drop: the positive sources, then the negative ones."""
    gain = coupling.amplification
    return [-((s - sign * gain * v) ** 2) / 2 for sign in (1.0, -1.0) for v in x for s in ends[0]]


def input_stiffness(coupling: InputConductance, w: Weights) -> tuple[Vector, ...]:
    """All conductance from sources that meets at a node."""
    rows = [row for side in w for row in side]
    return ([sum(row[j] for row in rows) for j in range(len(rows[0]))],)
