"""The compiled local rule, which all chips share: each synapse multiplies what its two ends are."""

from hw_sim.chips.kernel_compiler import kernel
from hw_sim.events import MAC, STATE_READ, TRACE_READ, TRACE_WRITE


@kernel
def correlate(gradient, source, target, gather, scale, first_row, last_row, tally):
    """Add `scale source_i target_j` of every sample and position to `gradient[i, j]`.

    `gather (positions, rows)` lists what each position reads of the source, and -1 is a word of
    zero; it meets the targets of its position. Rows before `first_row` and from `last_row` on are
    left to other calls; the one with the first row tallies the targets. `tally (kinds,)`.
    """
    columns = gradient.shape[1]
    for n in range(source.shape[0]):
        for p in range(gather.shape[0]):
            first = p * columns
            for i in range(first_row, last_row):
                if gather[p, i] >= 0:
                    value = scale * source[n, gather[p, i]]
                    for j in range(columns):
                        gradient[i, j] = gradient[i, j] + value * target[n, first + j]
                    tally[STATE_READ] += 1
                tally[MAC] += columns
                tally[TRACE_READ] += columns
                tally[TRACE_WRITE] += columns
            if first_row == 0:
                tally[STATE_READ] += columns


@kernel
def correlate_bias(gradient, target, gather, scale, tally):
    """Add `scale target_j` of every sample and position that has one to `gradient[j]`."""
    columns = gradient.shape[0]
    for n in range(target.shape[0]):
        for p in range(gather.shape[0]):
            if gather[p, 0] >= 0:
                for j in range(columns):
                    gradient[j] = gradient[j] + scale * target[n, p * columns + j]
                tally[TRACE_READ] += columns
                tally[TRACE_WRITE] += columns
                tally[STATE_READ] += columns
