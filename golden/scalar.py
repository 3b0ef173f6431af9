"""Every formula of the algorithm for one sample, as loops over scalars.

Nothing here calls the closed forms in `engine`: the two are written apart, so that a mistake in one
is not a mistake in both. Sums run in double precision.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from engine.couplings.attention import Attention, Hopfield
from engine.couplings.coupling import Coupling
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import Readout, SoftmaxReadout, SquaredError
from engine.couplings.tokens import Embedding, TokenReadout
from engine.errors import EngineError
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
    raise EngineError(f"the scalar reference does not know activation '{activation}'.")


def send(
    coupling: Coupling, w: Weights, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> tuple[Vector, ...]:
    """dPhi/ds for each of the coupling's layers; a clamped coupling needs no `ends`.

    `shape` is that of the first of its layers.
    """
    match coupling:
        case InputDrive():
            return (_times_matrix(x, w),)
        case Bias():
            return (list(w),)
        case Dense():
            source, target = ends
            return _matrix_times(w, target), _times_matrix(source, w)
        case Lateral():
            (s,) = ends
            return (_times_matrix(s, w),)
        case Embedding():
            return (tokens.send_embedding(w, x),)
        case Attention():
            return (tokens.send_attention(coupling, w, ends[0], shape[0]),)
        case Hopfield():
            return (tokens.send_memories(coupling, w, ends[0], shape[0]),)
        case _:
            raise _unknown_coupling(coupling)


def correlate(
    coupling: Coupling, w: Weights, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> Vector:
    """dPhi/dw, in the order in which the block lies in memory."""
    match coupling:
        case InputDrive():
            (s,) = ends
            return [x_i * s_j for x_i in x for s_j in s]
        case Bias():
            (s,) = ends
            return list(s)
        case Dense():
            source, target = ends
            return [a_i * b_j for a_i in source for b_j in target]
        case Lateral():
            (s,) = ends
            return [s_i * s_j / 2 for s_i in s for s_j in s]
        case Embedding():
            return tokens.correlate_embedding(coupling, x, *ends)
        case Attention():
            return tokens.correlate_attention(coupling, w, ends[0], shape[0])
        case Hopfield():
            return tokens.correlate_memories(coupling, w, ends[0], shape[0])
        case _:
            raise _unknown_coupling(coupling)


def predict(readout: Readout, blocks: Mapping[str, Weights], s: Vector) -> Vector:
    """Outputs of the read-out."""
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


def _unknown_coupling(coupling: Coupling) -> EngineError:
    kind = type(coupling).__name__
    return EngineError(f"the scalar reference does not know coupling '{coupling.name}' ({kind}).")


def _unknown_readout(readout: Readout) -> EngineError:
    return EngineError(f"the scalar reference does not know read-out {type(readout).__name__}.")
