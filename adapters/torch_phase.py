"""The map `T` of a batch on torch tensors, plain or compiled."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from adapters.torch_arrays import Blocks, make_fx, torch
from engine.arrays import by_sample
from engine.errors import EngineError, reason
from engine.model import dynamics
from engine.model.network import Network

Tensor = torch.Tensor


def image_of(
    network: Network,
    blocks: Blocks,
    x: Tensor,
    y: Tensor | None,
    drive: Tensor,
    beta: Tensor | None,
    state: Tensor,
) -> Tensor:
    """Return `T(s)`, `(samples, units)`; what the arguments are, `Phase` says.

    It is `dynamics.step` with fewer passes: the nudge goes to the layer that is read alone, and
    layers of one activation are computed in one go.
    """
    drive = drive + dynamics.recurrent_drive(network, blocks, x, state)
    if beta is not None:
        layer = network.readout.layer
        slope = network.readout.nudge(blocks, network.of(layer, state), y)
        drive[:, network.columns[layer]].addcmul_(beta, by_sample(slope), value=-1.0)
    if len({layer.activation for layer in network.layers}) > 1:
        image: Tensor = dynamics.activate(network, drive)
        return image
    activated: Tensor = network.layers[0].rule.sigma(drive)
    return activated


class CompiledImage:
    """`image_of` as `torch.compile` makes it, for each shape of a batch once.

    Its operations are recorded first, so that the compiler sees no Python of a network.
    """

    def __init__(self, device: torch.device) -> None:
        self._made: dict[tuple[Any, ...], Callable[..., Tensor]] = {}
        try:
            torch.compile(torch.neg)(torch.zeros(1, device=device))
        except Exception as error:  # whatever a compiler has to complain of
            raise EngineError(f"torch.compile does not work here: {reason(error)}.") from None

    def __call__(self, network: Network, blocks: Blocks, *arrays: Tensor | None) -> Tensor:
        """Return `T(s)`."""
        key = tuple(None if part is None else (part.shape, part.dtype) for part in arrays)
        if key not in self._made:
            recorded = make_fx(partial(image_of, network))(blocks, *arrays)
            self._made[key] = torch.compile(recorded, dynamic=False)
        return self._made[key](blocks, *arrays)


@dataclass(frozen=True)
class Phase:
    """The map `T` of a batch: all that it depends on but the state."""

    network: Network
    blocks: Blocks
    x: Tensor
    y: Tensor | None
    drive: Tensor
    beta: Tensor | None = None
    """Nudge of every sample, `(samples, 1)`; `None` is the free phase."""

    compute: Callable[..., Tensor] = image_of

    def image(self, state: Tensor) -> Tensor:
        """`T(s)`, `(samples, units)`."""
        held = (self.network, self.blocks, self.x, self.y, self.drive, self.beta)
        return self.compute(*held, state)

    def nudged(self, betas: tuple[float, ...]) -> "Phase":
        """Return the map of the batch under each of the betas, one below the other."""
        if betas == (0.0,):
            return self
        samples, times = len(self.x), len(betas)
        # Filled on the device: a list would have to be uploaded.
        beta = torch.cat([self.drive.new_full((samples, 1), beta) for beta in betas])
        if times == 1:
            return replace(self, beta=beta)
        y = None if self.y is None else self.y.repeat(times, 1)
        return replace(
            self, x=self.x.repeat(times, 1), y=y, drive=self.drive.repeat(times, 1), beta=beta
        )

    def select(self, rows: Tensor) -> "Phase":
        """Return the map of some of the samples."""
        x, drive = self.x.index_select(0, rows), self.drive.index_select(0, rows)
        y = None if self.y is None else self.y.index_select(0, rows)
        beta = None if self.beta is None else self.beta.index_select(0, rows)
        return replace(self, x=x, y=y, drive=drive, beta=beta)
