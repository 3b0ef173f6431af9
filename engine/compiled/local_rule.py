"""The local rule on whole batches: what every synapse adds to the gradient."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from engine.arrays import FloatArray, by_sample
from engine.compiled.products import TURNED, add_correlation, compare, new_edge, packed_size
from engine.compiled.registry import kernels_of
from engine.compiled.threads import portions, run_blocks
from engine.compiled.windows import End, add_windows
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT, ONE, Link
from engine.equilibrium import Clamped
from engine.model.network import Network
from engine.model.params import Params

PARTS, PART_WORK = 8, 2**24
"""Parts of a batch that are summed apart, at most, and the multiply-adds that each has at least.

Neither asks how many cores there are: the bits of a sum do not depend on them.
"""


class _Task(NamedTuple):
    """Something to do on one core, and its multiply-adds."""

    work: int
    do: Callable[[], None]


class _Sum(NamedTuple):
    """A sum over places that is taken in `parts (parts, fan_out, fan_in)`, each by a task."""

    tasks: list[_Task]
    parts: FloatArray

    def total(self) -> FloatArray:
        """Add the parts up, in their order."""
        total: FloatArray = self.parts.sum(0).T
        return total


def add_energy(
    params: Params, clamped: Clamped, state: FloatArray, total: Params, energy: float
) -> None:
    """Add `energy dE/dtheta` of all couplings to `total`."""
    for coupling in params.network.couplings:
        block = total[coupling.name]
        block -= energy * correlation(params, coupling, clamped.x, state)  # E = G - Phi


def add_energy_difference(
    params: Params,
    clamped: Clamped,
    state: FloatArray,
    opposite: FloatArray,
    between: FloatArray | None,
    total: Params,
    energy: float,
) -> None:
    """Add `energy (dE/dtheta(state) - dE/dtheta(opposite))` to `total`.

    With `d` the difference of the states and `m` their mean, a correlation that is linear in
    the state differs by that of `d`, and a product `a'b` by `d_a'm_b + m_a'd_b`: fewer products
    than two phases have, and no difference of large numbers. Where it is known better than from the
    states, `d` is given as `between`.
    """
    network, x, scale = params.network, clamped.x, state.dtype.type(-energy)  # E = G - Phi
    gap, middle = np.empty_like(state), np.empty_like(state)
    compare(state, opposite, scale, gap, middle)
    if between is not None:
        np.multiply(between, scale, out=gap)

    def add_formula(coupling: Coupling) -> None:
        block, bound = total[coupling.name], network.bounds.get(coupling.name)
        squares = network.squares.get(coupling.name)
        if squares is not None:
            gaps, middles = (network.ends(coupling, side) for side in (gap, middle))
            block += squares.compare(x, tuple(gaps), tuple(middles))
        elif coupling.clamped:
            block += correlation(params, coupling, x, gap)
        elif bound is not None and bound.bilinear:
            for moved in coupling.layers:
                ends, columns = middle.copy(), network.columns[moved]
                ends[:, columns] = gap[:, columns]
                block += correlation(params, coupling, x, ends)
        else:
            block -= energy * correlation(params, coupling, x, state)
            block += energy * correlation(params, coupling, x, opposite)

    tasks, sums = [], {}
    for coupling in network.couplings:
        name, link = coupling.name, network.links.get(coupling.name)
        if link is not None and _has_windows(link):
            sides = [(gap, gap)] if link.source == INPUT else [(gap, middle), (middle, gap)]
            sums[name] = _window_sum(network, link, x, sides)
            tasks += sums[name].tasks
            continue
        add = partial(add_formula, coupling)
        if link is not None:
            add = partial(_add_difference, network, link, total[name], x, gap, middle)
        tasks.append(_Task(len(state) * network.blocks[name].size, add))
    _do_all(tasks)
    for name, found in sums.items():
        total[name][...] += found.total().reshape(total[name].shape)


def _add_difference(
    network: Network,
    link: Link,
    block: FloatArray,
    x: FloatArray,
    gap: FloatArray,
    middle: FloatArray,
) -> None:
    """Add what a matrix or a bias learns from the difference of two states and their mean."""
    d = by_sample(network.of(link.target, gap))
    if link.source == ONE:
        block += d.sum(0).reshape(-1, link.fan_out).sum(0)
        return
    if link.source == INPUT:
        _add_correlation(block, x, d)
        return
    m, above = (by_sample(network.of(link.source, side)) for side in (middle, gap))
    if link.tied:
        product = np.zeros_like(block)
        _add_correlation(product, d, m)
        block += (product + product.T) / 2  # symmetric to the last bit
        return
    _add_correlation(block, above, by_sample(network.of(link.target, middle)))
    _add_correlation(block, m, d)


def correlation(params: Params, coupling: Coupling, x: FloatArray, state: FloatArray) -> FloatArray:
    """Return dPhi/dw of a coupling, summed over samples: by its kernel, or by its formula."""
    network, w = params.network, params[coupling.name]
    ends, link = network.ends(coupling, state), network.links.get(coupling.name)
    kernels = kernels_of(coupling) if link is None else None
    if link is not None and _has_windows(link):
        found = _window_sum(network, link, x, [(state, state)])
        _do_all(found.tasks)
        return found.total().reshape(w.shape)
    if kernels is None:
        formula: FloatArray = coupling.correlate(w, x, *ends)
        return formula
    rows, total = len(state), np.zeros_like(w)
    edges = np.cumsum([0, *(rows * network.sizes[name] for name in coupling.layers)])
    sizes, constants = kernels.told(coupling, network.shapes, w)
    room = kernels.scratch(tuple(sizes.tolist()), rows, w.itemsize)
    kernels.correlate(
        np.concatenate([end.reshape(-1) for end in ends]),
        edges[:-1],
        rows,
        sizes,
        constants,
        np.empty(room, w.dtype),
        total.reshape(-1),
    )
    return total


def _has_windows(link: Link) -> bool:
    """Whether its places read something of their own: neither a plain matrix nor a bias."""
    return not link.whole and link.source != ONE


def _window_sum(
    network: Network, link: Link, x: FloatArray, sides: list[tuple[FloatArray, FloatArray]]
) -> _Sum:
    """Sum `b[p] a[gather[p]]'` over samples, places and the `sides`: states of source and target.

    Tasks of some samples each let a link that has most of the work use all cores.
    """
    samples = len(x)
    pairs = [(_end(network, link.source, x, a), _end(network, link.target, x, b)) for a, b in sides]
    work = samples * link.macs * len(pairs)
    count = max(1, min(samples, PARTS, work // PART_WORK))
    parts = np.zeros((count, link.fan_out, link.fan_in), x.dtype)

    def add(rows: slice, into: FloatArray) -> None:
        for source, target in pairs:
            add_windows(link, source, target, rows, into)

    edges = pairwise(samples * k // count for k in range(count + 1))
    spans = zip(edges, parts, strict=True)
    tasks = [_Task(work // count, partial(add, slice(*ends), part)) for ends, part in spans]
    return _Sum(tasks, parts)


def _end(network: Network, layer: str, x: FloatArray, state: FloatArray) -> End:
    """Return where the samples of a layer, or of the input, lie."""
    if layer == INPUT:
        return End(np.ascontiguousarray(x).reshape(-1), 0, x.shape[1])
    return End(np.ascontiguousarray(state).reshape(-1), network.columns[layer].start, network.units)


def _do_all(tasks: list[_Task]) -> None:
    """Do tasks that need nothing of each other on all cores that gain."""

    def work(share: list[int]) -> None:
        for k in share:
            tasks[k].do()

    run_blocks(work, portions([task.work for task in tasks]))


def _add_correlation(total: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Add `a' b`, summed over the samples, to `total` in place."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    packed = np.empty(packed_size(b.shape, b.itemsize), b.dtype)
    turned = np.empty((TURNED, len(a)), a.dtype)
    add_correlation(a, b, total.reshape(-1), packed, turned, new_edge(a.dtype))
