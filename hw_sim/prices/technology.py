"""Prices: what one event costs in a technology, each with its range, its source and its status.

A technology is one table of a TOML file (`technologies.toml` ships six). Nothing is priced that has
no entry: an event without a price is an error that names it.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.border import checked
from engine.errors import shown
from hw_sim.prices.checks import (
    CONTROL,
    TechnologyError,
    check_known,
    check_table,
    check_words,
    is_count,
)
from hw_sim.prices.extending import extended
from hw_sim.prices.machine import Machine, read_machine
from hw_sim.prices.price import Parameters, Price, PriceFunction, PriceTable
from hw_sim.prices.reading import UNITS, read_price, read_table

MOST_BITS = 1024
LARGEST_FILE = 1 << 18
"""Bytes; the shipped file has a sixteenth of them."""
LONGEST_LINE = 4000
SHIPPED = "technologies.toml"


@dataclass(frozen=True)
class Technology:
    """A set of prices under one name."""

    name: str
    title: str
    note: str
    reference_bits: int
    """Width of the words for which prices that scale with bits are stated."""
    prices: Mapping[str, Mapping[str, Price | PriceFunction]]
    machine: Machine = field(default_factory=Machine)
    remedy: str = ""
    """How to state a price that is missing, where that is not plain."""
    extends: str = ""
    """The shipped one that it begins with, if it does."""

    def price(self, section: str, name: str) -> Price | PriceFunction:
        """Return a price as it is stated, or say which one is missing."""
        self.check_priced(section, [name])
        return self.prices[section][name]

    def check_priced(self, section: str, names: Iterable[str]) -> None:
        """Say which of the prices are missing, all at once."""
        missing = [f"'{name}'" for name in names if name not in self.prices[section]]
        if missing:
            said = f"; {self.remedy}" if self.remedy else ""
            raise TechnologyError(
                f"technology '{self.name}' has no {section} price for {', '.join(missing)}{said}."
            )

    def price_at(self, section: str, name: str, parameters: Parameters) -> Price:
        """Return a price for the words and memories of a design."""
        price = self.price(section, name)
        try:
            return price.at({**parameters, "reference_bits": self.reference_bits})
        except TechnologyError as error:
            raise TechnologyError(f"technology '{self.name}', {section}: {error}") from None

    def takes_time(self, kind: str) -> bool:
        """Return whether an event takes time of its own, or say that the machine forgot it."""
        try:
            return self.machine.times(kind)
        except TechnologyError as error:
            raise TechnologyError(f"technology '{self.name}': {error}") from None

    def check_timed(self, kinds: Iterable[str]) -> None:
        """Say which events the machine neither times nor hides, all at once."""
        machine = self.machine
        known = {*machine.stages, *machine.behind}
        missing = [f"'{kind}'" for kind in kinds if machine.stated and kind not in known]
        if missing:
            raise TechnologyError(
                f"technology '{self.name}': the machine says neither how long "
                f"{', '.join(missing)} take nor what they hide behind."
            )

    def listed(self) -> list[tuple[str, Price]]:
        """Return every price with its section, row by row."""
        return [
            (section, row)
            for section, group in self.prices.items()
            for price in group.values()
            for row in price.listed()
        ]


def shipped_technologies() -> dict[str, Technology]:
    """Return the technologies that come with the package."""
    return _packaged(SHIPPED)


def published_technologies() -> dict[str, Technology]:
    """Return the prices of publications whose figures are computed again."""
    return _packaged("published.toml")


def _packaged(name: str) -> dict[str, Technology]:
    return {of: technology_from(of, table, name) for of, table in _packaged_tables(name).items()}


@cache
def _packaged_tables(name: str) -> dict[str, Any]:
    return tomllib.loads(files("hw_sim.prices").joinpath(name).read_text(encoding="utf-8"))


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
    extends = ""
    if not name or CONTROL.search(name) or "\n" in name:
        raise TechnologyError(f"{where}: its name has to be words.")
    if not isinstance(table, dict):
        raise TechnologyError(f"{where} is {shown(table)}, expected a table.")
    if "extends" in table:
        extends = table["extends"]
        table = extended(where, table, _packaged_tables(SHIPPED))
    check_known(
        where, "entry", table, ("title", "note", "reference_bits", "machine", "tables", *UNITS)
    )
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
    tables = _tables(where, table.get("tables", {}))
    prices = {
        section: {
            entry: read_price(
                f"{where}, {section} of {shown(entry)}", section, entry, fields, tables
            )
            for entry, fields in table.get(section, {}).items()
        }
        for section in UNITS
    }
    machine = read_machine(where, table.get("machine"), table.get("latency", {}))
    return Technology(name, table["title"], note, bits, prices, machine, extends=extends)


def _tables(where: str, tables: Any) -> dict[str, PriceTable]:
    found = {}
    for name, table in check_table(f"{where}, tables", tables, "of tables").items():
        if CONTROL.search(name) or "\n" in name:
            raise TechnologyError(f"{where}, table {shown(name)}: its name has to be words.")
        found[name] = read_table(f"{where}, table {shown(name)}", name, table)
    return found


def _plain(what: object) -> str:
    """Return a path or what an exception says, printable and without a full stop."""
    text = str(what).rstrip(".")
    return text if text.isprintable() else ascii(text)
