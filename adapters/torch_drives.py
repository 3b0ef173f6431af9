"""What layers are sent, on torch tensors: drives of `engine.model.dynamics` in fewer passes."""

from collections.abc import Iterable

from adapters.torch_arrays import Blocks, torch
from adapters.torch_products import product
from engine.couplings.link import INPUT, ONE
from engine.model import dynamics
from engine.model.network import Network

Tensor = torch.Tensor


def clamped_drive(network: Network, blocks: Blocks, x: Tensor) -> Tensor:
    """Do what `dynamics.clamped_drive` does, with fewer passes."""
    if not is_dense(network, clamped=True):
        whole: Tensor = dynamics.clamped_drive(network, blocks, x)
        return whole
    sent = dict[str, Tensor]()
    links = [network.links[coupling.name] for coupling in network.couplings if coupling.clamped]
    for link in sorted(links, key=lambda link: link.source == ONE):  # a bias is added in place
        block, before = blocks[link.block], sent.get(link.target)
        if link.source == INPUT:
            arrived = product(x, block)
            sent[link.target] = arrived if before is None else before.add_(arrived)
        else:
            sent[link.target] = block.repeat(len(x), 1) if before is None else before.add_(block)
    for layer in network.layers:
        if layer.name not in sent:
            sent[layer.name] = x.new_zeros(len(x), layer.size)
    return side_by_side(sent[name] for name in network.columns)


def first_state(network: Network, drive: Tensor, solver: str) -> Tensor:
    """Do what `dynamics.begin` does; a layer that is alone is never late."""
    alone = len(network.layers) == 1
    begun: Tensor = (
        network.layers[0].rule.sigma(drive) if alone else dynamics.begin(network, drive, solver)
    )
    return begun


def sent_by(
    network: Network,
    blocks: Blocks,
    x: Tensor,
    layers: tuple[str, ...],
    still: bool,
    state: Tensor,
) -> dict[str, Tensor]:
    """Return what `layers` get of a state, or a displacement: for each an array of its own."""
    columns, sent = network.columns, dict[str, Tensor]()
    if not still and not is_dense(network):
        every = len(layers) == len(network.layers)
        found = dynamics.recurrent_drive(network, blocks, x, state, None if every else layers)
        own = found.clone() if len(columns) == 1 else found  # that of several was put together
        return {name: own[:, columns[name]] for name in layers}
    for coupling in () if still else network.recurrent:
        link = network.links[coupling.name]
        weight = blocks[link.block]
        ways = ((link.source, link.target, weight), (link.target, link.source, weight.T))
        for start, end, matrix in ways[:1] if link.tied else ways:
            if end in layers:
                arrived = product(state[:, columns[start]], matrix)
                sent[end] = sent[end].add_(arrived) if end in sent else arrived
    for name in layers:
        if name not in sent:
            sent[name] = torch.zeros_like(state[:, columns[name]])
    return {name: sent[name] for name in network.columns if name in sent}


def is_dense(network: Network, clamped: bool = False) -> bool:
    """Tell whether all that a state sends, or what is clamped, are products with matrices."""
    names = (coupling.name for coupling in network.couplings if coupling.clamped == clamped)
    links = (network.links.get(name) for name in names)
    return not network.squares and all(link is not None and link.whole for link in links)


def side_by_side(parts: Iterable[Tensor]) -> Tensor:
    """Join layers to a state; one alone is that already."""
    first, *others = parts
    return torch.cat([first, *others], -1) if others else first
