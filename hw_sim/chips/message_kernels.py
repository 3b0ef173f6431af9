"""Where the words of a message lie: what a position reads, and what it adds to."""

from hw_sim.chips.kernel_arguments import COLUMNS, TARGET, WRITES
from hw_sim.chips.kernel_compiler import kernel


@kernel
def unit_at(first, gather, start, at):
    """Return the unit `at` places after `first`, or that `gather` lists there; -1 is none."""
    if start < 0:
        return first + at
    unit = gather[start + at]
    return first + unit if unit >= 0 else -1


@kernel
def targets_of(messages, m, p):
    """Return where a position begins: its first total, and its place in `gather` or -1."""
    first, writes = messages.table[m, TARGET], messages.table[m, WRITES]
    shift = p * messages.table[m, COLUMNS]
    return (first + shift, -1) if writes < 0 else (first, writes + shift)
