"""Run a command of Settle by its short name: `settle parity` is `python -m experiments.parity`."""

import signal
import sys
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version

from experiments.requirements import packages_needed
from settle.commands import commands, summary
from settle.packages import hidden_packages

WIDTH = 79
DOCTOR = "doctor"
NAME_WIDTH = 13


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that is named first with the options that follow; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name, options = (given[0], given[1:]) if given else ("--help", [])
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name == "--version":
        print(f"settle {version('settle')}")
        return 0
    known = commands()
    if name not in (*known, DOCTOR):
        names = ("--help", "--version") if name.startswith("-") else (*known, DOCTOR)
        near = get_close_matches(name, names, 1)
        meant = f"did you mean {near[0]}?" if near else "settle --help lists them."
        return _refused(f"there is no command {name!r}; {meant}")
    hidden = hidden_packages()
    if hidden and name != DOCTOR:
        return _refused(hidden[0])
    return _run("settle.doctor" if name == DOCTOR else f"{known[name]}.__main__", name, options)


def _run(module: str, name: str, options: list[str]) -> int:
    """Run the `main` of a module; its help calls it as it was called here."""
    before = sys.argv
    sys.argv = [f"settle {name}", *options]
    try:
        with packages_needed():
            command = import_module(module)
        code: int = command.main(options)
    except KeyboardInterrupt:  # of a command that leaves it to others
        print("Stopped.")
        return 128 + signal.SIGINT
    finally:
        sys.argv = before
    return code


def _help() -> str:
    lines = {name: summary(module) for name, module in commands().items()}
    lines[DOCTOR] = "Say what is installed: packages, devices, tools, data, caches."
    listed = "\n".join(_entry(name, text) for name, text in sorted(lines.items()))
    return (
        "usage: settle COMMAND [options]\n"
        "       settle COMMAND --help\n"
        "       settle --version\n\n"
        f"commands:\n{listed}\n\n"
        "Each is also a module: settle parity is python -m experiments.parity."
    )


def _entry(name: str, text: str) -> str:
    indent = " " * (2 + NAME_WIDTH)
    return textwrap.fill(
        text, WIDTH, initial_indent=f"  {name:<{NAME_WIDTH}}", subsequent_indent=indent
    )


def _refused(sentence: str) -> int:
    print(f"Error: {sentence}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
