"""The map `T` of a batch on torch tensors, plain or compiled."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from adapters.torch_arrays import Blocks, make_fx, torch
from adapters.torch_drives import sent_by, side_by_side
from adapters.torch_products import logits_of, plain_products, softmax_of
from engine.arrays import by_sample
from engine.errors import EngineError, reason
from engine.model import dynamics
from engine.model.activation import ACTIVATIONS, Activation
from engine.model.network import Network

Tensor = torch.Tensor
ROWS = ("x", "y", "drive", "beta", "origin", "bend")
"""What a phase holds for each sample."""
Image: TypeAlias = Callable[..., tuple[Tensor, dict[str, Tensor]]]
TANH, RELU = ACTIVATIONS["tanh"], ACTIVATIONS["relu"]


def image_of(
    network: Network,
    layers: tuple[str, ...],
    still: bool,
    blocks: Blocks,
    x: Tensor,
    y: Tensor | None,
    drive: Tensor,
    beta: Tensor | None,
    origin: Tensor | None,
    bend: Tensor | None,
    state: Tensor,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the state with `layers` replaced by their image, `(samples, units)`.

    Beside it stand the drives of the layers; of displacements, none. What the arguments are,
    `Phase` says; `still` says that the state is zero and sends nothing. It
    is `dynamics.step`, or `displaced_step`, with fewer passes: nothing is sent to other layers, the
    nudge goes to the one that is read alone, and layers of one activation are computed in one go.
    """
    read = network.readout.layer
    at_once = len(layers) == len(network.layers) and _is_uniform(network)
    sent = sent_by(network, blocks, x, layers, still, state)
    if origin is None:
        for name, part in sent.items():
            part.add_(drive[:, network.columns[name]])  # `addmm` would hide opposite infinities
    if beta is not None and read in layers:
        there = state if origin is None else origin if still else origin + state
        _subtract_nudge(network, blocks, beta, y, network.of(read, there), sent[read])
    if at_once:
        extra, rule = side_by_side(sent.values()), network.layers[0].rule
        image: Tensor = rule.sigma(extra) if bend is None else _differ(rule, drive, bend, extra)
        return image, sent if origin is None else {}
    parts = []
    for layer in network.layers:
        columns = network.columns[layer.name]
        if layer.name not in layers:
            parts.append(state[:, columns])
        elif bend is None:
            parts.append(layer.rule.sigma(sent[layer.name]))
        else:
            held = drive[:, columns], bend[:, columns]
            parts.append(_differ(layer.rule, *held, sent[layer.name]))
    return torch.cat(parts, -1), sent if origin is None else {}


def _is_uniform(network: Network) -> bool:
    return len({layer.activation for layer in network.layers}) == 1


def _subtract_nudge(
    network: Network, blocks: Blocks, beta: Tensor, y: Tensor | None, there: Tensor, into: Tensor
) -> None:
    """Subtract `beta dC/ds` from the drive of the layer that is read, in place."""
    reading, given = network.reading, dynamics.compliance(network, blocks)
    link = None if reading is None or given is not None else reading.link
    if y is None or reading is None or link is None or not link.whole:
        slope = by_sample(network.readout.nudge(blocks, there, y))
        if given is not None:
            slope = slope * given[network.columns[network.readout.layer]]
        into.addcmul_(beta, slope, value=-1.0)
        return
    weight = blocks[link.block]
    error = softmax_of(logits_of(by_sample(there), weight, blocks[reading.bias])).sub_(y)
    into.addmm_(error.mul_(beta), weight.T, alpha=-1.0)


