"""The work of the command: run what a table is measured by, keep its rows, fill the pages."""

import argparse
import shlex
import shutil
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from rich.console import Console

from experiments.machine import describe_machine
from experiments.records import write_text
from experiments.shell import guarded, make_console
from experiments.tables.code import code_files, code_fingerprint
from experiments.tables.measurement import Measurement
from experiments.tables.pages import faults, fill_pages, rows_in_page
from experiments.tables.registry import MEASUREMENTS, TABLES
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
        console.print(f"{name}: {measurement.told} ({about})", soft_wrap=True)


def _measure(console: Console, root: Path, names: list[str]) -> None:
    """Run one command after the other; pages are filled after each."""
    asked = [name for name in names if _has_reader(MEASUREMENTS[name])]
    for name in sorted(set(names) - set(asked)):
        console.print(
            f"{name} has no reader: run `{MEASUREMENTS[name].told}`, enter its rows into the "
            f"page, then `python -m experiments.tables --enter {name}`.",
            soft_wrap=True,
        )
    done: set[str] = set()
    for name in asked:
        if name in done:
            continue
        measurement, folder, alike = MEASUREMENTS[name], root / OUT / name, _alike(name)
        codes = {one: code_fingerprint(MEASUREMENTS[one].depends, root) for one in alike}
        _forget_earlier(folder, "".join(codes.values()))
        for command in measurement.first:
            _run(console, name, command, root, folder=None)
        _run(console, name, measurement.command, root, folder, measurement.out)
        for one in alike:
            _store(root, one, folder, date.today(), codes[one])
        done |= set(alike)
        _fill(console, root)


def _forget_earlier(folder: Path, code: str) -> None:
    """Remove what other code left in a folder: commands go on from the runs that they find."""
    mark = folder.with_name(f"{folder.name}.code")
    if folder.is_dir() and not (mark.is_file() and mark.read_text(encoding="utf-8") == code):
        shutil.rmtree(folder)
    write_text(mark, code)


def _has_reader(measurement: Measurement) -> bool:
    return bool(measurement.reader or measurement.picture)


def _alike(name: str) -> list[str]:
    """Return the measurements that are read from the same run, this one among them."""
    asked = MEASUREMENTS[name]
    return [
        other
        for other, one in MEASUREMENTS.items()
        if (one.told, one.out) == (asked.told, asked.out) and _has_reader(one)
    ]


def _run(
    console: Console, name: str, command: str, root: Path, folder: Path | None, out: str = ""
) -> None:
    """Run a command, which writes into the folder if there is one."""
    console.print(f"{name}: {command}", soft_wrap=True)
    words = [sys.executable, *shlex.split(command)[1:]]
    if folder is not None:
        words += ["--out", str(folder / out)]
    began = time.time()
    ended = subprocess.run(words, cwd=root, check=False).returncode
    # A goal that was missed is a result; a crash ends with the same code and writes no report.
    crashed = folder is not None and _last_written(folder) < began
    if ended not in (0, 1) or crashed:
        raise TablesError(f"the command of {name} ended with exit code {ended} and no report.")


def _take(options: argparse.Namespace, root: Path) -> None:
    """Store what a finished command has written, as old as the first file that it wrote."""
    name, folder = _only(options.names), options.taken
    written = [path.stat().st_mtime for path in _files(folder)]
    if not written:
        raise TablesError(f"{folder} holds no output of `{MEASUREMENTS[name].told}`.")
    began = min(written)
    for one in _alike(name) or [name]:
        depends = MEASUREMENTS[one].depends
        touched = max(p.stat().st_mtime for p in code_files(depends, root))
        code = code_fingerprint(depends, root) if touched < began else None
        _store(root, one, folder, date.fromtimestamp(max(written)), code)


def _store(root: Path, name: str, folder: Path, day: date, code: str | None) -> None:
    measurement = MEASUREMENTS[name]
    from experiments.tables.readers.catalogue import READERS  # scipy: a check need not wait for it
    from experiments.tables.readers.outputs import copied_picture

    if measurement.picture:
        places = [TABLES[place].picture for place, table in TABLES.items() if table.shows(name)]
        rows = copied_picture(folder, measurement, root / places[0], root)
    elif measurement.reader is not None:
        rows = READERS[measurement.reader](folder, measurement.command, root)
    else:
        raise TablesError(f"{name} has no reader.")
    about = describe_machine()
    save_stored(root, name, Stored(measurement.told, day.isoformat(), code, False, about, rows))


def _enter(console: Console, options: argparse.Namespace, root: Path) -> None:
    """Store rows that a page shows: of this code today, of an earlier one with a date."""
    name = _only(options.names)
    (place,) = [key for key, table in TABLES.items() if table.header and table.shows(name)]
    measurement, table = MEASUREMENTS[name], TABLES[place]
    rows = rows_in_page(root, place, table, name)
    code = None if options.date else code_fingerprint(measurement.depends, root)
    day = (options.date or date.today()).isoformat()
    save_stored(root, name, Stored(measurement.told, day, code, True, {}, rows))
    console.print(f"{name} is stored; `python -m experiments.tables --fill` shows its origin.")


def _last_written(folder: Path) -> float:
    return max((path.stat().st_mtime for path in _files(folder)), default=0.0)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _only(names: list[str]) -> str:
    if len(names) != 1:
        raise TablesError(f"one measurement is expected, not {len(names)}.")
    return names[0]
