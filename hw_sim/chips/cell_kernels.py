"""Compiled pulses of crossbar cells: how many each gets, and how far they move it."""

import math

import numpy as np

from hw_sim.chips.kernel_compiler import kernel

HALF = np.uint64(32)
"""Bits of a random word that round the pulses of one cell of a pair."""
CHUNK = 4096
"""Pairs that are looked through at once: what is found in them stays in the cache."""


@kernel
def round_pulses(update, words, first, cells, pulses, rng, strengths):
    """Give the pairs from `first` on the whole pulses that `update` asks for, about.

    Return how many there were. `words (pairs,)` round: one half of each the pulses of one cell.
    Where `strengths (2, pairs)` is not empty, cells stay where they are, and their pulses with gain
    and sign are written there.
    """
    given, per_weight = 0, pulses.whole / pulses.span
    busy, pairs = np.empty(CHUNK, np.uint8), np.empty(CHUNK + 1, np.int64)
    listed, moving = np.empty((3, 2 * CHUNK + 1), np.int64), np.empty((2, 2 * CHUNK))
    for start in range(0, update.shape[0], CHUNK):
        stop = min(start + CHUNK, update.shape[0])
        found = _list_pulses(update, words, per_weight, start, stop, busy, pairs, listed)
        given += _give_pulses(found, listed, first, cells, pulses, rng, moving, strengths)
    return given


@kernel
def _list_pulses(update, words, per_weight, start, stop, busy, pairs, listed):
    """List the cells of the pairs from `start` to `stop` that get pulses; return how many.

    `listed (3, cells + 1)` says which of its pair a cell is, which pair that is, and how many
    pulses it gets, up or down. Few do, and none can tell which: the loops over all pairs have no
    branches.
    """
    for k in range(np.uint64(stop - start)):
        up, down = _asked(update, words, per_weight, np.uint64(start) + k)
        busy[k] = (up < 0.0) | (up >= 1.0) | (down < 0.0) | (down >= 1.0)
    some, found = np.int64(0), 0
    for k in range(stop - start):
        pairs[some] = start + k
        some += np.int64(busy[k])
    for k in pairs[:some]:
        asked = _asked(update, words, per_weight, k)
        for cell in range(2):
            count = math.floor(asked[cell])
            listed[0, found], listed[1, found], listed[2, found] = cell, k, count
            found += count != 0
    return found


@kernel
def _asked(update, words, per_weight, k):
    """Return the pulses that both cells of a pair are asked for, before they are rounded down."""
    asked = per_weight * update[k]
    up = asked + np.int64(words[k] & np.uint64(2**32 - 1)) * 2.0**-32
    return up, np.int64(words[k] >> HALF) * 2.0**-32 - asked


@kernel
def _give_pulses(found, listed, first, cells, pulses, rng, moving, strengths):
    """Give the listed cells their pulses; return how many they are.

    All of them are read, then moved, then written, with `moving (2, cells)` in between: so the
    memory looks for many at once.
    """
    given, level, strength = 0, moving[0], moving[1]
    for n in range(found):
        cell, at = listed[0, n], np.uint64(first + listed[1, n])
        level[n], strength[n] = cells.level[cell, at], cells.gain[cell, at]
    for n in range(found):
        strength[n] = _strength(listed[2, n], strength[n], pulses, rng)
        level[n] = _moved(level[n], strength[n] / pulses.whole, pulses)
    for n in range(found):
        cell, pair, number = listed[0, n], listed[1, n], abs(listed[2, n])
        if strengths.shape[1] > 0:
            strengths[cell, pair] = strength[n]
        else:
            cells.level[cell, np.uint64(first + pair)] = level[n]
        cells.writes[cell, np.uint64(first + pair)] += number
        given += number
    return given


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