def _prepare(rule: Activation, drive: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `_differ` needs of the drive `h` of an origin, once for all steps."""
    if rule is TANH:
        bent = torch.tanh(drive)
        return bent, (1 - bent) * (1 + bent)
    if rule is RELU:
        return -drive, drive.clamp(max=0.0)
    return drive, drive


def _differ(rule: Activation, held: Tensor, bend: Tensor, extra: Tensor) -> Tensor:
    """Return `sigma(h + e) - sigma(h)` of what `_prepare` made of `h`, with few passes.

    These are the formulas of `engine.model.activation`, and as exact. Of ReLU both cases are
    `max(e, -h) + min(h, 0)`, where one of the terms is always without rounding.
    """
    if rule is TANH:
        bent = torch.tanh(extra)
        return bent * bend / (held * bent).add_(1.0)
    if rule is RELU:
        return torch.maximum(extra, held).add_(bend)
    found: Tensor = rule.difference(held, extra)
    return found


class CompiledImage:
    """`image_of` as `torch.compile` makes it, for each shape of a batch once.

    Its operations are recorded first, so that the compiler sees no Python of a network.
    """

    def __init__(self, device: torch.device) -> None:
        self._made: dict[tuple[Any, ...], Image] = {}
        try:
            torch.compile(torch.neg)(torch.zeros(1, device=device))
        except Exception as error:  # whatever a compiler has to complain of
            raise EngineError(f"torch.compile does not work here: {reason(error)}.") from None

    def __call__(
        self,
        network: Network,
        layers: tuple[str, ...],
        still: bool,
        blocks: Blocks,
        *arrays: Tensor | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return what `image_of` does."""
        shapes = (None if part is None else (part.shape, part.dtype) for part in arrays)
        key = (layers, still, *shapes)
        if key not in self._made:
            with plain_products():
                recorded = make_fx(partial(image_of, network, layers, still))(blocks, *arrays)
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
    """Of the clamped couplings; of a displacement, what it needs of the drive of its origin."""
    beta: Tensor | None = None
    """Nudge of every sample, `(samples, 1)`; `None` is the free phase."""
    origin: Tensor | None = None
    """The states that are displaced; `None` where states are iterated."""
    bend: Tensor | None = None
    """What else displacements need of the drive of their origin."""
    turns: tuple[tuple[str, ...], ...] = ()
    """The layers in the groups in which they are updated; all at once if there are none."""
    compute: Image = image_of
    heard: dict[str, Tensor] | None = None
    """Room for the drive of each layer in the last step, if somebody wants it."""

    def image(self, state: Tensor, still: bool) -> Tensor:
        """`T(s)`, `(samples, units)`, turn by turn; `still` says that nothing is displaced yet."""
        arrays = (self.x, self.y, self.drive, self.beta, self.origin, self.bend)
        for turn, layers in enumerate(self.turns or (tuple(self.network.columns),)):
            first = still and turn == 0
            state, drives = self.compute(self.network, layers, first, self.blocks, *arrays, state)
            if self.heard is not None:
                self.heard.update(drives)
        return state

    @property
    def drive_heard(self) -> Tensor | None:
        """The drive of every layer in the last step, `(samples, units)`, if it is kept."""
        return (
            None
            if self.heard is None
            else side_by_side(self.heard[k] for k in self.network.columns)
        )

    def solved(self, solver: str) -> "Phase":
        """Return the same with the turns of a solver."""
        return replace(self, turns=self.network.turns(solver, nudged=self.beta is not None))

    def nudged(self, betas: tuple[float, ...]) -> "Phase":
        """Return the map of the batch under each of the betas, one below the other."""
        if betas == (0.0,):
            return self
        samples, times = len(self.drive), len(betas)
        # Filled on the device: a list would have to be uploaded.
        beta = torch.cat([self.drive.new_full((samples, 1), beta) for beta in betas])
        if times == 1:
            return replace(self, beta=beta)
        return replace(self._each(lambda array: array.repeat(times, 1)), beta=beta)

    def displaced(self, origin: Tensor, drive: Tensor | None = None) -> "Phase":
        """Return the map of displacements from `origin (samples, units)`, with its drive if known.

        That is any drive whose image is the origin.
        """
        network = self.network
        if drive is None:
            sent = sent_by(network, self.blocks, self.x, tuple(network.columns), False, origin)
            drive = side_by_side(sent.values()) + self.drive
        if _is_uniform(network):
            held, bend = _prepare(network.layers[0].rule, drive)
        else:
            parts = [
                _prepare(layer.rule, drive[:, network.columns[layer.name]])
                for layer in network.layers
            ]
            held, bend = (torch.cat(each, -1) for each in zip(*parts, strict=True))
        return replace(self, drive=held, origin=origin, bend=bend, heard=None)

    def select(self, rows: Tensor) -> "Phase":
        """Return the map of some of the samples."""
        return self._each(lambda array: array.index_select(0, rows))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Phase":
        """Return the same with every array changed that has a row for each sample."""
        held = {name: part for name in ROWS if (part := getattr(self, name)) is not None}
        if all(coupling.name in self.network.links for coupling in self.network.recurrent):
            del held["x"]  # which no link between layers reads
        changed: dict[str, Any] = {name: change(part) for name, part in held.items()}
        return replace(self, **changed)
