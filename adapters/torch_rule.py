"""What the parameters learn from settled states, on torch tensors."""

from functools import partial
from typing import Any

from adapters.torch_arrays import Blocks, torch
from adapters.torch_products import add_product, logits_of, product, softmax_of
from engine.arrays import Array, by_sample
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT
from engine.couplings.readout import Reading
from engine.model.network import Network

Tensor = torch.Tensor


def add_delta_rule(
    blocks: Blocks,
    reading: Reading,
    read: Tensor,
    y: Array,
    into: tuple[Tensor, Tensor],
    cost: float,
) -> Tensor:
    """Add what one softmax of all units learns; return the costs, of the same logits."""
    assert reading.link is not None
    logits = logits_of(read, blocks[reading.link.block], blocks[reading.bias])
    error = softmax_of(logits).sub_(y)
    add_product(into[0], read.T, error, cost)
    into[1].add_(error.sum(0), alpha=cost)
    if logits.T.is_contiguous():
        turned: Tensor = logits.T.logsumexp(0) - (y.T * logits.T).sum(0)
        return turned
    costs: Tensor = logits.logsumexp(-1) - (y * logits).sum(-1)
    return costs


def add_slope(
    network: Network,
    blocks: Blocks,
    coupling: Coupling,
    x: Tensor,
    states: tuple[Any, Any, Any],
    total: Tensor,
    factor: float,
) -> None:
    """Add `factor dPhi/dw` of a state, minus that of its opposite, to a block.

    `states` are the two and their gap, where that is known better. The product of the input is the
    largest of a step: it is added in place.
    """
    state, opposite, gap = states
    link = network.links.get(coupling.name)
    if opposite is None or link is None or link.source != INPUT or not link.whole:
        total.add_(_slope(network, blocks, coupling, x, *states), alpha=factor)
        return
    gap = state - opposite if gap is None else gap
    add_product(total, x.T, by_sample(network.of(link.target, gap)), factor)


def _slope(
    network: Network,
    blocks: Blocks,
    coupling: Coupling,
    x: Tensor,
    state: Tensor,
    opposite: Tensor | None,
    gap: Tensor | None,
) -> Array:
    """dPhi/dw of a state, minus that of its opposite.

    With `d` the difference of the states and `m` their mean, what is linear in the state
    differs by that of `d`, and a product `a'b` by `d_a'm_b + m_a'd_b`: fewer products than two
    phases have, and no difference of large numbers.
    """
    at = partial(coupling.correlate, blocks[coupling.name], x)
    ends = network.ends(coupling, state)
    if opposite is None:
        return at(*ends)
    others, link = network.ends(coupling, opposite), network.links.get(coupling.name)
    bound, squares = network.bounds.get(coupling.name), network.squares.get(coupling.name)
    bilinear = bound is not None and bound.bilinear
    if not coupling.clamped and not bilinear and squares is None:
        return at(*ends) - at(*others)
    gaps = network.ends(coupling, state - opposite if gap is None else gap)
    if coupling.clamped and squares is None:
        return at(*gaps)
    if link is not None and link.tied:
        found = product(by_sample(gaps[0]).T, by_sample(ends[0] + others[0]))
        turned = found.T.contiguous()  # to add it as it lies takes longer
        return turned.add_(found).mul_(0.25)  # symmetric to the last bit
    middles = [(end + other) / 2 for end, other in zip(ends, others, strict=True)]
    if squares is not None:
        return squares.compare(x, tuple(gaps), tuple(middles))
    return at(gaps[0], middles[1]) + at(middles[0], gaps[1])
