"""Train a network as a circuit, write it for a circuit simulator, and compare what that finds.

Each sub-command is a module of this folder, which declares its options (`add_arguments`) and does
the work (`run`, which returns an exit code).
"""

import argparse
import ast
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from experiments.options import EXIT_CODES, command_parser, parse
from experiments.requirements import packages_needed
from experiments.shell import guarded, make_console
from experiments.tasks import TaskError

COMMANDS = ("train", "spice", "transient", "spread", "draw", "agree", "verilog", "words")
"""The modules there may be."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sub-command; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options, _ = parse(_parser(given[0] if given else ""), given)
    options.told = shlex.join(["python", "-m", "experiments.circuit", *given])
    from engine.errors import EngineError  # the whole engine, which a typo need not wait for

    def work() -> int:
        code: int = options.run(options)
        return code

    return guarded(
        work, make_console(), (EngineError, TaskError), "Files of what was finished are kept."
    )


def _parser(chosen: str) -> argparse.ArgumentParser:
    """Return the parser; only the chosen sub-command is imported, for its options."""
    parser = command_parser("experiments.circuit", __doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        spec = find_spec(f"experiments.circuit.{name}")
        if spec is None or spec.origin is None:
            continue
        about = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
        one = commands.add_parser(
            name,
            help=about.splitlines()[0],
            description=about,
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == chosen:
            with packages_needed():
                module = import_module(spec.name)
            module.add_arguments(one)
            one.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
