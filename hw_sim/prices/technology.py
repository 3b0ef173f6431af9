"""Prices: what one event costs in a technology, each with its range, its source and its status.

A technology is one table of a TOML file (`technologies.toml` ships six). Nothing is priced that has
no entry: an event without a price is an error that names it.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.border import checked
from engine.errors import shown
from hw_sim.events import KINDS, WAITS

STATUSES = ("ran", "read", "second-hand", "recalled")
UNITS = {
    "energy": {"fJ": 1e-15, "pJ": 1e-12, "nJ": 1e-9, "uJ": 1e-6},
    "latency": {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3},
    "area": {"um2": 1e-12, "mm2": 1e-6},
    "endurance": {"writes": 1.0},
}
"""Of each section: units, and what they are in joules, seconds, square metres and writes."""
ENTRIES = {
    "energy": tuple(kind for kind in KINDS if kind not in WAITS),
    "latency": KINDS,
    "area": ("neuron", "memory_bit", "cell"),
    "endurance": ("weight_write",),
}
FIELDS = ("value", "low", "high", "unit", "node", "source", "status")
PARALLEL = ("unit", "synapse")
SCALES = ("none", "weight", "state", "product")
LEAST_PRICE, MOST_PRICE = 1e-18, 1e18
"""In the unit of a price, if it is not zero."""
MOST_BITS = 1024
MOST_PARALLEL = 10**12
LARGEST_FILE = 1 << 18
"""Bytes; the shipped file has a sixteenth of them."""
LONGEST_LINE = 4000
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that no text needs: all controls but the tab and the end of a line."""


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
    by_tiles: tuple[tuple[int, float], ...] = ()
    """Latency only: its value from so many tiles of cores on, ascending; low and high follow it."""

    def on(self, tiles: int) -> "Price":
        """Return the price on so many tiles."""
        values = [value for least, value in self.by_tiles if least <= tiles]
        if not values:
            return self
        low, high = (end / self.value * values[-1] for end in (self.low, self.high))
        return replace(self, value=values[-1], low=low, high=high)


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
    text = files("hw_sim.prices").joinpath("technologies.toml").read_text(encoding="utf-8")
    return _parse(text, "technologies.toml")


