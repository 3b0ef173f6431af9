"""What a network is: layers, couplings and a read-out. It owns no arrays and runs nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.arrays import Array, FloatArray
from engine.border import checked
from engine.couplings.bound import Bound, bound_of
from engine.couplings.conductance import Squares, squares_of
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT, Link, link_of
from engine.couplings.readout import Reading, Readout, reading_of
from engine.errors import MOST, EngineError
from engine.model.activation import ACTIVATIONS, Activation


@checked
@dataclass(frozen=True)
class Layer:
    """A named group of units that share an activation.

    `shape` is `(units,)`, `(tokens, features)` or `(height, width, channels)`; the units of a
    sample lie in that order, the last index first to change.
    """

    name: str
    shape: tuple[int, ...]
    activation: str = "tanh"
    """A name of `engine.model.activation`: tanh, relu, hard_sigmoid and others."""

    def __post_init__(self) -> None:
        if not self.shape:
            raise EngineError(f"layer '{self.name}' has no shape, expected (units,) at least.")
        for length in (*self.shape, self.size):
            _check_size(f"layer '{self.name}'", length)
        if self.name == INPUT:
            raise EngineError(f"a layer cannot be called '{INPUT}': that is the clamped input.")
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise EngineError(
                f"layer '{self.name}' has unknown activation '{self.activation}'; known: {known}."
            )

    @property
    def size(self) -> int:
        """Number of units."""
        return math.prod(self.shape)

    @property
    def rule(self) -> Activation:
        """The activation itself."""
        return ACTIVATIONS[self.activation]


@dataclass(frozen=True)
class Block:
    """Where a parameter block lies in the flat array, and its shape."""

    start: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of parameters."""
        return math.prod(self.shape)

    @cached_property
    def span(self) -> slice:
        """Its place in the flat array."""
        return slice(self.start, self.start + self.size)


