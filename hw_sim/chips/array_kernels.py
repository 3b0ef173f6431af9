"""Compiled reads of crossbar arrays: currents, their noise, and the converters behind them."""

import math

from hw_sim.chips.kernel_arguments import (
    BLOCK,
    COLUMNS,
    DRIVEN,
    JOINED,
    PLACE,
    POSITIONS,
    READS,
    ROWS,
    SOURCE,
    WRITES,
)
from hw_sim.chips.kernel_compiler import kernel
from hw_sim.chips.message_kernels import targets_of, unit_at
from hw_sim.chips.real_kernels import add_row
from hw_sim.events import ADDITION, CELL_READ, CONVERSION, STATE_READ


@kernel
def converted(value, step, limit):
    """Clip to `limit` and round to a multiple of `step`; a step of 0 changes nothing."""
    if step == 0.0:
        return value
    return step * math.floor(min(max(value, -limit), limit) / step + 0.5)


@kernel
def heard(current, power, step, limit, rng):
    """Return a current with noise of the variance `power`, behind its converter."""
    if power != 0.0:
        current = current + math.sqrt(power) * rng.standard_normal()
    return converted(current, step, limit)


@kernel
def silence(power):
    """Begin to add up noise, `(1, totals)`."""
    for u in range(power.shape[1]):
        power[0, u] = 0.0


@kernel
def joins(messages, arrays, m):
    """Whether the currents of an array join those of others before the converter of a unit.

    Not where a total hears several reads of it, and not where the rows of a column lie on several
    tiles: then each of these currents is converted.
    """
    apart = messages.table[m, WRITES] >= 0 and messages.table[m, POSITIONS] > 1
    return not apart and messages.table[m, ROWS] <= arrays.tiles[m, JOINED]


@kernel
def hears_joined(messages, arrays, place):
    """Whether the units of a place have a converter for currents that join."""
    for m in range(messages.table.shape[0]):
        if messages.table[m, PLACE] == place and joins(messages, arrays, m):
            return True
    return False


@kernel
def read_array(source, n, totals, k, messages, m, arrays, stored, converted, tally):
    """Add the currents of an array to `totals[k]`: one read of all its cells at each position.

    What drives it is `stored` in words, `converted` to a voltage, or both. The variance of what
    each cell adds goes to `arrays.power`.
    """
    place, rows = messages.table[m, PLACE], messages.table[m, ROWS]
    columns, block = messages.table[m, COLUMNS], messages.table[m, BLOCK]
    first, reads = messages.table[m, SOURCE], messages.table[m, READS]
    for p in range(messages.table[m, POSITIONS]):
        to, writes = targets_of(messages, m, p)
        driven = 0
        for r in range(rows):
            i = unit_at(first, messages.gather, reads, p * rows + r)
            if i >= 0:
                weight, word = block + r * columns, source[n, i]
                add_row(totals, k, word, messages, weight, columns, to, writes)
                if arrays.is_noisy:
                    loud = arrays.loud
                    add_row(arrays.power, 0, word * word, loud, weight, columns, to, writes)
                driven += 1
        tally[place, STATE_READ] += driven * stored
        tally[place, CONVERSION] += driven * converted * arrays.tiles[m, DRIVEN]
        tally[place, CELL_READ] += 2 * rows * columns


@kernel
def read_tiles(source, n, totals, k, messages, m, arrays, step, limit, stored, rng, tally):
    """Convert the currents of each tile at each position, and add them to `totals[k]` as words."""
    place, rows = messages.table[m, PLACE], messages.table[m, ROWS]
    columns, block = messages.table[m, COLUMNS], messages.table[m, BLOCK]
    first, reads = messages.table[m, SOURCE], messages.table[m, READS]
    height = arrays.tiles[m, JOINED]
    for p in range(messages.table[m, POSITIONS]):
        to, writes = targets_of(messages, m, p)
        driven = 0
        for top in range(0, rows, height):
            for c in range(columns):
                arrays.partial[0, c] = 0.0
                arrays.power[0, c] = 0.0
            for r in range(top, min(top + height, rows)):
                i = unit_at(first, messages.gather, reads, p * rows + r)
                if i >= 0:
                    weight, word = block + r * columns, source[n, i]
                    add_row(arrays.partial, 0, word, messages, weight, columns, 0, -1)
                    if arrays.is_noisy:
                        loud = arrays.loud
                        add_row(arrays.power, 0, word * word, loud, weight, columns, 0, -1)
                    driven += 1
            for c in range(columns):
                unit = unit_at(to, messages.gather, writes, c)
                if unit >= 0:
                    word = heard(arrays.partial[0, c], arrays.power[0, c], step, limit, rng)
                    totals[k, unit] = totals[k, unit] + word
                    tally[place, CONVERSION] += 1
                    tally[place, ADDITION] += top > 0
        tally[place, STATE_READ] += driven * stored
        tally[place, CONVERSION] += driven * arrays.tiles[m, DRIVEN]
        tally[place, CELL_READ] += 2 * rows * columns
