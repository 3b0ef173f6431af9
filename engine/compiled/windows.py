"""Windows: what the places of a link read, copied and added by runs of units side by side.

A window of an image `(height, width, channels)` is a few stretches of the image, with zeros beside
them at an edge. The runs of a link list them place by place, each as `(TO, FROM, LENGTH)`: so many
numbers of the window from `TO` on are the units of the source from `FROM` on, or zeros if that is
negative. Any gather is such a list: one without order has runs of one unit.

The places of all samples are counted through and taken a handful at a time (`at_once`), so that
their windows stay in the second cache. What a sample gets does not depend on those beside it: it
sums over its places in their order.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray
from engine.compiled.compiler import compiled
from engine.compiled.products import PASS, TILE_ROWS, add_product, new_edge, pack, packed_size
from engine.couplings.link import Link

Way = Callable[[FloatArray], FloatArray]
TO, FROM, LENGTH = range(3)
WINDOW_BYTES = 2**18
"""What the windows of a handful of places may take, to stay in the second cache."""


class Windows(NamedTuple):
    """What the places of a link read, and what it joins."""

    runs: Any
    """`(runs, 3)`, those of one place after those of the other."""
    places: Any
    """The first run of each place, and after them the end of the last one."""
    size: int
    """Units of the source."""
    fan_in: int
    fan_out: int


class End(NamedTuple):
    """An end of a link in a flat array: sample `i` begins at `start + i step`."""

    values: Any
    start: int
    step: int


@lru_cache(maxsize=64)
def windows_of(link: Link) -> Windows:
    """Find the runs in what the places of a link read."""
    gather = link.gather
    here, beside = gather[:, :-1], gather[:, 1:]
    # Unit 0 is one more than -1, yet no part of a run of zeros.
    joined = np.where(here < 0, beside < 0, (beside == here + 1))
    begins = np.concatenate([np.ones((len(gather), 1), np.bool_), ~joined], 1)
    first = np.flatnonzero(begins)
    lengths = np.diff(first, append=gather.size)
    runs = np.stack([first % link.fan_in, gather.ravel()[first], lengths], 1)
    places = np.cumsum(np.r_[0, begins.sum(1)])
    return Windows(runs, places, link.size, link.fan_in, link.fan_out)


@compiled
def at_once(fan_in, itemsize):
    """Return how many places are read at a time: whole tiles of rows."""
    fitting = min(PASS, WINDOW_BYTES // (fan_in * itemsize))
    return max(1, fitting // TILE_ROWS) * TILE_ROWS


def new_windows(fan_in: int, dtype: npt.DTypeLike) -> FloatArray:
    """Return room for the windows of the places that are read at a time."""
    return np.empty(at_once(fan_in, np.dtype(dtype).itemsize) * fan_in, dtype)


@compiled
def _gather(source, first, count, link, windows):
    """Write the windows of `count` places from `first` on, `(count, fan_in)`."""
    positions = len(link.places) - 1
    sample, place = divmod(first, positions)
    base = source.start + sample * source.step
    for k in range(count):
        window = windows[k * link.fan_in : (k + 1) * link.fan_in]
        for r in range(link.places[place], link.places[place + 1]):
            to, from_ = link.runs[r, TO], link.runs[r, FROM]
            into = window[to : to + link.runs[r, LENGTH]]
            if from_ < 0:
                for j in range(into.size):
                    into[j] = 0
            else:
                units = source.values[base + from_ : base + from_ + into.size]
                for j in range(into.size):
                    into[j] = units[j]
        place += 1
        if place == positions:
            place, base = 0, base + source.step


@compiled
def _scatter(windows, first, count, link, source):
    """Add the windows of `count` places from `first` on to the units that they are read from."""
    positions = len(link.places) - 1
    sample, place = divmod(first, positions)
    base = sample * link.size
    for k in range(count):
        window = windows[k * link.fan_in : (k + 1) * link.fan_in]
        for r in range(link.places[place], link.places[place + 1]):
            to, from_ = link.runs[r, TO], link.runs[r, FROM]
            if from_ >= 0:
                part = window[to : to + link.runs[r, LENGTH]]
                units = source[base + from_ : base + from_ + part.size]
                for j in range(part.size):
                    units[j] += part[j]
        place += 1
        if place == positions:
            place, base = 0, base + link.size


@compiled
def send_on(source, samples, link, packed, target, windows, edge):
    """Add what the places send to the target, from a flat source `(samples, size)`."""
    total, step = samples * (len(link.places) - 1), at_once(link.fan_in, source.itemsize)
    fan_in, fan_out = link.fan_in, link.fan_out
    for first in range(0, total, step):
        count = min(step, total - first)
        _gather(End(source, 0, link.size), first, count, link, windows)
        # The units of a place lie side by side in the target: its rows are those of the places.
        into = target[first * fan_out :]
        add_product(windows, count, fan_in, packed, into, fan_out, fan_out, edge)


@compiled
def send_back(target, samples, link, packed, source, windows, edge):
    """Add what the places send to a flat source `(samples, size)`; `packed` holds the turned block.

    A unit sums what comes from its places in their order, whatever the other samples are.
    """
    total, step = samples * (len(link.places) - 1), at_once(link.fan_in, target.itemsize)
    fan_in, fan_out = link.fan_in, link.fan_out
    for first in range(0, total, step):
        count = min(step, total - first)
        windows[: count * fan_in] = 0
        sent = target[first * fan_out :]
        add_product(sent, count, fan_out, packed, windows, fan_in, fan_in, edge)
        _scatter(windows, first, count, link, source)


@compiled
def _turn(target, first, count, link, turned):
    """Write the targets of `count` places from `first` on as columns, `(fan_out, count)`."""
    positions, fan_out = len(link.places) - 1, link.fan_out
    sample, place = divmod(first, positions)
    for k in range(count):
        from_ = target.start + sample * target.step + place * fan_out
        units = target.values[from_ : from_ + fan_out]
        for c in range(fan_out):
            turned[c * count + k] = units[c]
        place += 1
        if place == positions:
            place, sample = 0, sample + 1


@compiled
def _correlate(source, target, begin, end, link, windows, packed, turned, edge, into):
    """Add `sum_p b[p] a[gather[p]]'` of the samples to a flat `into (fan_out, fan_in)`."""
    positions, fan_in = len(link.places) - 1, link.fan_in
    last, step = end * positions, at_once(fan_in, windows.itemsize)
    for first in range(begin * positions, last, step):
        count = min(step, last - first)
        _gather(source, first, count, link, windows)
        pack(windows[: count * fan_in].reshape((count, fan_in)), packed)
        _turn(target, first, count, link, turned)
        add_product(turned, link.fan_out, count, packed, into, fan_in, fan_in, edge)


def send_input(link: Link, w: FloatArray, x: FloatArray) -> FloatArray:
    """Return what arrives at the target from `x (samples, size)`; `w` is the packed block."""
    arrived = np.zeros((len(x), link.positions * link.fan_out), x.dtype)
    room = new_windows(link.fan_in, x.dtype), new_edge(x.dtype)
    send_on(x.reshape(-1), len(x), windows_of(link), w, arrived.reshape(-1), *room)
    return arrived


def add_windows(link: Link, source: End, target: End, samples: slice, into: FloatArray) -> None:
    """Add `sum_p b[p] a[gather[p]]'` of some samples to `into (fan_out, fan_in)`."""
    dtype, windows = into.dtype, new_windows(link.fan_in, into.dtype)
    count = windows.size // link.fan_in
    packed = np.empty(packed_size((count, link.fan_in), into.itemsize), dtype)
    turned = np.empty(count * link.fan_out, dtype)
    rooms = windows, packed, turned, new_edge(dtype)
    ends, span = (source, target), (samples.start, samples.stop)
    _correlate(*ends, *span, windows_of(link), *rooms, into.reshape(-1))


def both_ways(link: Link, block: FloatArray) -> tuple[Way, Way]:
    """Return what a link sends on of a vector `(size,)`, and what it sends back, as functions.

    They take and give double; products are taken in the precision of the block.
    """
    matrix, tables, dtype = block.reshape(link.fan_in, link.fan_out), windows_of(link), block.dtype
    on, back = new_packed(matrix), new_packed(matrix.T)
    room = new_windows(link.fan_in, dtype), new_edge(dtype)

    def send(vector: FloatArray) -> FloatArray:
        arrived = np.zeros(link.positions * link.fan_out, dtype)
        send_on(vector.astype(dtype), 1, tables, on, arrived, *room)
        return arrived.astype(np.float64)

    def return_(vector: FloatArray) -> FloatArray:
        arrived = np.zeros(link.size, dtype)
        send_back(vector.astype(dtype), 1, tables, back, arrived, *room)
        return arrived.astype(np.float64)

    return send, return_


def new_packed(matrix: FloatArray) -> FloatArray:
    """Return a matrix as products read it."""
    packed = np.empty(packed_size(matrix.shape, matrix.itemsize), matrix.dtype)
    pack(matrix, packed)
    return packed
