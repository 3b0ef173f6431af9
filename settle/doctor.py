"""Say what is installed: Python and packages, processors and devices, tools, data, caches."""

import argparse
import os
import platform
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from settle.packages import ROOT, hidden_packages

WIDTH, LABEL = 79, 16
TOOLS = {
    "ngspice": ("ngspice", "circuits: SPICE against the engine"),
    "iverilog": ("iverilog", "Verilog: chips as hardware description"),
    "verilator": ("verilator", "Verilog: chips as hardware description"),
    "yosys": ("yosys", "Verilog: gates and area"),
    "chromium": ("chromium", "tests of pages in a browser"),
}
"""Programs, each with the package of a Linux distribution that brings it and what it is for."""

Row = tuple[str, str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what there is; return 1 if something is missing that every command needs."""
    parser = argparse.ArgumentParser(prog="settle doctor", description=__doc__)
    parser.parse_args(arguments)
    problems = hidden_packages()
    missing: list[str] = []
    if not problems:  # else these packages would be others
        for title, rows in _sections(missing):
            print(f"{title}\n" + "\n".join(_line(*row) for row in rows) + "\n", flush=True)
    problems += [f"{name} is missing, and every command needs it." for name in missing]
    print("\n".join(f"Error: {problem}" for problem in problems) or "Nothing needed is missing.")
    return 1 if problems else 0


def _sections(missing: list[str]) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield every part with its rows; dependencies that are not there are added to `missing`."""
    yield "Settle", _settle()
    yield "Dependencies", _dependencies(missing)
    yield "Extras", _extras()
    yield "Processors", _processors()
    yield "Tools", _tools(TOOLS)
    yield "Data", _data()
    yield "Compiled kernels", _kernels()


def _settle() -> Iterator[Row]:
    yield "settle", f"{version('settle')} in {ROOT}"
    yield "python", f"{platform.python_version()}, {sys.executable}"
    yield "system", f"{platform.system()} {platform.machine()}"


def _dependencies(missing: list[str]) -> Iterator[Row]:
    from experiments.requirements import dependencies, how_to_get

    for name in dependencies():
        found = _version(name)
        if found is None:
            missing.append(name)
        yield name, found or f"missing: {how_to_get(name)}"


def _extras() -> Iterator[Row]:
    from experiments.requirements import extras, how_to_get

    for name in extras():
        yield name, _version(name) or f"not here: {how_to_get(name)}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processors() -> Iterator[Row]:
    with suppress(ImportError):
        from joblib import cpu_count

        yield "cores", f"{cpu_count()} to use, of {os.cpu_count()}"
    with suppress(ImportError):
        import numpy as np
        from threadpoolctl import threadpool_info

        found = threadpool_info() if np.__version__ else []  # libraries that numpy has loaded
        for pool in (pool for pool in found if pool["user_api"] == "blas"):
            yield "BLAS", f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads"
    if find_spec("torch") is None:
        yield "torch devices", "none: torch is not here"
        return
    from adapters.torch_arrays import present_devices

    yield "torch devices", ", ".join(present_devices())


def _tools(tools: Mapping[str, Row]) -> Iterator[Row]:
    for name, (package, purpose) in tools.items():
        found = shutil.which(name)
        yield name, found or f"not here (package {package}): {purpose}"


def _data() -> Iterator[Row]:
    from experiments.tasks.cifar10 import CIFAR10_ARCHIVE
    from experiments.tasks.images import FASHION_MNIST_FILES, MNIST_FILES
    from experiments.tasks.published import cache_folder, own_folder

    yield "SETTLE_DATA", os.environ.get("SETTLE_DATA") or "not set"
    for archive in (MNIST_FILES, FASHION_MNIST_FILES, CIFAR10_ARCHIVE):
        name, folders = archive.name, (own_folder(archive.name), cache_folder(archive.name))
        places = [folder for folder in folders if folder]
        held = [
            place for place in places if any((place / file).is_file() for file in archive.files)
        ]
        looked = " and ".join(map(str, places))
        yield name, str(held[0]) if held else f"not here, would be downloaded; not in {looked}"


def _kernels() -> Iterator[Row]:
    own = os.environ.get("NUMBA_CACHE_DIR")
    place = Path(own) if own else ROOT / "engine" / "compiled"
    instead = "cannot be written: kernels go to the user's cache, or where NUMBA_CACHE_DIR says"
    yield "cache", f"{place} {'can be written' if _writable(place) else instead}"


def _writable(folder: Path) -> bool:
    """Tell by an attempt, which is what a full disk or a read-only one would refuse."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return True
    except OSError:
        return False


def _line(name: str, text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"  {name:<{LABEL}}",
        subsequent_indent=" " * (2 + LABEL),
        break_long_words=False,
        break_on_hyphens=False,
    )
