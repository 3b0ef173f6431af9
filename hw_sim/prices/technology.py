"""Prices: what one event costs in a technology, each with its range, its source and its status.

A technology is one table of a TOML file (`technologies.toml` ships six). Nothing is priced that has
no entry: an event without a price is an error that names it.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.border import checked
from engine.errors import shown
from hw_sim.events import KINDS
from hw_sim.prices.checks import (
    CONTROL,
    TechnologyError,
    check_choice,
    check_known,
    check_number,
    check_table,
    check_words,
    is_count,
)
from hw_sim.prices.machine import Machine, read_machine

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
SCALES = ("none", "weight", "state", "product")
MOST_BITS = 1024
LARGEST_FILE = 1 << 18
"""Bytes; the shipped file has a sixteenth of them."""
LONGEST_LINE = 4000


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
    machine: Machine = field(default_factory=Machine)

    def price(self, section: str, name: str) -> Price:
        """Return a price, or say which one is missing."""
        found = self.prices[section].get(name)
        if found is None:
            raise TechnologyError(f"technology '{self.name}' has no {section} price for '{name}'.")
        return found

    def takes_time(self, kind: str) -> bool:
        """Return whether an event takes time of its own, or say that the machine forgot it."""
        try:
            return self.machine.times(kind)
        except TechnologyError as error:
            raise TechnologyError(f"technology '{self.name}': {error}") from None

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
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise TechnologyError(f"{path} has {size:,} bytes, expected at most {LARGEST_FILE:,}.")
        text = path.read_text(encoding="utf-8")
    except TechnologyError:
        raise
    except (OSError, ValueError) as error:  # bytes that are no text, a name that is no path
        raise TechnologyError(f"{_plain(path)} cannot be read: {_plain(error)}.") from None
    return _parse(text, str(path))


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
    return {name: _technology(name, table, path) for name, table in content.items()}


def _technology(name: str, table: Any, path: str) -> Technology:
    where = f"{path}: technology {shown(name)}"
    if not name or CONTROL.search(name) or "\n" in name:
        raise TechnologyError(f"{where}: its name has to be words.")
    if not isinstance(table, dict):
        raise TechnologyError(f"{where} is {shown(table)}, expected a table.")
    check_known(where, "entry", table, ("title", "note", "reference_bits", "machine", *UNITS))
    if "title" not in table:
        raise TechnologyError(f"{where} has no title.")
    check_words(where, "title", table["title"])
    note = table.get("note", "")
    if note != "":
        check_words(where, "note", note)
    bits = table.get("reference_bits", 8)
    if not is_count(bits, MOST_BITS):
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
    machine = read_machine(where, table.get("machine"), table.get("latency", {}))
    return Technology(name, table["title"], note, bits, prices, machine)


def _price(where: str, section: str, entry: str, fields: Any) -> Price:
    if entry not in ENTRIES[section]:
        known = ", ".join(ENTRIES[section])
        raise TechnologyError(f"{where}: there is no such event; known: {known}.")
    check_table(where, fields, "with value, unit, source")
    for name in FIELDS:
        if name not in fields:
            raise TechnologyError(f"{where} has no {name}.")
    own = {"energy": ("scales",), "latency": ("parallel",)}.get(section, ())
    check_known(where, "field", fields, (*FIELDS, *own))
    check_choice(where, "unit", fields["unit"], tuple(UNITS[section]))
    check_choice(where, "status", fields["status"], STATUSES)
    check_choice(where, "scales", fields.get("scales", "none"), SCALES)
    for name in ("node", "source"):
        check_words(where, name, fields[name])
    low, value, high = _range(where, fields)
    if section == "endurance" and value == 0:
        raise TechnologyError(f"{where} has value 0, expected more: no cell fails unwritten.")
    scale = UNITS[section][fields["unit"]]
    return Price(
        entry, value * scale, low * scale, high * scale, fields["unit"], fields["node"],
        fields["source"], fields["status"], fields.get("scales", "none"),
    )  # fmt: skip


def _range(where: str, fields: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return low, value and high of a price, in its unit."""
    low, value, high = (
        check_number(where, name, fields[name]) for name in ("low", "value", "high")
    )
    if not low <= value <= high:
        raise TechnologyError(f"{where} has low {low}, value {value}, high {high}: not in order.")
    if low == 0 and value > 0:
        raise TechnologyError(f"{where} has low 0, expected more: its range is logarithmic.")
    return low, value, high


def _plain(what: object) -> str:
    """Return a path or what an exception says, printable and without a full stop."""
    text = str(what).rstrip(".")
    return text if text.isprintable() else ascii(text)
