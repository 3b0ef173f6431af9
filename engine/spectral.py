"""The spectral cap: keep the norm of the recurrent coupling below one.

Activations are 1-Lipschitz, so a recurrent matrix of norm at most `cap < 1` makes the relaxation a
contraction: one equilibrium from any start, approached at least as fast as `cap^steps`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, lapack

from engine.arrays import FloatArray
from engine.border import checked
from engine.coupling import Dense, Lateral
from engine.errors import EngineError, check_count
from engine.network import Network
from engine.params import Params

Method = Literal["exact", "power"]
Matrix = npt.NDArray[np.float64]


@checked
@dataclass(frozen=True)
class SpectralCap:
    """Keep the norm of the recurrent matrix at or below `cap`.

    `exact` clips the eigenvalues (singular values of a dense block), which is the projection on
    the matrices of that norm. It runs every `every` steps; the steps between, and all steps with
    `power`, scale a block down when its norm, estimated by power iteration from the kept vector,
    is above its share. Power iteration estimates from below: only `exact` is a guarantee.
    """

    cap: float = 0.95
    every: int = 1
    method: Method = "exact"
    iterations: int = 5
    """Steps of a power iteration."""

    def __post_init__(self) -> None:
        if not 0.0 < self.cap < 1.0:
            raise EngineError(f"spectral cap is {self.cap}, expected more than 0 and less than 1.")
        check_count("every", self.every)
        check_count("iterations", self.iterations)
        if self.method not in ("exact", "power"):
            raise EngineError(f"unknown method '{self.method}'; known: exact, power.")

    def enforce(
        self,
        network: Network,
        blocks: Mapping[str, FloatArray],
        step: int,
        vectors: Mapping[str, Matrix],
    ) -> None:
        """Bring the recurrent blocks under the cap in place; `step` counts updates from 0.

        `vectors` keeps the direction of each block's power iteration between steps.
        """
        share = self.cap / layer_radius(network)
        for coupling in network.recurrent:
            if not isinstance(coupling, Dense | Lateral):
                kind = type(coupling).__name__
                raise EngineError(f"coupling '{coupling.name}' ({kind}) has no spectral cap.")
            block = blocks[coupling.name]
            if self.method == "exact" and step % self.every == 0:
                clip_norm(block, share, symmetric=isinstance(coupling, Lateral))
            else:
                scale_norm(block, share, vectors[coupling.name], self.iterations)


def has_cap(network: Network) -> bool:
    """Tell whether the norm of every recurrent coupling is known, so that it can be capped."""
    return all(isinstance(coupling, Dense | Lateral) for coupling in network.recurrent)


def starting_vectors(network: Network) -> dict[str, Matrix]:
    """Return a direction for the power iteration of each block that has a cap."""
    rng = np.random.default_rng(0)  # fixed: any direction that is not special will do
    capped = [c for c in network.recurrent if isinstance(c, Dense | Lateral)]
    rows = {c.name: network.blocks[c.name].shape[0] for c in capped}
    return {name: rng.standard_normal(size) for name, size in rows.items()}


@lru_cache(maxsize=64)
def layer_radius(network: Network) -> float:
    """Return the spectral radius of the graph of layers.

    Replacing every block of the recurrent matrix by its norm can only raise the norm, so blocks of
    norm at most `cap / radius` make a recurrent matrix of norm at most `cap`.
    """
    index = {layer.name: k for k, layer in enumerate(network.layers)}
    graph = np.zeros((len(index), len(index)))
    for coupling in network.recurrent:
        ends = [index[name] for name in coupling.layers]
        graph[ends[0], ends[-1]] += 1.0
        if len(ends) > 1:
            graph[ends[-1], ends[0]] += 1.0
    return max(1.0, float(np.abs(np.linalg.eigvalsh(graph)).max()))


@checked
def recurrent_matrix(params: Params) -> Matrix:
    """Assemble the symmetric matrix `(units, units)` of all recurrent couplings."""
    network = params.network
    matrix = np.zeros((network.units, network.units))
    for coupling in network.recurrent:
        if isinstance(coupling, Dense):
            rows, columns = (network.columns[name] for name in coupling.layers)
            matrix[rows, columns] += params[coupling.name]
            matrix[columns, rows] += params[coupling.name].T
        elif isinstance(coupling, Lateral):
            span = network.columns[coupling.layer]
            matrix[span, span] += params[coupling.name]
        else:
            kind = type(coupling).__name__
            raise EngineError(f"coupling '{coupling.name}' ({kind}) has no known matrix.")
    return matrix


@checked
def recurrent_norm(params: Params) -> float:
    """Return the exact spectral norm of the recurrent matrix: the contraction rate of `T`."""
    return float(np.abs(np.linalg.eigvalsh(recurrent_matrix(params))).max())


def clip_norm(block: FloatArray, limit: float, symmetric: bool) -> None:
    """Project `block` in place on the matrices of spectral norm at most `limit`.

    A block that is not finite is left as it is: no backend will apply it.
    """
    matrix = block.astype(np.float64)
    if not np.isfinite(matrix).all():
        return
    if symmetric:
        _clip_eigenvalues(block, matrix, limit)
    else:
        _clip_singular_values(block, matrix, limit)


def _clip_eigenvalues(block: FloatArray, matrix: Matrix, limit: float) -> None:
    """Move the eigenvalues of a symmetric `matrix` that are outside to the limit; fill `block`.

    Only those and their vectors are computed, and only on a side that has any.
    """
    clipped = matrix
    for side in (1.0, -1.0):
        if _is_below(side * matrix, limit):
            continue
        beyond = (limit, np.inf) if side > 0 else (-np.inf, -limit)
        values, vectors = eigh(matrix, driver="evr", subset_by_value=beyond, check_finite=False)
        clipped = clipped - (vectors * (values - side * limit)) @ vectors.T
    if clipped is not matrix:
        block[...] = (clipped + clipped.T) / 2


def _clip_singular_values(block: FloatArray, matrix: Matrix, limit: float) -> None:
    """Move the singular values of `matrix` that are above the limit to it; fill `block`.

    Only those and their vectors are computed, from the smaller of the two squares.
    """
    wide = len(matrix) < len(matrix.T)
    tall = matrix.T if wide else matrix
    square = tall.T @ tall
    if _is_below(square, limit**2):
        return
    above = (limit**2, np.inf)
    squares, vectors = eigh(square, driver="evr", subset_by_value=above, check_finite=False)
    clipped = tall - (tall @ (vectors * (1 - limit / np.sqrt(squares)))) @ vectors.T
    block[...] = clipped.T if wide else clipped


def scale_norm(block: FloatArray, limit: float, vector: Matrix, iterations: int) -> None:
    """Scale `block` in place so that its estimated norm is at most `limit`; turn `vector`."""
    v = vector.astype(block.dtype)
    for _ in range(iterations):
        v = block @ (v @ block)
        size = np.linalg.norm(v)
        if size == 0.0:
            return  # a zero matrix, or a vector in its null space
        v /= size
    vector[...] = v
    norm = float(np.linalg.norm(v @ block))
    if norm > limit:
        block *= limit / norm


def _is_below(symmetric: Matrix, limit: float) -> bool:
    """Tell whether every eigenvalue is below `limit`: whether `limit - M` is positive definite.

    A Cholesky factorisation proves it for a small part of the work of any eigenvalue.
    """
    rest = np.negative(symmetric, order="F")
    np.fill_diagonal(rest, rest.diagonal() + limit)
    _, failed_at = lapack.dpotrf(rest, lower=True, clean=False, overwrite_a=True)
    return bool(failed_at == 0)