@checked
def load_technologies(path: Path) -> dict[str, Technology]:
    """Read a user's file, or refuse it in one sentence."""
    return _parse(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Return the text of a file of prices, unless it is none or far too long."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise TechnologyError(f"{path} has {size:,} bytes, expected at most {LARGEST_FILE:,}.")
        return path.read_text(encoding="utf-8")
    except TechnologyError:
        raise
    except (OSError, ValueError) as error:  # bytes that are no text, a name that is no path
        raise TechnologyError(f"{_plain(path)} cannot be read: {_plain(error)}.") from None


def _parse(text: str, path: str) -> dict[str, Technology]:
    longest = max(map(len, text.splitlines()), default=0)
    if longest > LONGEST_LINE:  # a key of many parts takes the square of its length to parse
        raise TechnologyError(
            f"{path} has a line of {longest:,} characters, expected at most {LONGEST_LINE:,}."
        )
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise TechnologyError(
            f"{path} is not a technology file: it is nested too deeply."
        ) from None
    except ValueError as error:
        raise TechnologyError(f"{path} is not TOML: {_plain(error)}.") from None
    if not content:
        raise TechnologyError(f"{path} holds no technology.")
    return {name: technology_from(name, table, path) for name, table in content.items()}


def technology_from(name: str, table: Any, path: str) -> Technology:
    """Return the technology that a table of a file describes, or say what is wrong with it."""
    where = f"{path}: technology {shown(name)}"
    if not name or CONTROL.search(name) or "\n" in name:
        raise TechnologyError(f"{where}: its name has to be words.")
    if not isinstance(table, dict):
        raise TechnologyError(f"{where} is {shown(table)}, expected a table.")
    _check_known(where, "entry", table, ("title", "note", "reference_bits", *UNITS))
    if "title" not in table:
        raise TechnologyError(f"{where} has no title.")
    _check_words(where, "title", table["title"])
    note = table.get("note", "")
    if note != "":
        _check_words(where, "note", note)
    bits = table.get("reference_bits", 8)
    if not _is_count(bits, MOST_BITS):
        raise TechnologyError(
            f"{where} has reference_bits {shown(bits)}, expected from 1 to {MOST_BITS}."
        )
    for section in UNITS:
        if not isinstance(table.get(section, {}), dict):
            found = shown(table[section])
            raise TechnologyError(f"{where} has {section} {found}, expected a table of prices.")
    if not table.get("energy"):
        raise TechnologyError(f"{where} has no energy prices.")
    prices = {
        section: {
            entry: _price(f"{where}, {section} of {shown(entry)}", section, entry, fields)
            for entry, fields in table.get(section, {}).items()
        }
        for section in UNITS
    }
    return Technology(name, table["title"], note, bits, prices)


def _price(where: str, section: str, entry: str, fields: Any) -> Price:
    if entry not in ENTRIES[section]:
        known = ", ".join(ENTRIES[section])
        raise TechnologyError(f"{where}: there is no such event; known: {known}.")
    if not isinstance(fields, dict):
        raise TechnologyError(
            f"{where} is {shown(fields)}, expected a table with value, unit, source."
        )
    for field in FIELDS:
        if field not in fields:
            raise TechnologyError(f"{where} has no {field}.")
    _check_known(where, "field", fields, (*FIELDS, "parallel", "scales", "by_tiles"))
    _check_choices(where, section, fields)
    low, value, high = (_number(where, name, fields[name]) for name in ("low", "value", "high"))
    if not low <= value <= high:
        raise TechnologyError(f"{where} has low {low}, value {value}, high {high}: not in order.")
    if low == 0 and value > 0:
        raise TechnologyError(f"{where} has low 0, expected more: its range is logarithmic.")
    if section == "endurance" and value == 0:
        raise TechnologyError(f"{where} has value 0, expected more: no cell fails unwritten.")
    scale = UNITS[section][fields["unit"]]
    return Price(
        entry, value * scale, low * scale, high * scale, fields["unit"], fields["node"],
        fields["source"], fields["status"], fields.get("parallel", 1), fields.get("scales", "none"),
        _by_tiles(where, section, fields, value, scale),
    )  # fmt: skip


def _by_tiles(
    where: str, section: str, fields: Mapping[str, Any], value: float, scale: float
) -> tuple[tuple[int, float], ...]:
    """Return pairs of a number of tiles and the value from there on; the first is the value."""
    pairs = fields.get("by_tiles", [])
    if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        raise TechnologyError(
            f"{where} has by_tiles {shown(pairs)}, expected pairs of tiles and value."
        )
    if not pairs:
        return ()
    if section != "latency" or value == 0:
        raise TechnologyError(f"{where} has by_tiles, which only a latency above zero has.")
    tiles = [least for least, _ in pairs]
    if not all(_is_count(least, MOST_PARALLEL) for least in tiles) or tiles != sorted(set(tiles)):
        raise TechnologyError(f"{where} has by_tiles {shown(pairs)}, expected ascending tiles.")
    values = [_number(where, "by_tiles", each) for _, each in pairs]
    if values[0] != value or 0.0 in values:
        raise TechnologyError(
            f"{where} has by_tiles {shown(pairs)}, expected to begin with its value {value:g}, "
            "and nothing at zero."
        )
    return tuple(zip(tiles, (each * scale for each in values), strict=True))


def _number(where: str, name: str, number: Any) -> float:
    """Return a price as it is stated, from a range in which no bill overflows."""
    real = isinstance(number, int | float) and not isinstance(number, bool)
    if not (real and (number == 0 or LEAST_PRICE <= number <= MOST_PRICE)):
        raise TechnologyError(
            f"{where} has {name} {shown(number)}, expected zero, or from {LEAST_PRICE:g} to "
            f"{MOST_PRICE:g}."
        )
    return float(number)


def _check_choices(where: str, section: str, fields: Mapping[str, Any]) -> None:
    choices = {"unit": tuple(UNITS[section]), "status": STATUSES, "scales": SCALES}
    for field, known in choices.items():
        if field in fields and fields[field] not in known:
            found = shown(fields[field])
            raise TechnologyError(f"{where} has {field} {found}; known: {', '.join(known)}.")
    for field in ("node", "source"):
        _check_words(where, field, fields[field])
    parallel = fields.get("parallel", 1)
    if not (_is_count(parallel, MOST_PARALLEL) or parallel in PARALLEL):
        raise TechnologyError(
            f"{where} has parallel {shown(parallel)}; expected a count or a place."
        )


def _check_known(where: str, what: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = set(found) - set(known)
    if unknown:
        raise TechnologyError(f"{where} has the unknown {what} {shown(min(unknown))}.")


def _check_words(where: str, field: str, text: Any) -> None:
    if not isinstance(text, str) or not text or CONTROL.search(text):
        raise TechnologyError(f"{where} has {field} {shown(text)}, expected words.")


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _plain(what: object) -> str:
    """Return a path or what an exception says, printable and without a full stop."""
    text = str(what).rstrip(".")
    return text if text.isprintable() else ascii(text)
