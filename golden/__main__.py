"""Judge the engine: `python -m golden` prints every proof, and fails if one is out of tolerance."""

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any


def main(arguments: Sequence[str] | None = None, backends: Mapping[str, Any] | None = None) -> int:
    """Print the report on `backends`, on all if none are given; return 0 if all is in tolerance."""
    options = _parser().parse_args(arguments)
    try:  # torch and the kernels, which a typo need not wait for
        from golden import command

        return command.judge(options, command.BACKENDS if backends is None else backends)
    except ImportError as error:
        if error.name is not None:
            raise
        print(f"Error: {error}")  # an adapter says what it needs
        return 2
    except KeyboardInterrupt:
        print("Stopped.")
        return 128 + signal.SIGINT


def _whole(text: str, least: int) -> int:
    if not (text.isdecimal() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    prog = sys.argv[0] if sys.argv[0].startswith("settle ") else "python -m golden"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    count, seed = partial(_whole, least=1), partial(_whole, least=0)
    parser.add_argument("--steps", type=count, default=30, help="steps of a comparison (30)")
    parser.add_argument("--seed", type=seed, default=0, help="seed of weights and data (0)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
