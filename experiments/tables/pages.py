"""Tables in pages: what stands between their markers, and what should."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from experiments.records import write_text
from experiments.tables.measurement import PageTable
from experiments.tables.registry import MEASUREMENTS, TABLES
from experiments.tables.stored import Stored, TablesError, load_stored

OLDER = "with an earlier version of the code"


def fill_pages(root: Path, tables: Mapping[str, PageTable] = TABLES) -> list[str]:
    """Write every table from what is stored; return the pages that have changed."""
    texts = {page: _read(root, page) for page in dict.fromkeys(t.page for t in tables.values())}
    before = dict(texts)
    for name, table in tables.items():
        text = texts[table.page]
        start, end = _place(text, name, table.page)
        texts[table.page] = text[:start] + render(root, table) + text[end:]
    changed = [page for page in texts if texts[page] != before[page]]
    for page in changed:
        write_text(root / page, texts[page])
    return changed


def faults(root: Path, tables: Mapping[str, PageTable] = TABLES) -> list[str]:
    """Say of every table that does not show what is stored why, in a sentence."""
    found = []
    for name, table in tables.items():
        try:
            text = _read(root, table.page)
            start, end = _place(text, name, table.page)
            if text[start:end] != render(root, table):
                found.append(_fault(root, name, table, text[start:end]))
            if table.picture:
                found += _picture_faults(root, table)
        except TablesError as error:
            found.append(str(error))
    return found


def rows_in_page(root: Path, name: str, table: PageTable, part: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a measurement as the page shows them."""
    if table.picture:
        return ((table.picture, picture_hash(root / table.picture)),)
    text = _read(root, table.page)
    start, end = _place(text, name, table.page)
    lines = [line for line in text[start:end].splitlines() if line.startswith("|")][2:]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    wanted = sum(count for _, count in table.parts)
    if len(cells) != wanted:
        raise TablesError(f"table {name} of {table.page} has {len(cells)} rows, expected {wanted}.")
    at = 0
    for owner, count in table.parts:
        if owner == part:
            return tuple(cells[at : at + count])
        at += count
    raise TablesError(f"table {name} has no rows of {part}.")


def render(root: Path, table: PageTable) -> str:
    """Return what has to stand between the markers of a table."""
    stored = {part: load_stored(root, part) for part, _ in table.parts}
    for part, count in table.parts:
        if len(stored[part].rows) != count:
            raise TablesError(
                f"{part} has {len(stored[part].rows)} stored rows, the table expects {count}."
            )
    rows = [row for part, _ in table.parts for row in stored[part].rows]
    if table.picture:
        place = os.path.relpath(rows[0][0], Path(table.page).parent)
        body = f"![{table.header[0]}]({Path(place).as_posix()})"
    elif table.line:
        body = "\n".join(f"- {table.line.format(*row)}" for row in rows)
    else:
        rule = ["---"] * table.text_columns
        rule += ["---:"] * (len(table.header) - len(rule))
        lines = [f"| {' | '.join(cells)} |" for cells in (table.header, *rows)]
        body = "\n".join([lines[0], f"|{'|'.join(rule)}|", *lines[1:]])
    return f"\n\n{body}\n\n{_origin(root, stored)}\n\n"


def _origin(root: Path, stored: Mapping[str, Stored]) -> str:
    """Say by which command and when the rows were measured, and what else one should know."""
    parts = []
    for name, one in stored.items():
        about = [one.date]
        if one.is_older(MEASUREMENTS[name], root):
            about.append(OLDER)
        if one.by_hand:
            about.append("entered by hand")
        parts.append(f"`{one.command}` ({', '.join(about)})")
    return f"*Measured by {'; '.join(parts)}.*"


def _fault(root: Path, name: str, table: PageTable, shown: str) -> str:
    older = [
        part
        for part, _ in table.parts
        if load_stored(root, part).is_older(MEASUREMENTS[part], root)
    ]
    if older and OLDER not in shown:
        return (
            f"{table.page}: table {name} is older than the code that {' and '.join(older)} "
            "depends on, and not marked so: run `python -m experiments.tables --fill`, or "
            "measure it again."
        )
    return (
        f"{table.page}: table {name} is not what is stored: run "
        "`python -m experiments.tables --fill`."
    )


def _picture_faults(root: Path, table: PageTable) -> list[str]:
    """Compare the picture with the hash that is stored of it."""
    ((part, _),) = table.parts
    path, digest = load_stored(root, part).rows[0]
    if path != table.picture or picture_hash(root / path) != digest:
        return [f"{table.page}: {path} is not the picture that is stored as {part}."]
    return []


def picture_hash(path: Path) -> str:
    """Return the SHA-256 of a file; empty if it is not there."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _place(text: str, name: str, page: str) -> tuple[int, int]:
    """Return where the text between the markers of a table begins and ends."""
    first, last = f"<!-- table {name} -->", f"<!-- end {name} -->"
    if text.count(first) != 1 or text.count(last) != 1 or text.index(first) > text.index(last):
        raise TablesError(f"{page} has not one '{first}' and one '{last}' behind it.")
    return text.index(first) + len(first), text.index(last)


def _read(root: Path, page: str) -> str:
    try:
        return (root / page).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TablesError(
            f"there is no {page} in {root}: tables are written in a checkout of Settle."
        ) from None
