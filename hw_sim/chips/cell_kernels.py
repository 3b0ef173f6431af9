"""Compiled pulses of crossbar cells: how many each gets, and how far they move it."""

import math

import numpy as np

from hw_sim.chips.kernel_compiler import kernel

HALF = np.uint64(32)
"""Bits of a random word that round the pulses of one cell of a pair."""


@kernel
def round_pulses(update, words, first, cells, pulses, rng, strengths):
    """Give the pairs from `first` on the whole pulses that `update` asks for, about.

    Return how many there were. `words (pairs,)` round: one half of each the pulses of one cell.
    Where `strengths (2, pairs)` is not empty, cells stay where they are, and their pulses with gain
    and sign are written there.
    """
    given, per_weight = 0, pulses.whole / pulses.span
    for k in range(np.uint64(update.shape[0])):
        asked = per_weight * update[k]
        up = asked + np.int64(words[k] & np.uint64(2**32 - 1)) * 2.0**-32
        down = np.int64(words[k] >> HALF) * 2.0**-32 - asked
        if 0.0 <= up < 1.0 and 0.0 <= down < 1.0:
            continue  # most pairs are left alone
        given += _pulse(math.floor(up), 0, k, first, cells, pulses, rng, strengths)
        given += _pulse(math.floor(down), 1, k, first, cells, pulses, rng, strengths)
    return given


@kernel
def _pulse(count, cell, k, first, cells, pulses, rng, strengths):
    """Give a cell so many pulses, up or down; return how many they are."""
    if count == 0:
        return 0
    at, number = np.uint64(first) + k, abs(count)
    cells.writes[cell, at] += number
    strength = _strength(count, cells.gain[cell, at], pulses, rng)
    if strengths.shape[1] > 0:
        strengths[cell, k] = strength
    else:
        cells.level[cell, at] = _moved(cells.level[cell, at], strength / pulses.whole, pulses)
    return number


@kernel
def move_cells(update, first, cells, pulses, rng):
    """Move the pairs from `first` on by one pulse of any strength; return how many there were."""
    given = 0
    for k in range(np.uint64(update.shape[0])):
        if update[k] != 0.0:
            at, asked = np.uint64(first) + k, update[k] / pulses.span
            for cell in range(2):
                strength = _strength(asked, cells.gain[cell, at], pulses, rng)
                cells.level[cell, at] = _moved(cells.level[cell, at], strength, pulses)
                cells.writes[cell, at] += 1
                asked = -asked
            given += 2
    return given


@kernel
def _strength(count, gain, pulses, rng):
    """Return pulses times the gain of their cell and of this cycle."""
    strength = count * gain
    if pulses.cycle > 0.0:
        strength *= 1.0 + pulses.cycle * rng.standard_normal()
    return strength


@kernel
def _moved(level, change, pulses):
    """Return where a pulse that asks for `change` moves a cell: weaker, the further it is along."""
    way = level if change > 0.0 else 1.0 - level
    lean = 1.0 + pulses.lean if change > 0.0 else 1.0 - pulses.lean
    bent = change * lean * math.exp(-pulses.curve * way)
    return min(max(level + bent, 0.0), 1.0)
