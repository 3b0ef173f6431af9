"""Train a network as a circuit, write it for a circuit simulator, and compare what that finds.

Each sub-command is a module of this folder, which declares its options (`add_arguments`) and does
the work (`run`, which returns an exit code).
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from engine.errors import EngineError
from experiments.options import EXIT_CODES, command_parser, parse
from experiments.shell import guarded, make_console
from experiments.tasks import TaskError

COMMANDS = ("train", "spice", "transient", "draw", "agree", "verilog")
"""The modules there may be."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sub-command; return its exit code."""
    options, _ = parse(_parser(), arguments)

    def work() -> int:
        code: int = options.run(options)
        return code

    return guarded(
        work, make_console(), (EngineError, TaskError), "Files of what was finished are kept."
    )


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.circuit", __doc__)
    chosen = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        if find_spec(f"experiments.circuit.{name}") is None:
            continue
        module = import_module(f"experiments.circuit.{name}")
        about = str(module.__doc__)
        one = chosen.add_parser(
            name,
            help=about.splitlines()[0],
            description=about,
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(one)
        one.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
