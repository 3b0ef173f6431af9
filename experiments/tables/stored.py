"""What a command measured, as it is kept in docs/results: one JSON for each measurement."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.records import write_text
from experiments.tables.code import code_fingerprint
from experiments.tables.measurement import Measurement

FOLDER = Path("docs", "results")


class TablesError(Exception):
    """A table cannot be made, read or shown, in one sentence."""


@dataclass(frozen=True)
class Stored:
    """Rows of text as a page shows them, and where they come from.

    `code` is the fingerprint of the code that measured them; `None` of an earlier version of which
    nothing more is known.
    """

    command: str
    date: str
    code: str | None
    by_hand: bool
    machine: Mapping[str, str]
    rows: tuple[tuple[str, ...], ...]

    def is_older(self, measurement: Measurement, root: Path) -> bool:
        """Tell whether it was measured by other code, or another command, than there is."""
        if self.code is None or self.command != measurement.told:
            return True
        return self.code != code_fingerprint(measurement.depends, root)


def load_stored(root: Path, name: str) -> Stored:
    """Read a stored result."""
    path = root / FOLDER / f"{name}.json"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields["rows"] = tuple(tuple(row) for row in fields["rows"])
        return Stored(**fields)
    except FileNotFoundError:
        raise TablesError(
            f"nothing is stored of {name}: run `python -m experiments.tables {name}`."
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TablesError(f"{FOLDER / path.name} is no stored result: {error}.") from None


def save_stored(root: Path, name: str, stored: Stored) -> None:
    """Write a result as a whole."""
    text = json.dumps(asdict(stored), indent=1, ensure_ascii=False)
    write_text(root / FOLDER / f"{name}.json", text + "\n")
