"""Ten-digit addition: train a tiny transformer, evaluate one, or add by equilibrium propagation.

train     train from scratch, one seed or many; an interrupted run goes on
evaluate  count the exact sums of a checkpoint on ten test sets of 10,000
predict   add two numbers
log       reproduce experiments E1 to E4 and write them as a Markdown log
cell      train an adder by equilibrium propagation alone and chain it
energy    research: an energy transformer adds end to end, by both methods
"""

import argparse
import sys
from collections.abc import Sequence

from experiments.addition.declared import add_adders, add_training
from experiments.addition.sums import LIMIT
from experiments.options import (
    add_out,
    add_workers,
    command_parser,
    named_path,
    parse,
    positive,
    present_path,
)
from experiments.requirements import packages_needed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, given = parse(_parser(), arguments)
    with packages_needed():  # torch and all the rest, which a typo need not wait for
        from experiments.addition import command
    return command.run(options, given)


def _operand(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and int(text) < LIMIT):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 to {LIMIT - 1}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.addition", __doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_training(commands.add_parser("train", help="train from scratch"))
    asked = commands.add_parser("evaluate", help="count the exact sums of a checkpoint")
    asked.add_argument("checkpoint", type=present_path, help="file in the published format")
    asked.add_argument("--output", type=named_path, metavar="FILE", help="write the result as JSON")
    single = commands.add_parser("predict", help="add two numbers")
    single.add_argument("a", type=_operand, help="below 10^10")
    single.add_argument("b", type=_operand, help="below 10^10")
    single.add_argument(
        "--checkpoint", type=present_path, required=True, help="the model that adds"
    )
    story = commands.add_parser("log", help="reproduce experiments E1 to E4")
    story.add_argument("--published", type=present_path, required=True, help="published checkpoint")
    add_out(story, "results/addition")
    story.add_argument("--train-steps", type=positive, default=54_000, help="updates (54000)")
    add_workers(story, "trainings")
    for command in (asked, single, story):
        command.add_argument("--device", default="cpu", help="cpu, cuda, mps or auto (cpu)")
    add_adders(
        commands.add_parser("cell", help="an adder by equilibrium propagation"),
        commands.add_parser("energy", help="an energy transformer that adds end to end"),
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
