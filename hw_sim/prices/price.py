"""A price: what one event costs, with its range; a fixed one, or a table over a parameter.

Parameters come from a design: bits of its words, bytes of the memories that hold them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, log
from typing import TypeAlias

from hw_sim.prices.checks import TechnologyError

STATUSES = ("ran", "read", "second-hand", "recalled")
"""Of a number, the surest first."""
PARAMETERS = (
    "weight_bits", "state_bits", "multiplier_bits", "weight_bytes", "state_bytes", "trace_bytes",
    "tiles",
)  # fmt: skip
"""What a price may depend on; `multiplier_bits` is the geometric mean of both factors' widths."""
SCALES = ("none", "weight", "state", "product", "trace")
BETWEEN = ("log-log", "log-linear", "linear", "steps")
"""Straight lines between rows: of logarithms over logarithms, of logarithms, of values; or a row
that holds until the next one."""
BEYOND = ("refuse", "extend")
"""Of the last row: an error, or the line of the last two rows goes on in a wider range."""
FURTHEST = 30.0
"""How far a table is extended, in distances of its last two rows."""

Parameters: TypeAlias = Mapping[str, float]
"""By name, and `reference_bits`, the width for which prices that scale with bits are stated."""


@dataclass(frozen=True)
class Price:
    """The price of one event, in SI units, with the range within which it may lie."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    node: str
    source: str
    status: str
    scales: str = "none"
    """Energy only: with the bits of a weight, of a state, with their product, or with the bits of
    a learning word, which is twice as wide as a weight."""

    def at(self, parameters: Parameters) -> "Price":
        """Return the price for words of these widths."""
        if self.scales == "none":
            return self
        reference = parameters["reference_bits"]
        weight, state = (parameters[name] / reference for name in ("weight_bits", "state_bits"))
        by = {"weight": weight, "state": state, "product": weight * state, "trace": 2 * weight}
        return replace(self.times(by[self.scales]), scales="none")

    def times(self, factor: float) -> "Price":
        """Return a multiple of the price and of both its ends."""
        ends = [factor * end for end in (self.value, self.low, self.high)]
        return replace(self, value=ends[0], low=ends[1], high=ends[2])

    def listed(self) -> list["Price"]:
        """Return all that is stated."""
        return [self]


@dataclass(frozen=True)
class PriceTable:
    """Prices over a parameter, in ascending order; each row has a source and a status."""

    at: tuple[float, ...]
    rows: tuple[Price, ...]
    between: str
    beyond: str

    def price(self, parameter: str, x: float) -> Price:
        """Return the price at a value of the parameter: that of a row, or between two of them."""
        if x in self.at:
            return self.rows[self.at.index(x)]
        outside = not self.at[0] < x < self.at[-1]
        if outside and self.beyond == "refuse":
            raise TechnologyError(
                f"the table of '{self.rows[0].name}' goes from {parameter} {self.at[0]:g} to "
                f"{self.at[-1]:g}, not to {x:g}."
            )
        above = sum(at < x for at in self.at)
        if self.between == "steps":
            return self.rows[max(above, 1) - 1]
        right = min(max(above, 1), len(self.at) - 1)
        a, b = self.rows[right - 1], self.rows[right]
        place = _share(self.between, self.at[right - 1], self.at[right], x)
        if abs(place) > FURTHEST:
            raise TechnologyError(
                f"the table of '{self.rows[0].name}' is not extended from {parameter} "
                f"{self.at[0]:g} to {self.at[-1]:g} as far as {x:g}."
            )
        value, low, high = (
            _between(self.between, *ends, place)
            for ends in ((a.value, b.value), (a.low, b.low), (a.high, b.high))
        )
        found = _merged(replace(a, value=value, low=low, high=high), b)
        return _widened(found, a if above == 0 else b) if outside else found


@dataclass(frozen=True)
class PriceFunction:
    """A price that is a table over a parameter of the design, and a part that does not depend."""

    name: str
    table: PriceTable
    over: str
    plus: Price | None = None
    scales: str = "none"

    def at(self, parameters: Parameters) -> Price:
        """Return the price for a design."""
        found = replace(self.table.price(self.over, parameters[self.over]), name=self.name)
        if self.plus is not None:
            ends = [(getattr(found, e) + getattr(self.plus, e)) for e in ("value", "low", "high")]
            found = _merged(replace(found, value=ends[0], low=ends[1], high=ends[2]), self.plus)
        return replace(found, scales=self.scales).at(parameters)

    def listed(self) -> list[Price]:
        """Return all that is stated: rows, and the part that stays."""
        rows = [
            replace(row, name=f"{self.name} at {at:g} {self.over}")
            for at, row in zip(self.table.at, self.table.rows, strict=True)
        ]
        return rows + ([self.plus] if self.plus else [])


def _share(between: str, a: float, b: float, x: float) -> float:
    """Return how far from `a` to `b` the parameter lies."""
    if between == "log-log":
        return log(x / a) / log(b / a)
    return (x - a) / (b - a)


def _between(between: str, a: float, b: float, share: float) -> float:
    if between == "linear":
        return a + share * (b - a)
    return exp(log(a) + share * (log(b) - log(a)))


def _widened(found: Price, edge: Price) -> Price:
    """Keep the range of the last row and widen it, both ways, by what the value moved."""
    moved = found.value / edge.value
    wider = max(moved, 1 / moved)
    source = f"{found.source}; extended beyond the table"
    low, high = edge.low * moved / wider, edge.high * moved * wider
    return replace(found, source=source, low=low, high=high)


def _merged(found: Price, other: Price) -> Price:
    """Return a price with the sources of two, and the status of the less sure."""
    sources = dict.fromkeys((found.source, other.source))
    status = max(found.status, other.status, key=STATUSES.index)
    return replace(found, source="; ".join(sources), status=status)
