"""Every formula of the algorithm for one sample, as loops over scalars.

Nothing here calls the closed forms in `engine`: the two are written apart, so that a mistake in one
is not a mistake in both. Sums run in double precision.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from engine.couplings.attention import Attention, Hopfield
from engine.couplings.conductance import Conductance, InputConductance
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.coupling import Coupling
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import Readout, SoftmaxReadout, SquaredError
from engine.couplings.skip import Skip
from engine.couplings.tokens import Embedding, Position, TokenReadout
from engine.errors import EngineError
from golden import scalar_circuits as circuits
from golden import scalar_images as images
from golden import scalar_tokens as tokens

Vector: TypeAlias = list[float]
Weights: TypeAlias = Any
"""A parameter block as nested lists: `w[i][j]` for a matrix, `w[j]` for a vector."""


def activate(activation: str, h: float) -> float:
    """`sigma(h)` of one unit."""
    if activation == "tanh":
        return math.tanh(h)
    if activation == "hard_sigmoid":
        return min(max(h, 0.0), 1.0)
    if activation == "relu":
        return max(h, 0.0)
    if activation == "mirrored_relu":
        return min(h, 0.0)
    if activation == "linear":
        return h
    raise EngineError(f"the scalar reference does not know activation '{activation}'.")


def activation_difference(activation: str, h: float, e: float) -> float:
    """`sigma(h + e) - sigma(h)` of one unit.

    That of tanh is `sinh e / (cosh h cosh(h + e))`. The others rise from their lower edge to their
    upper one: the difference is the part of the way from `h` to `h + e` that lies between them.
    """
    if activation == "tanh":
        if max(abs(h), abs(h + e)) > FLAT:
            return math.tanh(h + e) - math.tanh(h)
        return math.sinh(e) / (math.cosh(h) * math.cosh(h + e))
    low, high = activate(activation, -math.inf), activate(activation, math.inf)
    start, end = min(max(h, low), high), min(max(h + e, low), high)
    inside = start == h and end == h + e
    return e if inside else end - start


FLAT = 300.0
"""Drive from which on tanh is one, to the last bit, and its hyperbolic cosine nearly overflows."""


class Twin(NamedTuple):
    """The formulas of a coupling once more, for one sample.

    Both take `(coupling, w, x, ends, shape)`: the block as nested lists, the input, the states of
    its layers (none, if it is clamped and sends) and the shape of the first of them.
    """

    send: Callable[..., tuple[Vector, ...]]
    """dPhi/ds for each of the layers."""
    correlate: Callable[..., Vector]
    """dPhi/dw, in the order in which the block lies in memory."""
    stiffness: Callable[..., tuple[Vector, ...]] | None = None
    """Where dPhi/ds also holds `-c s`, the `c` of each layer, from `(coupling, w)`; `send` is
    without that part."""


def send(
    coupling: Coupling, w: Weights, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> tuple[Vector, ...]:
    """dPhi/ds for each of the coupling's layers; a clamped coupling needs no `ends`."""
    return _twin(coupling).send(coupling, w, x, ends, shape)


