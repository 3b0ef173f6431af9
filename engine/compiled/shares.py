"""What a core does of a job (`engine.compiled.jobs`): its share of a lesson, or of a relaxation.

In a lesson cores share the rows of the matrices that are packed, then those of the batch, then
those of every matrix of the gradient, and at last the bands in which a tied one is made symmetric.
"""

from typing import Any, NamedTuple

from engine.compiled.addresses import call
from engine.compiled.compiler import inner
from engine.compiled.jobs import take
from engine.compiled.parts import part
from engine.compiled.passage import (
    ANCHOR,
    PACK,
    RELAX,
    STEP,
    begin_rows,
    correlate_rows,
    relax_rows,
)
from engine.compiled.products import symmetrise

PACKING, RELAXING, CORRELATING, MIRRORING = range(4)


class Seat(NamedTuple):
    """The rows of a core, and room for what it computes."""

    first: Any
    stop: Any
    work: Any
    packed: Any
    turned: Any
    edge: Any


class Seats(NamedTuple):
    """The seats of all cores."""

    places: Any
    """Where they lie (`engine.compiled.jobs`), one for each core."""
    like: Any
    """One of them, whose type all have."""
    finite: Any
    """Whether the states of a core's rows are all finite, `(cores,)`."""


class Rows(NamedTuple):
    """The rows of a core, and its buffers for them."""

    first: Any
    stop: Any
    work: Any


class Packs(NamedTuple):
    """Tables of the matrices that are packed (`engine.compiled.packing`), and their multiples."""

    matrices: Any
    scales: Any
    sources: Any
    """Those of the input."""
    ones: Any


@inner
def teach(stage, core, ways, net, packs, matter, desk, courses, is_told, learns, gradient, seats):
    """Do the share of a core in a stage of a lesson."""
    cores, seat = len(seats.places), take(seats.places, core, seats.like)
    if stage == PACKING:
        into = (net.packed, core, cores)
        call(ways[PACK], net.theta, packs.matrices, packs.scales, *into)
        into = (matter.inputs, core, cores)
        call(ways[PACK], net.theta, packs.sources, packs.ones, *into)
    elif stage == RELAXING:
        told = (ways, net, matter, desk, courses[0], courses[1], is_told)
        seats.finite[core] = relax_rows(*told, seat.first, seat.stop, seat.work)
    elif not _all(seats.finite):
        return
    elif stage == CORRELATING:
        batches = (desk.gaps, desk.middles, courses[0].ended.state, matter.x, desk.errors)
        room = (seat.packed, seat.turned, seat.edge)
        correlate_rows(net.calls, learns, batches, gradient, core, cores, *room)
    else:
        for k in range(len(learns.tied)):
            units = learns.tied[k, 1]
            block = part(gradient, learns.tied[k, 0], units * units)
            symmetrise(block.reshape((units, units)), core, cores)


@inner
def _all(flags):
    """Whether all flags are set."""
    fine = True
    for k in range(len(flags)):
        fine &= flags[k]
    return fine


@inner
def relax(stage, core, ways, net, course, start, drive, late, is_told, seats, like):
    """Take the rows of a core through a stage, from `start` on, which is written if none `is_told`.

    A displacement has the known recurrent drive of where it starts, and its anchor is written.
    """
    seat, held = take(seats, core, like), course.stage
    first, stop, work = seat.first, seat.stop, seat.work
    if not is_told:
        begin_rows(net.calls, net.layers, late, drive, start, first, stop, work.drive)
    if len(held.origin) > 0:
        known = (held.known, net.compliance)
        call(ways[ANCHOR], net.layers, drive, *known, first, stop, held.clamped)
    told = (course.damping, course.tolerance, course.max_steps, course.ended)
    call(ways[RELAX], ways[STEP], net, held, start, first, work, *told)
