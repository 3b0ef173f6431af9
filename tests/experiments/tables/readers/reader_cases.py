"""Rows as a table takes them."""

from pathlib import Path

from experiments.tables.readers.catalogue import READERS
from experiments.tables.readers.outputs import Rows
from experiments.tables.registry import MEASUREMENTS, TABLES


def fitting_rows(folder: Path, name: str) -> Rows:
    """Return the rows of a folder, which have to fit the table that shows them."""
    measurement = MEASUREMENTS[name]
    rows = READERS[measurement.reader or ""](folder, measurement.command, folder)
    (table,) = [table for table in TABLES.values() if table.shows(name)]
    assert dict(table.parts)[name] == len(rows)
    assert {len(row) for row in rows} == {len(table.header)}
    return rows
