"""The spectral cap: keep the norm of the recurrent coupling below one.

Activations are 1-Lipschitz, so a recurrent matrix of norm at most `cap < 1` makes the relaxation a
contraction: one equilibrium from any start, approached at least as fast as `cap^steps`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy

from engine.arrays import Array, FloatArray, by_sample, namespace
from engine.border import checked
from engine.couplings.bound import Bound
from engine.couplings.coupling import Coupling
from engine.couplings.link import Link
from engine.errors import EngineError, check_count
from engine.learning.stretch import find_direction, lower
from engine.model.network import Network
from engine.model.params import Params

Method = Literal["exact", "watched", "power"]
Matrix = npt.NDArray[np.float64]

NEAR = 0.01
"""How far the first estimate of a norm is below it, on average and at most, as a share of it."""
ROOM = 0.9
"""Share of its limit that a watched block is projected on, so that some steps pass before again."""


@checked
@dataclass(frozen=True)
class SpectralCap:
    """Keep the norm of the recurrent matrix at or below `cap`.

    `exact` clips the eigenvalues (singular values, of a block that is not tied), which is the
    projection on the matrices of that norm. It runs every `every` steps; the steps between, and all
    steps with `power`, scale a block down when the norm of its link, estimated by power iteration
    from the kept vector, is above its share. `watched` clips in the first step and then whenever
    the best direction of the space that the kept vector reaches is stretched too much, and a little
    further than to its share (`ROOM`): most steps need no projection, and none is scaled.

    A link whose places overlap, as those of a convolution
    do, is held by all steps, whatever the method: the norm of its block says too little. There the
    block first loses what its leading directions exceed, and is scaled only if that is not enough.
    Vectors estimate from below, in the first step to within `NEAR` on average: only a clip
    is a guarantee. Where a few steps change a block wholly, as the first ones of Adam do, the norm
    of such a link may exceed its share by some percent for a step or two.
    A coupling that is no link is held to the link that it says bounds it.
    """

    cap: float = 0.95
    every: int = 1
    method: Method = "exact"
    """How a matrix is held, as above; `Training` takes `watched` where nothing is said."""
    iterations: int = 5
    """Steps of a power iteration, after the first one."""
    partial: bool = False
    """Whether couplings of unknown norm (see `uncapped`) are left alone instead of refused."""

    def __post_init__(self) -> None:
        if not 0.0 < self.cap < 1.0:
            raise EngineError(f"spectral cap is {self.cap}, expected more than 0 and less than 1.")
        check_count("every", self.every)
        check_count("iterations", self.iterations)
        if self.method not in get_args(Method):
            known = ", ".join(get_args(Method))
            raise EngineError(f"unknown method '{self.method}'; known: {known}.")

    def enforce(
        self,
        network: Network,
        blocks: Mapping[str, Array],
        step: int,
        vectors: Mapping[str, Array],
    ) -> None:
        """Bring the recurrent blocks under the cap in place; `step` counts updates from 0.

        `vectors` keeps the direction of each block's power iteration between steps; one that is not
        there starts anew. Blocks that are `clipped` must be numpy arrays.
        """
        if not self.partial:
            for reason in uncapped(network).values():
                raise EngineError(reason)
        share = self.cap / layer_radius(network)
        for bound, k in _bounded_parts(network):
            link, limit = bound.link, share / bound.factor
            block = bound.part(blocks[link.block], k)
            if self._clips(link, step):
                clip_norm(block.reshape(link.fan_in, -1), limit, link.tied)
                continue
            vector = vectors.get(link.block)
            if vector is None:
                vector = starting_vectors(network)[link.block]
            many = self.iterations if step else max(self.iterations, first_iterations(link.size))
            direction = bound.direction(vector, k)
            if not self._watches(link):
                scale_norm(link, block, limit, direction, many)
            elif find_direction(link, block, direction, many).stretch > limit:
                clip_norm(block.reshape(link.fan_in, -1), ROOM * limit, link.tied)

    def clipped(self, network: Network, step: int) -> list[str]:
        """Name the blocks whose eigenvalues a step may clip, which is done in numpy."""
        links = ((name, bound.link) for name, bound in network.bounds.items())
        return [name for name, link in links if self._clips(link, step) or self._watches(link)]

    def _clips(self, link: Link, step: int) -> bool:
        """Tell whether a step clips the block of a link: one that has the norm of its block."""
        due = step % self.every == 0 if self.method == "exact" else step == 0
        return self.method != "power" and due and link.spread == 1.0

    def _watches(self, link: Link) -> bool:
        """Tell whether the block of a link is clipped when it turns out to be above the limit."""
        return self.method == "watched" and link.spread == 1.0


AUTO_CAP = SpectralCap(method="watched", partial=True)
"""What `cap="auto"` stands for: every norm that is known, and no complaint of the others."""


def recurrent_links(network: Network) -> list[Link]:
    """Return the recurrent couplings that are links, in their order."""
    return [network.links[c.name] for c in network.recurrent if c.name in network.links]


def _bounded_parts(network: Network) -> Iterator[tuple[Bound, int]]:
    """Yield what bounds each recurrent coupling, once for each of its parts."""
    for bound in network.bounds.values():
        yield from ((bound, k) for k in range(bound.parts))


def uncapped(network: Network) -> dict[str, str]:
    """Say of each recurrent coupling without a known norm why it has no cap, by its name."""
    why = "it is no link, so that its norm is not known."
    convex = "its energy is convex, so that there is one equilibrium without."
    return {
        c.name: f"coupling '{c.name}' ({type(c).__name__}) has no spectral cap: "
        f"{convex if c.name in network.squares else why}"
        for c in network.recurrent
        if c.name not in network.bounds
    }


def has_cap(network: Network) -> bool:
    """Tell whether the norm of every recurrent coupling is known, so that it can be capped."""
    return not uncapped(network)


def starting_vectors(network: Network) -> dict[str, Matrix]:
    """Return a direction for the power iteration of each link that has a cap."""
    rng = np.random.default_rng(0)  # fixed: any direction that is not special will do
    return {
        name: rng.standard_normal(bound.parts * bound.link.size)
        for name, bound in network.bounds.items()
    }


def first_iterations(units: int) -> int:
    """Return how many steps of a power iteration bring a random vector within `NEAR` of a norm.

    The largest eigenvalue is found after `k` of them with a mean error of less than `ln(units) / k`
    of it, whatever the others are (Kuczynski and Wozniakowski, 1992); a norm is the root of one.
    """
    return 1 + int(np.log(units) / (2 * NEAR))


def bounded_norm(bound: Bound, block: FloatArray) -> float:
    """Return what bounds the norm of a coupling: from below, to within `NEAR` on average."""
    link, norms = bound.link, []
    for k in range(bound.parts):
        vector = np.random.default_rng(0).standard_normal(link.size)
        part, many = bound.part(block, k), first_iterations(link.size)
        turned = (part, vector, many)
        norm = _turn_plainly(*turned) if link.whole else find_direction(link, *turned).stretch
        norms.append(float(norm))
    return bound.factor * max(norms)


@lru_cache(maxsize=64)
def layer_radius(network: Network) -> float:
    """Return the spectral radius of the graph of layers.

    Replacing every block of the recurrent matrix by its norm can only raise the norm, so blocks of
    norm at most `cap / radius` make a recurrent matrix of norm at most `cap`.
    """
    index = {layer.name: k for k, layer in enumerate(network.layers)}
    graph = np.zeros((len(index), len(index)))
    for link in (bound.link for bound in network.bounds.values()):
        source, target = index[link.source], index[link.target]
        graph[source, target] += 1.0
        if not link.tied:
            graph[target, source] += 1.0
    return max(1.0, float(np.abs(np.linalg.eigvalsh(graph)).max()))


@checked
def recurrent_matrix(params: Params) -> Matrix:
    """Assemble the symmetric matrix `(units, units)` of all recurrent couplings."""
    network = params.network
    matrix = np.zeros((network.units, network.units))
    for reason in uncapped(network).values():
        raise EngineError(reason)
    for coupling in network.recurrent:
        link = network.bounds[coupling.name].link
        rows, columns = network.columns[link.source], network.columns[link.target]
        part = _matrix(params, coupling)
        matrix[rows, columns] += part
        if not link.tied:
            matrix[columns, rows] += part.T
    return matrix


def _matrix(params: Params, coupling: Coupling) -> FloatArray:
    """Return the matrix `(size of the source, size of the target)` that a coupling is."""
    network, w = params.network, params[coupling.name]
    if coupling.name in network.links:
        return network.links[coupling.name].matrix(w)
    if not network.bounds[coupling.name].bilinear:
        raise EngineError(
            f"coupling '{coupling.name}' ({type(coupling).__name__}) has no matrix: what it sends "
            "on depends on the state."
        )
    shapes = [network.shapes[name] for name in coupling.layers]
    units = np.eye(prod(shapes[0]), dtype=w.dtype)
    silent = np.zeros((len(units), *shapes[1]), w.dtype)
    _, sent = coupling.drive(w, units, units.reshape(-1, *shapes[0]), silent)
    matrix: FloatArray = by_sample(sent)
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
        values, vectors = scipy.linalg.eigh(
            matrix, driver="evr", subset_by_value=beyond, check_finite=False
        )
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
    squares, vectors = scipy.linalg.eigh(
        square, driver="evr", subset_by_value=above, check_finite=False
    )
    clipped = tall - (tall @ (vectors * (1 - limit / np.sqrt(squares)))) @ vectors.T
    block[...] = clipped.T if wide else clipped


def scale_norm(link: Link, block: Array, limit: float, vector: Array, iterations: int) -> None:
    """Scale `block` in place so that the estimated norm of its link is at most `limit`.

    `vector (size of the source,)` is turned towards the direction that the link stretches most.
    Of a plain matrix that is a power iteration; of a link with windows the best direction of the
    space that the power iteration passes through is taken, after each `TOGETHER` of its steps, and
    its stretch is lowered to the limit before anything is scaled.
    """
    if not link.whole:
        with np.errstate(all="ignore"):  # what is not finite is left as it is
            norm = lower(link, block, limit, vector, iterations)
    elif isinstance(block, np.ndarray):
        norm = _turn_plainly(block, vector, iterations)
    else:
        norm = _turn_unseen(block, vector, iterations)
    if not isinstance(block, np.ndarray):
        block *= namespace(block).clip(limit / norm, None, 1.0)
    elif norm > limit:
        block *= limit / norm


def _turn_plainly(block: FloatArray, vector: FloatArray, iterations: int) -> Any:
    """Turn the vector of a plain matrix; return how much that stretches it."""
    v = vector.astype(block.dtype)
    for _ in range(iterations):
        v = block @ (v @ block)
        size = np.linalg.norm(v)
        if size == 0.0:
            return 0.0  # a zero matrix, or a vector in its null space
        v /= size
    vector[...] = v
    return np.linalg.norm(v @ block)


def _turn_unseen(block: Array, vector: Array, iterations: int) -> Any:
    """Do the same with arrays of another library, without reading a number from them."""
    xp, v = namespace(block), vector
    for _ in range(iterations):
        turned = block @ (v @ block)
        size = xp.linalg.norm(turned)
        v = xp.where(size > 0.0, turned / size, v)  # of a zero matrix, the vector as it was
    vector[...] = v
    return xp.linalg.norm(v @ block)


def _is_below(symmetric: Matrix, limit: float) -> bool:
    """Tell whether every eigenvalue is below `limit`: whether `limit - M` is positive definite.

    A Cholesky factorisation proves it for a small part of the work of any eigenvalue.
    """
    rest = np.negative(symmetric, order="F")
    np.fill_diagonal(rest, rest.diagonal() + limit)
    _, failed_at = scipy.linalg.lapack.dpotrf(rest, lower=True, clean=False, overwrite_a=True)
    return bool(failed_at == 0)
