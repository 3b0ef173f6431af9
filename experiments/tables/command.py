"""The work of the command: run what a table is measured by, keep its rows, fill the pages."""

import argparse
import shlex
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from rich.console import Console

from experiments.machine import describe_machine
from experiments.shell import guarded, make_console
from experiments.tables.code import code_files, code_fingerprint
from experiments.tables.pages import faults, fill_pages, rows_in_page
from experiments.tables.registry import MEASUREMENTS, TABLES, Measurement
from experiments.tables.stored import Stored, TablesError, load_stored, save_stored

ROOT = Path(__file__).parents[2]
KEPT = "What was measured is stored; the same command with the other names goes on."
OUT = Path("results", "tables")


def run(options: argparse.Namespace, root: Path = ROOT) -> int:
    """Do what the options ask for; return the exit code."""
    console = make_console()

    def work() -> int:
        names = options.names or list(MEASUREMENTS)
        if options.list:
            _list(console, root, names)
        elif options.check:
            return _check(console, root)
        elif options.fill:
            _fill(console, root)
        elif options.enter:
            _enter(console, options, root)
        elif options.taken is not None:
            _take(options, root)
            _fill(console, root)
        else:
            _measure(console, root, names)
        return 0

    return guarded(work, console, (TablesError,), KEPT)


def _check(console: Console, root: Path) -> int:
    found = faults(root)
    for sentence in found:
        console.print(sentence, soft_wrap=True)
    if not found:
        console.print(f"{len(TABLES)} tables show what is stored.")
    return 1 if found else 0


def _fill(console: Console, root: Path) -> None:
    changed = fill_pages(root)
    console.print(f"Written: {', '.join(changed)}." if changed else "All tables are as stored.")


def _list(console: Console, root: Path, names: list[str]) -> None:
    for name in names:
        measurement = MEASUREMENTS[name]
        try:
            stored = load_stored(root, name)
            age = "earlier code" if stored.is_older(measurement, root) else "this code"
            about = f"{stored.date}, {age}"
        except TablesError:
            about = "nothing stored"
        console.print(f"{name}: {measurement.command} ({about})", soft_wrap=True)


def _measure(console: Console, root: Path, names: list[str]) -> None:
    """Run one command after the other; pages are filled after each."""
    asked = [name for name in names if MEASUREMENTS[name].reader is not None]
    for name in sorted(set(names) - set(asked)):
        console.print(
            f"{name} has no reader: run `{MEASUREMENTS[name].command}`, enter its rows into the "
            f"page, then `python -m experiments.tables --enter {name}`.",
            soft_wrap=True,
        )
    for name in asked:
        measurement, folder = MEASUREMENTS[name], root / OUT / name
        code = code_fingerprint(measurement.depends, root)
        console.print(f"{name}: {measurement.command}", soft_wrap=True)
        words = [sys.executable, *shlex.split(measurement.command)[1:], "--out", str(folder)]
        began = time.time()
        ended = subprocess.run(words, cwd=root, check=False).returncode
        # A goal that was missed is a result; a crash ends with the same code and writes no report.
        written = max((path.stat().st_mtime for path in _files(folder)), default=0.0)
        if ended not in (0, 1) or written < began:
            raise TablesError(f"the command of {name} ended with exit code {ended} and no report.")
        _store(root, name, measurement, folder, date.today(), code)
        _fill(console, root)


def _take(options: argparse.Namespace, root: Path) -> None:
    """Store what a finished command has written, as old as the first file that it wrote."""
    name = _only(options.names)
    measurement, folder = MEASUREMENTS[name], options.taken
    written = [path.stat().st_mtime for path in _files(folder)]
    if not written:
        raise TablesError(f"{folder} holds no output of `{measurement.command}`.")
    began = min(written)
    touched = max(p.stat().st_mtime for p in code_files(measurement.depends, root))
    code = code_fingerprint(measurement.depends, root) if touched < began else None
    _store(root, name, measurement, folder, date.fromtimestamp(max(written)), code)


def _store(
    root: Path, name: str, measurement: Measurement, folder: Path, day: date, code: str | None
) -> None:
    if measurement.reader is None:
        raise TablesError(f"{name} has no reader.")
    from experiments.tables.readers import READERS  # scipy, which a check need not wait for

    rows = READERS[measurement.reader](folder, measurement.command, root)
    machine = describe_machine()
    command = measurement.command
    save_stored(root, name, Stored(command, day.isoformat(), code, False, machine, rows))


def _enter(console: Console, options: argparse.Namespace, root: Path) -> None:
    """Store rows that a page shows: of this code today, of an earlier one with a date."""
    name = _only(options.names)
    (place,) = [
        key
        for key, table in TABLES.items()
        if table.header and name in (part for part, _ in table.parts)
    ]
    measurement, table = MEASUREMENTS[name], TABLES[place]
    rows = rows_in_page(root, place, table, name)
    code = None if options.date else code_fingerprint(measurement.depends, root)
    day = (options.date or date.today()).isoformat()
    save_stored(root, name, Stored(measurement.command, day, code, True, {}, rows))
    console.print(f"{name} is stored; `python -m experiments.tables --fill` shows its origin.")


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _only(names: list[str]) -> str:
    if len(names) != 1:
        raise TablesError(f"one measurement is expected, not {len(names)}.")
    return names[0]