def correlate(
    coupling: Coupling, w: Weights, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> Vector:
    """dPhi/dw, in the order in which the block lies in memory."""
    return _twin(coupling).correlate(coupling, w, x, ends, shape)


def stiffness(coupling: Coupling, w: Weights) -> tuple[Vector, ...] | None:
    """Return `c` for each of the coupling's layers, where dPhi/ds also holds `-c s`."""
    found = _twin(coupling).stiffness
    return None if found is None else found(coupling, w)


def register(kind: type, twin: Twin) -> None:
    """Let the reference judge couplings of exactly this class; a subclass needs its own."""
    _TWINS[kind] = twin


def _twin(coupling: Coupling) -> Twin:
    if type(coupling) not in _TWINS:
        kind = type(coupling).__name__
        raise EngineError(
            f"the scalar reference does not know coupling '{coupling.name}' ({kind})."
        )
    return _TWINS[type(coupling)]


def _outer(a: Vector, b: Vector) -> Vector:
    return [a_i * b_j for a_i in a for b_j in b]


_BIAS = Twin(lambda c, w, x, ends, shape: (list(w),), lambda c, w, x, ends, shape: list(ends[0]))
_TWINS: dict[type, Twin] = {
    InputDrive: Twin(
        lambda c, w, x, ends, shape: (_times_matrix(x, w),),
        lambda c, w, x, ends, shape: _outer(x, ends[0]),
    ),
    Bias: _BIAS,
    Position: _BIAS,
    Dense: Twin(
        lambda c, w, x, ends, shape: (_matrix_times(w, ends[1]), _times_matrix(ends[0], w)),
        lambda c, w, x, ends, shape: _outer(*ends),
    ),
    Lateral: Twin(
        lambda c, w, x, ends, shape: (_times_matrix(ends[0], w),),
        lambda c, w, x, ends, shape: [product / 2 for product in _outer(ends[0], ends[0])],
    ),
    Convolution: Twin(images.send_convolution, images.correlate_convolution),
    InputConvolution: Twin(images.send_input, images.correlate_input),
    ChannelBias: Twin(images.send_bias, images.correlate_bias),
    Skip: Twin(images.send_skip, images.correlate_skip),
    Conductance: Twin(circuits.send, circuits.correlate, circuits.stiffness),
    InputConductance: Twin(circuits.send_input, circuits.correlate_input, circuits.input_stiffness),
    Embedding: Twin(
        lambda c, w, x, ends, shape: (tokens.send_embedding(w, x),),
        lambda c, w, x, ends, shape: tokens.correlate_embedding(c, x, *ends),
    ),
    Attention: Twin(
        lambda c, w, x, ends, shape: (tokens.send_attention(c, w, ends[0], shape[0]),),
        lambda c, w, x, ends, shape: tokens.correlate_attention(c, w, ends[0], shape[0]),
    ),
    Hopfield: Twin(
        lambda c, w, x, ends, shape: (tokens.send_memories(c, w, ends[0], shape[0]),),
        lambda c, w, x, ends, shape: tokens.correlate_memories(c, w, ends[0], shape[0]),
    ),
}


def predict(readout: Readout, blocks: Mapping[str, Weights], s: Vector) -> Vector:
    """Outputs of the read-out."""
    if type(readout) not in (SoftmaxReadout, SquaredError, TokenReadout):
        raise _unknown_readout(readout)  # a subclass is no known one, whatever it inherits
    match readout:
        case SoftmaxReadout():
            bias = blocks["b_out"]
            logits = [h + b for h, b in zip(_times_matrix(s, blocks["W_out"]), bias, strict=True)]
            largest = max(logits)
            odds = [math.exp(logit - largest) for logit in logits]
            return [part / sum(odds) for part in odds]
        case SquaredError():
            return list(s)
        case TokenReadout():
            parts = _parts(s, len(blocks["W_out"]))
            return [p for part in parts for p in predict(readout.each, blocks, part)]
        case _:
            raise _unknown_readout(readout)


def nudge(readout: Readout, blocks: Mapping[str, Weights], s: Vector, y: Vector) -> Vector:
    """dC/ds of the layer that is read out."""
    error = [p - t for p, t in zip(predict(readout, blocks, s), y, strict=True)]
    match readout:
        case SoftmaxReadout():
            return _matrix_times(blocks["W_out"], error)
        case SquaredError():
            return error
        case TokenReadout():
            width, outputs = len(blocks["W_out"]), len(blocks["b_out"])
            pairs = zip(_parts(s, width), _parts(y, outputs), strict=True)
            return [part for pair in pairs for part in nudge(readout.each, blocks, *pair)]
        case _:
            raise _unknown_readout(readout)


def correlate_readout(
    readout: Readout, blocks: Mapping[str, Weights], s: Vector, y: Vector
) -> dict[str, Vector]:
    """dC/dw of every block of the read-out, in the order in which it lies in memory."""
    match readout:
        case SoftmaxReadout():
            error = [p - t for p, t in zip(predict(readout, blocks, s), y, strict=True)]
            return {"W_out": [s_i * e_k for s_i in s for e_k in error], "b_out": error}
        case SquaredError():
            return {}
        case TokenReadout():
            width, outputs = len(blocks["W_out"]), len(blocks["b_out"])
            pairs = zip(_parts(s, width), _parts(y, outputs), strict=True)
            found = [correlate_readout(readout.each, blocks, *pair) for pair in pairs]
            return {name: _sum([part[name] for part in found]) for name in found[0]}
        case _:
            raise _unknown_readout(readout)


def _parts(values: Vector, size: int) -> list[Vector]:
    """Cut a flat list into the parts of its positions."""
    return [values[k : k + size] for k in range(0, len(values), size)]


def _sum(vectors: Sequence[Vector]) -> Vector:
    return [sum(column) for column in zip(*vectors, strict=True)]


def _times_matrix(row: Vector, w: Weights) -> Vector:
    """`row W`."""
    return [sum(row[i] * w[i][j] for i in range(len(row))) for j in range(len(w[0]))]


def _matrix_times(w: Weights, column: Vector) -> Vector:
    """`W column`."""
    return [sum(w[i][j] * column[j] for j in range(len(column))) for i in range(len(w))]


def _unknown_readout(readout: Readout) -> EngineError:
    return EngineError(f"the scalar reference does not know read-out {type(readout).__name__}.")
