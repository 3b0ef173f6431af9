"""What a table is made of: commands, the code on which they depend, and a place in a page."""

from dataclasses import dataclass

ENGINE = ("engine/**/*.py",)


@dataclass(frozen=True)
class Measurement:
    """A command, and the files of code on which what it measures depends.

    `first` are commands that have to have run before it. `reader` names the function of
    `readers/catalogue.py` that makes rows of what the command wrote; without one the rows are
    entered by hand from its output, and the page says so. `picture` is a file that the command
    wrote instead, which is copied to where the table shows it. `out` is what the command is told
    to write into its folder, where that is one file.
    """

    command: str
    depends: tuple[str, ...]
    reader: str | None = None
    first: tuple[str, ...] = ()
    picture: str = ""
    out: str = ""

    @property
    def told(self) -> str:
        """All commands, as a shell takes them."""
        return " && ".join((*self.first, self.command))


@dataclass(frozen=True)
class PageTable:
    """A table between its markers in a page: rows of measurements, one after the other.

    `parts` has the names of the measurements and how many rows of each there are. With `line` the
    rows are items of a list in these words. `picture` is a file instead, which the page shows with
    the header as its title.
    """

    page: str
    parts: tuple[tuple[str, int], ...]
    header: tuple[str, ...] = ()
    text_columns: int = 1
    line: str = ""
    picture: str = ""

    def shows(self, name: str) -> bool:
        """Tell whether it has rows of a measurement."""
        return name in (part for part, _ in self.parts)


def picture_table(page: str, name: str, title: str, picture: str) -> PageTable:
    """Return the place of the picture that a measurement makes."""
    return PageTable(page, ((name, 1),), (title,), picture=f"docs/images/{picture}")
