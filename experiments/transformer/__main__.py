"""Train energy transformers by EqProp and by backprop, and test them on sequences never seen.

Without options: reversal of 8 tokens from vocabularies of 10 and 50, three seeds, both methods;
then, once each and by EqProp alone, reversal of 16 tokens, copy, shift and sort. All that takes
about an hour of CPU time, half of it on two cores; --quick takes a minute or two.
With --task, --vocab or --length just those are run, in all combinations, by both methods.
Finished runs are kept in the output folder: a second call goes on where the first one stopped.
"""

import argparse
import sys
from collections.abc import Sequence

from experiments.options import (
    FIRST_SEED,
    add_out,
    add_workers,
    command_parser,
    known,
    parse,
    positive,
    seed_count,
)
from experiments.requirements import packages_needed
from experiments.transformer.sequences import SEEDS, TASKS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 1 if a goal was missed."""
    options, given = parse(_parser(), arguments)
    with packages_needed():  # torch and all the rest, which a typo need not wait for
        from experiments.transformer import command
    return command.run(options, given)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.transformer", __doc__)
    add = parser.add_argument
    task = known("task", (*TASKS, "all"))
    names = ", ".join(TASKS)
    add("--task", type=task, nargs="+", metavar="NAME", help=f"{names}, or 'all' (reversal)")
    add("--vocab", nargs="+", type=positive, metavar="N", help="sizes of the vocabulary (10)")
    add("--length", nargs="+", type=positive, metavar="N", help="tokens in a sequence (8)")
    add("--seeds", type=seed_count, metavar="N", help=f"seeds from {FIRST_SEED} on ({SEEDS})")
    add("--quick", action="store_true", help="a smoke test: one seed, few updates, small test")
    add("--no-control", action="store_true", help="leave backprop out")
    add_out(parser, "results/transformer")
    add("--fresh", action="store_true", help="repeat runs that are already in the folder")
    add_workers(parser, "runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
