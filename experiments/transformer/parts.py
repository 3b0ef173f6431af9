"""The parts of an energy transformer of which a run asks more than every network can do."""

import numpy as np

from engine.arrays import FloatArray
from engine.couplings.attention import Attention
from engine.couplings.tokens import TokenReadout
from engine.model.network import Network


def attention_of(network: Network) -> Attention:
    """Return the attention, of which there is one."""
    (attention,) = attentions_of(network)
    return attention


def attentions_of(network: Network) -> list[Attention]:
    """Return all attention of a network."""
    return [c for c in network.recurrent if isinstance(c, Attention)]


def readout_of(network: Network) -> TokenReadout:
    """Return the read-out, which turns tokens into targets and outputs into tokens."""
    assert isinstance(network.readout, TokenReadout)
    return network.readout


def decay_rates(network: Network, rate: float) -> dict[str, FloatArray]:
    """Return the decay of all attention: queries and keys decay, what they route does not."""
    rates: dict[str, FloatArray] = {}
    for attention in attentions_of(network):
        block: FloatArray = np.zeros(network.blocks[attention.name].shape, np.float32)
        heads = attention.split(block, network.shapes[attention.layer][0])
        heads.query[...] = rate
        heads.key[...] = rate
        rates[attention.name] = block
    return rates
