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
    layers: tuple[str, ...],
    blocks: Blocks,
    x: Tensor,
    y: Tensor | None,
    drive: Tensor,
    beta: Tensor | None,
    origin: Tensor | None,
    state: Tensor,
) -> Tensor:
    """Return the state with `layers` replaced by their image, `(samples, units)`.

    What the arguments are, `Phase` says. It is `dynamics.step`, or `displaced_step`, with fewer
    passes: the nudge goes to the layer that is read alone, and layers of one activation are
    computed in one go.
    """
    every = len(layers) == len(network.layers)
    extra = dynamics.recurrent_drive(network, blocks, x, state, None if every else layers)
    extra = extra.contiguous() if origin is not None else drive + extra  # either is written into
    read = network.readout.layer
    if beta is not None and read in layers:
        there = network.of(read, state if origin is None else origin + state)
        slope = by_sample(network.readout.nudge(blocks, there, y))
        columns, given = network.columns[read], dynamics.compliance(network, blocks)
        if given is not None:
            slope = slope * given[columns]
        extra[:, columns] = extra[:, columns].addcmul(beta, slope, value=-1.0)
    if every and len({layer.activation for layer in network.layers}) == 1:
        rule = network.layers[0].rule
        image: Tensor = rule.sigma(extra) if origin is None else rule.difference(drive, extra)
        return image
    parts = []
    for layer in network.layers:
        columns = network.columns[layer.name]
        if layer.name not in layers:
            parts.append(state[:, columns])
        elif origin is None:
            parts.append(layer.rule.sigma(extra[:, columns]))
        else:
            parts.append(layer.rule.difference(drive[:, columns], extra[:, columns]))
    return torch.cat(parts, -1)


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

    def __call__(
        self, network: Network, layers: tuple[str, ...], blocks: Blocks, *arrays: Tensor | None
    ) -> Tensor:
        """Return what `image_of` does."""
        shapes = (None if part is None else (part.shape, part.dtype) for part in arrays)
        key = (layers, *shapes)
        if key not in self._made:
            recorded = make_fx(partial(image_of, network, layers))(blocks, *arrays)
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
    """Of the clamped couplings; of a displacement, the whole drive of its origin."""
    beta: Tensor | None = None
    """Nudge of every sample, `(samples, 1)`; `None` is the free phase."""
    origin: Tensor | None = None
    """The states that are displaced; `None` where states are iterated."""
    turns: tuple[tuple[str, ...], ...] = ()
    """The layers in the groups in which they are updated; all at once if there are none."""
    compute: Callable[..., Tensor] = image_of

    def image(self, state: Tensor) -> Tensor:
        """`T(s)`, `(samples, units)`, turn by turn."""
        arrays = (self.x, self.y, self.drive, self.beta, self.origin)
        for layers in self.turns or (tuple(self.network.columns),):
            state = self.compute(self.network, layers, self.blocks, *arrays, state)
        return state

    def solved(self, solver: str) -> "Phase":
        """Return the same with the turns of a solver."""
        return replace(self, turns=self.network.turns(solver, nudged=self.beta is not None))

    def nudged(self, betas: tuple[float, ...]) -> "Phase":
        """Return the map of the batch under each of the betas, one below the other."""
        if betas == (0.0,):
            return self
        samples, times = len(self.x), len(betas)
        # Filled on the device: a list would have to be uploaded.
        beta = torch.cat([self.drive.new_full((samples, 1), beta) for beta in betas])
        if times == 1:
            return replace(self, beta=beta)
        return replace(self._each(lambda array: array.repeat(times, 1)), beta=beta)

    def displaced(self, origin: Tensor) -> "Phase":
        """Return the map of displacements from `origin (samples, units)`."""
        sent = dynamics.recurrent_drive(self.network, self.blocks, self.x, origin)
        return replace(self, drive=self.drive + sent, origin=origin)

    def select(self, rows: Tensor) -> "Phase":
        """Return the map of some of the samples."""
        return self._each(lambda array: array.index_select(0, rows))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Phase":
        """Return the same with every array changed that has a row for each sample."""
        names = ("x", "y", "drive", "beta", "origin")
        held = {name: part for name in names if (part := getattr(self, name)) is not None}
        changed: dict[str, Any] = {name: change(part) for name, part in held.items()}
        return replace(self, **changed)
