"""Prices: what one event costs in a technology, each with its range, its source and its status.

A technology is one table of a TOML file (`technologies.toml` ships six). Nothing is priced that has
no entry: an event without a price is an error that names it.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from hw_sim.layout import KINDS

STATUSES = ("ran", "read", "second-hand", "recalled")
UNITS = {
    "energy": {"fJ": 1e-15, "pJ": 1e-12, "nJ": 1e-9, "uJ": 1e-6},
    "latency": {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3},
    "area": {"um2": 1e-12, "mm2": 1e-6},
    "endurance": {"writes": 1.0},
}
"""Of each section: units, and what they are in joules, seconds, square metres and writes."""
ENTRIES = {
    "energy": KINDS,
    "latency": KINDS,
    "area": ("neuron", "memory_bit", "cell"),
    "endurance": ("weight_write",),
}
FIELDS = ("value", "low", "high", "unit", "node", "source", "status")
PARALLEL = ("unit", "synapse")
SCALES = ("none", "weight", "state", "product")


class TechnologyError(ValueError):
    """A technology file that cannot be used, or an event without a price, as one sentence."""


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
    parallel: str | int = 1
    """Latency only: how many such events happen at once; `unit` and `synapse` mean all."""
    scales: str = "none"
    """Energy only: with the bits of a weight, of a state, or with their product."""


@dataclass(frozen=True)
class Technology:
    """A set of prices under one name."""

    name: str
    title: str
    note: str
    reference_bits: int
    """Width of the words for which prices that scale with bits are stated."""
    prices: Mapping[str, Mapping[str, Price]]

    def price(self, section: str, name: str) -> Price:
        """Return a price, or say which one is missing."""
        found = self.prices[section].get(name)
        if found is None:
            raise TechnologyError(f"technology '{self.name}' has no {section} price for '{name}'.")
        return found

    def listed(self) -> list[tuple[str, Price]]:
        """Return every price with its section."""
        return [(section, p) for section, group in self.prices.items() for p in group.values()]


def shipped_technologies() -> dict[str, Technology]:
    """Return the technologies that come with the package."""
    text = files("hw_sim").joinpath("technologies.toml").read_text(encoding="utf-8")
    return _parse(text, "technologies.toml")


def load_technologies(path: Path) -> dict[str, Technology]:
    """Read a user's file, or refuse it in one sentence."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TechnologyError(f"{path} cannot be read: {error}.") from None
    return _parse(text, str(path))


def _parse(text: str, path: str) -> dict[str, Technology]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TechnologyError(f"{path} is not TOML: {error}.") from None
    if not content:
        raise TechnologyError(f"{path} holds no technology.")
    return {name: _technology(name, table, path) for name, table in content.items()}


def _technology(name: str, table: Any, path: str) -> Technology:
    where = f"{path}: technology '{name}'"
    if not isinstance(table, dict):
        raise TechnologyError(f"{where} is {table!r}, expected a table.")
    unknown = set(table) - {"title", "note", "reference_bits", *UNITS}
    if unknown:
        raise TechnologyError(f"{where} has the unknown entry '{min(unknown)}'.")
    if not isinstance(table.get("title"), str):
        raise TechnologyError(f"{where} has no title.")
    bits = table.get("reference_bits", 8)
    if not isinstance(bits, int) or bits < 1:
        raise TechnologyError(f"{where} has reference_bits {bits!r}, expected at least 1.")
    if not table.get("energy"):
        raise TechnologyError(f"{where} has no energy prices.")
    prices = {
        section: {
            entry: _price(f"{where}, {section} of '{entry}'", section, entry, fields)
            for entry, fields in table.get(section, {}).items()
        }
        for section in UNITS
    }
    return Technology(name, table["title"], str(table.get("note", "")), bits, prices)


def _price(where: str, section: str, entry: str, fields: Any) -> Price:
    if entry not in ENTRIES[section]:
        known = ", ".join(ENTRIES[section])
        raise TechnologyError(f"{where}: there is no such event; known: {known}.")
    if not isinstance(fields, dict):
        raise TechnologyError(f"{where} is {fields!r}, expected a table with value, unit, source.")
    for field in FIELDS:
        if field not in fields:
            raise TechnologyError(f"{where} has no {field}.")
    unknown = set(fields) - {*FIELDS, "parallel", "scales"}
    if unknown:
        raise TechnologyError(f"{where} has the unknown field '{min(unknown)}'.")
    _check_words(where, section, fields)
    low, value, high = (fields[name] for name in ("low", "value", "high"))
    for name in ("low", "value", "high"):
        number = fields[name]
        if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
            raise TechnologyError(f"{where} has {name} {number!r}, expected zero or more.")
    if not (low <= value <= high and math.isfinite(high)):
        raise TechnologyError(f"{where} has low {low}, value {value}, high {high}: not in order.")
    if low == 0 and value > 0:
        raise TechnologyError(f"{where} has low 0, expected more: its range is logarithmic.")
    scale = UNITS[section][fields["unit"]]
    return Price(
        entry, value * scale, low * scale, high * scale, fields["unit"], fields["node"],
        fields["source"], fields["status"], fields.get("parallel", 1), fields.get("scales", "none"),
    )  # fmt: skip


def _check_words(where: str, section: str, fields: Mapping[str, Any]) -> None:
    if fields["unit"] not in UNITS[section]:
        known = ", ".join(UNITS[section])
        raise TechnologyError(f"{where} has unit {fields['unit']!r}; known: {known}.")
    if fields["status"] not in STATUSES:
        known = ", ".join(STATUSES)
        raise TechnologyError(f"{where} has status {fields['status']!r}; known: {known}.")
    for field in ("node", "source"):
        if not isinstance(fields[field], str) or not fields[field]:
            raise TechnologyError(f"{where} has {field} {fields[field]!r}, expected words.")
    parallel = fields.get("parallel", 1)
    is_count = isinstance(parallel, int) and not isinstance(parallel, bool) and parallel >= 1
    if not (is_count or parallel in PARALLEL):
        raise TechnologyError(f"{where} has parallel {parallel!r}; expected a count or a place.")
    if fields.get("scales", "none") not in SCALES:
        raise TechnologyError(f"{where} has scales {fields['scales']!r}; known: {SCALES}.")
