"""What an update depends on, found by disturbing one quantity at a time and by tracing.

A synapse may see its two ends and itself. The ends of a read-out synapse are the unit that it
reads and the error of the output unit that it feeds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from engine.arrays import BoolArray, FloatArray
from engine.backend import Backend
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT
from engine.equilibrium import Clamped, Equilibrium
from engine.model.network import Network
from engine.model.params import Params, partners

Rule: TypeAlias = Callable[[Params, Clamped, Sequence[tuple[float, Equilibrium]]], FloatArray]
"""The update `(network.size,)` from weights, a clamped batch and pairs of coefficient and phase."""


@dataclass(frozen=True)
class Offence:
    """A synapse whose update changed with something that is not at its ends."""

    synapse: str
    cause: str

    def __str__(self) -> str:
        return f"the update of {self.synapse} depends on {self.cause}"


def eqprop_rule(make: Callable[[Network, Params], Backend]) -> Rule:
    """Return the contrastive rule of two opposite phases as the backend executes it."""

    def rule(
        params: Params, clamped: Clamped, phases: Sequence[tuple[float, Equilibrium]]
    ) -> FloatArray:
        backend = make(params.network, params)
        held = backend.clamp(clamped.x, clamped.y)
        gradient = np.zeros(params.network.size, params.theta.dtype)
        (_, minus), (coefficient, plus) = phases
        backend.accumulate(held, plus.against(minus), gradient, energy=coefficient)
        return gradient

    return rule


def state_offences(
    rule: Rule, params: Params, clamped: Clamped, phases: Sequence[tuple[float, Equilibrium]]
) -> Iterator[Offence]:
    """Change one unit after the other, in all phases, and look at synapses that do not end there.

    Only couplings are looked at; equal means equal in every bit.
    """
    network, before = params.network, rule(params, clamped, phases)
    inside = _of_couplings(network)
    for unit in range(network.units):
        moved = [(c, replace(p, state=_moved(p.state, unit))) for c, p in phases]
        changed = rule(params, clamped, moved) != before
        for index in np.flatnonzero(changed & inside & ~_touched(network, unit)):
            yield Offence(_synapse(network, int(index)), f"the state of {_unit(network, unit)}")


def weight_offences(
    rule: Rule,
    params: Params,
    clamped: Clamped,
    phases: Sequence[tuple[float, Equilibrium]],
    weights: Sequence[int],
) -> Iterator[Offence]:
    """Change one weight after the other and look at all other synapses, with the states held."""
    network, before = params.network, rule(params, clamped, phases)
    inside, mirror = _of_couplings(network), partners(network)
    for weight in weights:
        changed_params = params.copy()
        changed_params.theta[[weight, mirror[weight]]] += 0.25
        changed = rule(changed_params, clamped, phases) != before
        changed[[weight, mirror[weight]]] = False
        for index in np.flatnonzero(changed & inside):
            yield Offence(_synapse(network, int(index)), f"the weight {_synapse(network, weight)}")


def readout_gap(backend: Backend, clamped: Clamped, free: Equilibrium) -> float:
    """Return the largest change of a read-out update when other units move, its ends held.

    The targets move along, so that the error of every output unit stays what it was, up to
    rounding. A synapse with an end at the moved unit may change and is not looked at.
    """
    network, readout = backend.network, backend.network.readout
    targets = np.array(clamped.y)
    held = backend.clamp(clamped.x, targets.copy())
    goal = (held.inner or held).y  # what the backend reads
    assert goal is not None
    before = _readout_update(backend, held, free)
    largest = 0.0
    for unit in range(network.columns[readout.layer].start, network.columns[readout.layer].stop):
        moved = replace(free, state=_moved(free.state, unit))
        shift = backend.predict(moved) - backend.predict(free)
        goal[...] = backend.own(
            targets + shift
        )  # no probabilities any more, which the rule does not mind
        after = _readout_update(backend, held, moved)
        gap = np.abs(after - before)
        row = unit - network.columns[readout.layer].start
        Params(network, gap)["W_out"][row] = 0.0
        largest = max(largest, float(gap.max()))
    return largest


def traced_offences(network: Network, params: Params, samples: int = 2) -> Iterator[Offence]:
    """Let every coupling compute its rule with numbers that remember where they come from."""
    for coupling in network.couplings:
        block = network.blocks[coupling.name]
        w = _labelled(coupling.name, block.shape)
        x = _labelled(INPUT, (network.inputs,), samples)
        ends = [_labelled(name, (network.sizes[name],), samples) for name in coupling.layers]
        update = np.asarray(coupling.correlate(w, x, *ends))
        for index in np.ndindex(*block.shape):
            allowed = {_indexed(coupling.name, index), *_ends(coupling, index)}
            entry = update[index]
            sources = entry.sources if isinstance(entry, Traced) else frozenset()
            for source in sorted(sources - allowed):
                yield Offence(_indexed(coupling.name, index), source)


class Traced:
    """A number that remembers the names of all it was computed from."""

    __slots__ = ("sources", "value")

    def __init__(self, value: float, sources: frozenset[str]) -> None:
        self.value, self.sources = value, sources

    def _with(self, other: Any, value: Callable[[float, float], float]) -> "Traced":
        if isinstance(other, Traced):
            return Traced(value(self.value, other.value), self.sources | other.sources)
        return Traced(value(self.value, float(other)), self.sources)

    def __add__(self, other: Any) -> "Traced":
        return self._with(other, lambda a, b: a + b)

    def __mul__(self, other: Any) -> "Traced":
        return self._with(other, lambda a, b: a * b)

    def __sub__(self, other: Any) -> "Traced":
        return self._with(other, lambda a, b: a - b)

    def __truediv__(self, other: Any) -> "Traced":
        return self._with(other, lambda a, b: a / b)

    __radd__, __rmul__ = __add__, __mul__


def _labelled(name: str, shape: tuple[int, ...], samples: int = 0) -> Any:
    """Return numbers that carry their place as a name; all samples of a unit carry the same."""
    array = np.empty((samples, *shape) if samples else shape, object)
    for k, index in enumerate(np.ndindex(*array.shape)):
        place = index[1:] if samples else index
        array[index] = Traced(0.1 + 0.01 * k, frozenset({_indexed(name, place)}))
    return array


def _ends(coupling: Coupling, index: tuple[int, ...]) -> Iterator[str]:
    """Names of the units at both ends of a synapse: rows are the first end, columns the last."""
    if len(index) == 1:
        yield f"{coupling.layers[0]}[{index[0]}]"
        return
    first = INPUT if coupling.clamped else coupling.layers[0]
    yield f"{first}[{index[0]}]"
    yield f"{coupling.layers[-1]}[{index[1]}]"


def _touched(network: Network, unit: int) -> BoolArray:
    """Mark the parameters with an end at a unit."""
    marks, here = Params(network, np.zeros(network.size)), _unit(network, unit)
    for coupling in network.couplings:
        for index in np.ndindex(*network.blocks[coupling.name].shape):
            marks[coupling.name][index] = here in _ends(coupling, index)
    touched: BoolArray = marks.theta == 1
    return touched


def _of_couplings(network: Network) -> BoolArray:
    marks = np.zeros(network.size, np.bool_)
    for coupling in network.couplings:
        marks[network.blocks[coupling.name].span] = True
    return marks


def _moved(state: FloatArray, unit: int) -> FloatArray:
    moved = state.copy()
    moved[:, unit] = 0.5 - 0.9 * moved[:, unit]
    return moved


def _unit(network: Network, unit: int) -> str:
    for name, span in network.columns.items():
        if span.start <= unit < span.stop:
            return f"{name}[{unit - span.start}]"
    raise IndexError(unit)


def _synapse(network: Network, index: int) -> str:
    for name, block in network.blocks.items():
        if block.span.start <= index < block.span.stop:
            place = np.unravel_index(index - block.start, block.shape)
            return _indexed(name, tuple(int(k) for k in place))
    raise IndexError(index)


def _indexed(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"


def _readout_update(backend: Backend, clamped: Clamped, free: Equilibrium) -> FloatArray:
    gradient = np.zeros(backend.network.size, backend.dtype)
    backend.accumulate(clamped, free, gradient, cost=1.0)
    return gradient