@checked
@dataclass(frozen=True)
class Network:
    """`E(s) = sum_u G(s_u) - sum of the couplings' potentials`, read out by `readout`."""

    inputs: int
    """Numbers of a sample."""
    layers: tuple[Layer, ...]
    """In the order in which free sweeps update them."""
    couplings: tuple[Coupling, ...]
    """The terms of the potential; the parameters lie in their order."""
    readout: Readout

    def __post_init__(self) -> None:
        _check_size("the input", self.inputs)
        if not self.layers:
            raise EngineError("a network needs at least one layer.")
        _check_unique("layer", [layer.name for layer in self.layers])
        for coupling in self.couplings:
            for name in coupling.layers:
                self._check_layer(name, f"coupling '{coupling.name}'")
            if len(set(coupling.layers)) < len(coupling.layers):
                raise EngineError(
                    f"coupling '{coupling.name}' joins layer '{coupling.layers[0]}' to itself; "
                    "use Lateral for that."
                )
        self._check_layer(self.readout.layer, "the read-out")
        readout_blocks = self.readout.shapes(self.shapes[self.readout.layer])
        _check_size("the read-out", self.outputs)
        _check_unique("parameter block", [c.name for c in self.couplings] + list(readout_blocks))
        _ = self.blocks  # couplings refuse layers whose shape does not fit
        activations = {layer.name: layer.activation for layer in self.layers}
        for coupling in self.couplings:
            if hasattr(coupling, "check_activations"):  # one may not settle with all of them
                coupling.check_activations(activations)

    def _check_layer(self, name: str, user: str) -> None:
        if name not in self.sizes or name == INPUT:
            known = ", ".join(layer.name for layer in self.layers)
            raise EngineError(f"{user} names unknown layer '{name}'; known: {known}.")

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Size of the input and of every layer."""
        return {INPUT: self.inputs} | {layer.name: layer.size for layer in self.layers}

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of the input and of every layer."""
        return {INPUT: (self.inputs,)} | {layer.name: layer.shape for layer in self.layers}

    @cached_property
    def units(self) -> int:
        """Number of state variables of one sample."""
        return sum(layer.size for layer in self.layers)

    @cached_property
    def outputs(self) -> int:
        """Number of columns of a target and of a prediction."""
        return self.readout.width(self.shapes[self.readout.layer])

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Columns of a state `(samples, units)` that belong to each layer."""
        spans, start = {}, 0
        for layer in self.layers:
            spans[layer.name] = slice(start, start + layer.size)
            start += layer.size
        return spans

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """Every parameter block: first the couplings', then the read-out's."""
        shapes = {coupling.name: coupling.shape(self.shapes) for coupling in self.couplings}
        shapes |= self.readout.shapes(self.shapes[self.readout.layer])
        blocks: dict[str, Block] = {}
        start = 0
        for name, shape in shapes.items():
            blocks[name] = Block(start, shape)
            start += blocks[name].size
        return blocks

    @cached_property
    def size(self) -> int:
        """Number of parameters."""
        return sum(block.size for block in self.blocks.values())

    @cached_property
    def recurrent(self) -> tuple[Coupling, ...]:
        """Couplings whose drive depends on the state."""
        return tuple(coupling for coupling in self.couplings if not coupling.clamped)

    @cached_property
    def links(self) -> dict[str, Link]:
        """The couplings that are links, by name; the others are no product with a matrix."""
        found = {c.name: link_of(c, self.shapes) for c in self.couplings}
        return {name: link for name, link in found.items() if link is not None}

    @cached_property
    def squares(self) -> dict[str, Squares]:
        """The couplings whose energy holds squares of states, by name: conductances."""
        found = {c.name: squares_of(c) for c in self.couplings}
        return {name: squares for name, squares in found.items() if squares is not None}

    @cached_property
    def senders(self) -> dict[str, Link]:
        """What sends the drive of a coupling, by name: itself, if it is a link, or a cross term."""
        crossed = {name: squares.cross(self.shapes) for name, squares in self.squares.items()}
        return self.links | crossed

    @cached_property
    def bounds(self) -> dict[str, Bound]:
        """What bounds the norm of a recurrent coupling, by name; of others nothing is known."""
        found = {
            c.name: Bound(self.links[c.name]) if c.name in self.links else bound_of(c, self.shapes)
            for c in self.recurrent
        }
        return {name: bound for name, bound in found.items() if bound is not None}

    @cached_property
    def reading(self) -> Reading | None:
        """What the read-out is to its executions; `None` if only its own formulas say."""
        return reading_of(self.readout, self.shapes[self.readout.layer])

    @cached_property
    def compares_units(self) -> bool:
        """Whether units are compared with the targets, as they are."""
        return self.reading is not None and self.reading.link is None

    @cached_property
    def clips_outputs(self) -> bool:
        """Whether such units clip."""
        read = next(layer for layer in self.layers if layer.name == self.readout.layer)
        return self.compares_units and read.rule.clips

    @cached_property
    def vocabulary(self) -> int | None:
        """Number of different tokens; `None` where the inputs are numbers of any kind."""
        sizes = [c.vocabulary for c in self.couplings if hasattr(c, "vocabulary")]
        return min(sizes) if sizes else None

    def check_inputs(self, x: FloatArray) -> None:
        """Refuse inputs `(samples, inputs)` that are not tokens where tokens are expected."""
        for coupling in self.couplings:
            if hasattr(coupling, "check"):  # one that reads the input may be particular about it
                coupling.check(x)

    def of(self, layer: str, state: Array) -> Array:
        """View one layer of a state `(samples, units)` as `(samples, *shape)`."""
        part = state if len(self.layers) == 1 else state[:, self.columns[layer]]
        shape = self.shapes[layer]
        return part if len(shape) == 1 else part.reshape(len(part), *shape)

    def ends(self, coupling: Coupling, state: Array) -> list[Array]:
        """View the layers that a coupling touches, each `(samples, *shape)`."""
        return [self.of(name, state) for name in coupling.layers]

    @cached_property
    def linear(self) -> bool:
        """Whether the recurrent drive is linear in the state, so that it can be displaced."""
        others = (c.name for c in self.recurrent if c.name not in self.squares)
        bounds = (self.bounds.get(name) for name in others)
        return all(bound is not None and bound.bilinear for bound in bounds)

    def turns(self, solver: str, nudged: bool) -> tuple[tuple[str, ...], ...]:
        """Return the layers in groups, in the order in which a solver updates them in one step."""
        if solver == "alternating":
            return tuple(half for half in self.halves if half)
        if solver == "sweeps":
            upwards = tuple((layer.name,) for layer in self.layers)
            return upwards[::-1] if nudged else upwards
        return (tuple(self.columns),)

    def late(self, solver: str) -> tuple[str, ...]:
        """Return the layers that begin at zero: in sweeps all but the first.

        The first sweep is then a forward pass, in which nothing has to be sent down.
        """
        if solver != "sweeps":
            return ()
        return tuple(layer.name for layer in self.layers[1:])

    @cached_property
    def halves(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Two sets of layers such that every coupling joins one set to the other.

        The read-out's layer is in the first: only there may the nudge couple a layer to itself.
        """
        side = {self.readout.layer: 0}
        order = [self.readout.layer] + [layer.name for layer in self.layers]
        for root in order:
            side.setdefault(root, 0)
            frontier = [root]
            while frontier:
                here = frontier.pop()
                for coupling in self.recurrent:
                    if here not in coupling.layers:
                        continue
                    for there in set(coupling.layers) - {here}:
                        if there not in side:
                            side[there] = 1 - side[here]
                            frontier.append(there)
        for coupling in self.recurrent:
            if sorted(side[name] for name in coupling.layers) != [0, 1]:
                raise EngineError(
                    "alternating updates need layers in two halves with no coupling inside a half; "
                    f"coupling '{coupling.name}' lies inside one."
                )
        first, second = (tuple(n for n in self.columns if side[n] == half) for half in (0, 1))
        return first, second


def _check_size(what: str, size: int) -> None:
    if not 1 <= size <= MOST:
        raise EngineError(f"{what} has size {size}, expected from 1 to {MOST}.")


def _check_unique(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise EngineError(f"two things are called '{name}': each {what} needs its own name.")
