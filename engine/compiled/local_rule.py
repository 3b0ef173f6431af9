"""The local rule on whole batches: what every synapse adds to the gradient."""

import numpy as np

from engine.arrays import FloatArray, by_sample
from engine.compiled.products import TURNED, add_correlation, compare, new_edge, packed_size
from engine.compiled.registry import kernels_of
from engine.compiled.threads import portions, run_blocks
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT, ONE, Link
from engine.equilibrium import Clamped
from engine.model.params import Params


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
    total: Params,
    energy: float,
) -> None:
    """Add `energy (dE/dtheta(state) - dE/dtheta(opposite))` to `total`.

    With `d` the difference of the states and `m` their mean, a correlation that is linear in
    the state differs by that of `d`, and a product `a'b` by `d_a'm_b + m_a'd_b`: fewer products
    than two phases have, and no difference of large numbers.
    """
    network = params.network
    gap, middle = np.empty_like(state), np.empty_like(state)
    compare(state, opposite, state.dtype.type(-energy), gap, middle)  # E = G - Phi

    def add(share: list[int]) -> None:
        for coupling in (network.couplings[k] for k in share):
            block, link = total[coupling.name], network.links.get(coupling.name)
            if link is None:
                block -= energy * correlation(params, coupling, clamped.x, state)
                block += energy * correlation(params, coupling, clamped.x, opposite)
                continue
            d = by_sample(network.of(link.target, gap))
            if link.source == ONE:
                block += d.reshape(-1, link.fan_out).sum(0)
                continue
            if link.source == INPUT:
                _add_correlation(link, block, clamped.x, d)
                continue
            m, above = (by_sample(network.of(link.source, side)) for side in (middle, gap))
            if link.tied:
                product = np.zeros_like(block)
                _add_correlation(link, product, d, m)
                block += (product + product.T) / 2  # symmetric to the last bit
                continue
            _add_correlation(link, block, above, by_sample(network.of(link.target, middle)))
            _add_correlation(link, block, m, d)

    sizes = [network.blocks[coupling.name].size for coupling in network.couplings]
    run_blocks(add, portions([len(state) * size for size in sizes]))


def correlation(params: Params, coupling: Coupling, x: FloatArray, state: FloatArray) -> FloatArray:
    """Return dPhi/dw of a coupling, summed over samples: by its kernel, or by its formula."""
    network, w = params.network, params[coupling.name]
    ends = network.ends(coupling, state)
    kernels = None if coupling.name in network.links else kernels_of(coupling)
    if kernels is None:
        found: FloatArray = coupling.correlate(w, x, *ends)
        return found
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


def _add_correlation(link: Link, total: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Add `sum_p a[gather[p]]' b[p]`, summed over the samples, to `total` in place."""
    if not link.whole:
        a, b = link.windows(a).reshape(-1, link.fan_in), b.reshape(-1, link.fan_out)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    packed = np.empty(packed_size(b.shape, b.itemsize), b.dtype)
    turned = np.empty((TURNED, len(a)), a.dtype)
    add_correlation(a, b, total.reshape(-1), packed, turned, new_edge(a.dtype))
