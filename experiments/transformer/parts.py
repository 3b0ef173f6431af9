"""The parts of an energy transformer of which a run asks more than every network can do."""

from engine.couplings.attention import Attention
from engine.couplings.tokens import TokenReadout
from engine.model.network import Network


def attention_of(network: Network) -> Attention:
    """Return the attention, of which there is one."""
    (attention,) = (c for c in network.recurrent if isinstance(c, Attention))
    return attention


def readout_of(network: Network) -> TokenReadout:
    """Return the read-out, which turns tokens into targets and outputs into tokens."""
    assert isinstance(network.readout, TokenReadout)
    return network.readout
