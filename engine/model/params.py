"""Parameters: one flat array, whose named blocks are views of it."""

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from engine.arrays import Array, FloatArray, IntArray, checked_precision
from engine.border import checked
from engine.errors import EngineError
from engine.model.network import Network


class Params(Mapping[str, FloatArray]):
    """The parameters of `network`, packed in `theta (network.size,)`.

    Reading a block gives a view: writing into the block writes into `theta`.
    """

    @checked
    def __init__(self, network: Network, theta: FloatArray) -> None:
        if isinstance(theta, np.ma.MaskedArray):
            raise EngineError("parameters are a masked array, expected a plain one.")
        if theta.shape != (network.size,):
            raise EngineError(
                f"parameters have shape {theta.shape}, the network needs ({network.size},)."
            )
        if theta.dtype not in (np.float32, np.float64):
            raise EngineError(f"parameters are {theta.dtype}, expected float32 or float64.")
        self._network = network
        self._theta = theta

    @property
    def network(self) -> Network:
        """What the parameters are of."""
        return self._network

    @property
    def theta(self) -> FloatArray:
        """All parameters in one array, which may be written into but not replaced."""
        return self._theta

    def __getitem__(self, name: str) -> FloatArray:
        block = self._network.blocks[name]
        return self._theta[block.span].reshape(block.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.network.blocks)

    def __len__(self) -> int:
        return len(self.network.blocks)

    def copy(self) -> "Params":
        """Return parameters with an array of their own."""
        return Params(self.network, self.theta.copy())

    def astype(self, dtype: npt.DTypeLike) -> "Params":
        """Return a copy in another precision."""
        precision = checked_precision(dtype)
        with np.errstate(over="ignore"):  # what overflows is found by `check`
            return Params(self.network, self.theta.astype(precision))

    def check(self) -> None:
        """Refuse parameters that are not finite, or a lateral block that is not symmetric."""
        for name, block in self.items():
            if not np.isfinite(block).all():
                raise EngineError(f"parameter block '{name}' holds a value that is not finite.")
            if name in self.network.squares and block.min(initial=0.0) < 0.0:
                raise EngineError(
                    f"parameter block '{name}' holds a negative conductance, {block.min():g}."
                )
        for name in (link.block for link in self.network.links.values() if link.tied):
            if not np.array_equal(self[name], self[name].T):
                raise EngineError(f"lateral block '{name}' is not symmetric.")


def unpack(
    network: Network, theta: Array, names: Collection[str] | None = None
) -> dict[str, Array]:
    """Return all parameter blocks, or some, as views of `theta (network.size,)` of any library."""
    blocks = network.blocks
    named = {name: blocks[name] for name in (blocks if names is None else names)}
    return {name: theta[block.span].reshape(block.shape) for name, block in named.items()}


@lru_cache(maxsize=64)
def partners(network: Network) -> IntArray:
    """Place of the other word of a tied pair, `(network.size,)`; of any other word, its own."""
    found = np.arange(network.size)
    for link in network.links.values():
        if link.tied:
            block = network.blocks[link.block]
            found[block.span] = found[block.span].reshape(block.shape).T.ravel()
    return found


@checked
def initial_params(
    network: Network, rng: np.random.Generator, dtype: npt.DTypeLike = np.float32
) -> Params:
    """Draw starting parameters: every coupling and the read-out know their own distribution."""
    params = Params(network, np.empty(network.size, checked_precision(dtype)))
    for coupling in network.couplings:
        params[coupling.name][...] = coupling.initial(rng, network.shapes)
    readout = network.readout
    for name, value in readout.initial(rng, network.shapes[readout.layer]).items():
        params[name][...] = value
    return params
