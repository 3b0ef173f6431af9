"""The energy transformer: tokens that attend to each other while they relax."""

from engine.attention import Attention, Hopfield
from engine.border import checked
from engine.coupling import Coupling
from engine.errors import check_count
from engine.network import Layer, Network
from engine.tokens import Embedding, Position, TokenReadout


@checked
def energy_transformer(
    vocabulary: int,
    length: int,
    width: int = 64,
    heads: int = 2,
    head_size: int | None = None,
    outputs: int | None = None,
    *,
    memories: int = 0,
    sharpness: float = 1.0,
    sees_itself: bool = False,
    causal: bool = False,
) -> Network:
    """Build a transformer whose one layer of `length` tokens relaxes under attention.

    Inputs are tokens `(samples, length)`, whole numbers below `vocabulary`; each position is read
    out by the same softmax over `outputs` (by default the vocabulary). Heads have `head_size`
    (by default `width / heads`) units; `memories` above zero adds a Hopfield feed-forward term.
    """
    check_count("length", length)
    check_count("width", width)
    check_count("heads", heads)
    size = max(1, width // heads) if head_size is None else head_size
    attention = Attention("attention", "tokens", heads, size, sharpness, sees_itself, causal)
    couplings: list[Coupling] = [
        Embedding("Emb", "tokens", vocabulary),
        Position("Pos", "tokens"),
        attention,
    ]
    if memories != 0:
        couplings.append(Hopfield("memories", "tokens", memories))
    readout = TokenReadout("tokens", vocabulary if outputs is None else outputs)
    return Network(length, (Layer("tokens", (length, width)),), tuple(couplings), readout)
