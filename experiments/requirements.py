"""Packages that are not installed: one sentence says which, and how to get it."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = frozenset({"engine", "hw_sim", "adapters", "golden", "experiments"})
DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "PyYAML"}
"""What is imported under a name other than that which pip knows it by."""
REQUIREMENT = re.compile(r"([\w.-]+)[^;]*(?:;.*extra == ['\"](\w+)['\"])?")
SELF = "settle"


def extras() -> dict[str, str]:
    """Return what Settle can use beyond its dependencies, each with the extra that brings it."""
    return {name: extra for name, extra in _requirements().items() if extra}


def dependencies() -> list[str]:
    """Return what Settle cannot do without."""
    return [name for name, extra in _requirements().items() if not extra]


def how_to_get(package: str) -> str:
    """Return the pip command for a package, by its extra if there is one."""
    extra = extras().get(package)
    return f'pip install "{SELF}[{extra}]"' if extra else f"pip install {package}"


@contextmanager
def packages_needed() -> Iterator[None]:
    """Import the work of a command inside: a package that is missing ends it with one sentence.

    So does Ctrl-C, as it does later.
    """
    try:
        yield
    except KeyboardInterrupt:
        print("Stopped.")
        raise SystemExit(128 + signal.SIGINT) from None
    except ImportError as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        print(f"Error: {sentence}")  # a console is made by a package that may be missing, too
        raise SystemExit(2) from None


def _sentence(error: ImportError) -> str | None:
    """Say what is missing; `None` for an error that is a fault of the code."""
    if error.name is None:  # adapters have a sentence of their own
        return str(error)
    name = error.name.partition(".")[0]
    if not isinstance(error, ModuleNotFoundError):
        if name in OURS and error.path and not Path(error.path).is_relative_to(ROOT):
            return (
                f"another package called {name}, in {Path(error.path).parent}, hides that of "
                f"Settle in {ROOT}: remove it, or take its folder out of PYTHONPATH."
            )
        return None
    if name in OURS:
        return f"{error.name} is not there: another package called {name} hides that of Settle."
    package = DISTRIBUTIONS.get(name, name)
    return f"this needs {package}: {how_to_get(package)}."


def _requirements() -> dict[str, str | None]:
    """Return every package that the installed Settle names, with its extra."""
    try:
        lines = requires(SELF) or ()
    except PackageNotFoundError:  # a checkout that nobody installed
        return {}
    found: dict[str, str | None] = {}
    for line in lines:
        match = REQUIREMENT.fullmatch(line)
        if match and match[1] != SELF:
            found.setdefault(match[1], match[2])
    return found
