"""A report as data: sections of text, tables and figures that every renderer understands.

`markdown_page`, `html_page` and `terminal_table` render the same objects, so that a number is
formatted once and cannot differ between the files of one report.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Tone: TypeAlias = Literal["good", "bad", "open"]
"""Of a badge: what was hoped for, what was not, and what is not known."""


@dataclass(frozen=True)
class Badge:
    """A word that judges, such as a verdict."""

    text: str
    tone: Tone


@dataclass(frozen=True)
class Cited:
    """Words that lead to where a number comes from: an address on the web."""

    text: str
    address: str

    def __post_init__(self) -> None:
        if not self.address.startswith("https://"):
            raise ValueError(f"the source of {self.text!r} has the address {self.address!r}.")


Cell: TypeAlias = str | Badge | Cited


@dataclass(frozen=True)
class Table:
    """Rows below a header; columns after the first `text_columns` hold numbers.

    A line break in a cell is where it should break if its column is narrow: what follows is less
    important.
    """

    title: str
    header: tuple[str | Cited, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    text_columns: int = 1


@dataclass(frozen=True)
class Figure:
    """A drawing as SVG; `path` is that of its picture, relative to the report.

    `dark_svg` is the same drawing for a dark page, `phone` the two for a narrow one.
    """

    title: str
    caption: str
    path: str
    svg: str
    dark_svg: str | None = None
    phone: tuple[str, str] | None = None


@dataclass(frozen=True)
class Bullets:
    """A list of short statements."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Text to be copied as it stands."""

    text: str


Block: TypeAlias = str | Bullets | Code | Table | Figure
"""A part of a section; a plain string is a paragraph."""


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report; `lead` says in a few sentences what came out."""

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]


def text_of(cell: Cell) -> str:
    """Return what a cell says."""
    return cell if isinstance(cell, str) else cell.text
