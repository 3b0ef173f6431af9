"""Make one-line faults in the code, and see whether the tests notice each of them.

Every mutant runs in a private copy of the tree, without compilation, against the tests that enter
its function, those of the mirrored file first, until one fails. Those that no test kills are listed
with their diff in survivors.txt. Verdicts are kept, and hold until the code or the tests change.

The goal is a share of killed mutants.
"""

import argparse
import hashlib
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from experiments.mutants.campaign import TESTS, Campaign, Staff
from experiments.mutants.errors import MutantsError
from experiments.mutants.lists import HERE, Lists, load_lists
from experiments.mutants.mutant import Mutant, mutants_of
from experiments.mutants.report import table, tally, write_report
from experiments.mutants.selection import BUDGET_S, Measured
from experiments.mutants.verdict import MutantVerdict, append_verdict, load_verdicts, source_hash
from experiments.options import (
    add_out,
    add_workers,
    command_parser,
    parse,
    positive,
    seed_number,
)
from experiments.output import prepare_output
from experiments.shell import guarded, make_console

ROOT = Path(__file__).parents[2]
FILES = ("engine/**/*.py", "hw_sim/**/*.py", "golden/**/*.py", "experiments/statistics.py")


def main(arguments: Sequence[str] | None = None, root: Path = ROOT, lists: Path = HERE) -> int:
    """Run the command on the tree at `root`; return its exit code."""
    options, _ = parse(_parser(), arguments)
    console = make_console()
    stopped = f"What is done is in {options.out}, and is not done again."
    return guarded(lambda: _run(options, root, lists, console), console, (MutantsError,), stopped)


def _run(options: argparse.Namespace, root: Path, folder: Path, console: Console) -> int:
    if not (root / "tests").is_dir():
        raise MutantsError(f"{root} has no tests: the command needs a checkout of the repository.")
    everything = {mutant.id: mutant for mutant in _all_mutants(root, FILES)}
    lists = load_lists(everything, folder)
    mutants = _asked(options, root, everything, lists)
    if options.list:
        for mutant in mutants:
            console.print(f"{mutant.id}\n    {mutant.change}", soft_wrap=True, highlight=False)
        return 0
    prepare_output(options.out, "verdicts.jsonl", "report.json", "survivors.txt", "tests.json")
    staff = Staff(root, options.workers)
    verdicts: dict[str, MutantVerdict] = {}
    try:
        campaign = Campaign(root, options.out, lists, staff, options.tests, options.budget)
        known = campaign.learn(lambda line: console.print(line, soft_wrap=True))
        slow = sum(len(file.slow) for file in known.values())
        tests = sum(len(file.ran) for file in known.values())
        console.print(f"{len(mutants)} mutants, {tests} tests; {slow} more are left out as slow.")
        campaign.check_compiled(mutants)
        for verdict in _trials(options, campaign, mutants, known):
            verdicts[verdict.id] = verdict
            if verdict.status == "survived":
                write_report(options.out, mutants, verdicts, lists.equivalent)
                change = everything[verdict.id].change
                console.print(f"survived: {verdict.id}\n    {change}", soft_wrap=True)
    finally:
        staff.close()
        listed = {} if options.equivalents else lists.equivalent
        if verdicts:
            write_report(options.out, mutants, verdicts, listed)
    return _conclude(options, mutants, verdicts, listed, console)


def _conclude(
    options: argparse.Namespace,
    mutants: Sequence[Mutant],
    verdicts: dict[str, MutantVerdict],
    listed: Mapping[str, str],
    console: Console,
) -> int:
    """Print the table; return 0 if the goal is reached, for equivalents if none was killed."""
    console.print(table(mutants, verdicts, listed))
    if options.equivalents:
        wrong = [verdict for verdict in verdicts.values() if verdict.status == "killed"]
        for verdict in wrong:
            console.print(f"{verdict.id} is listed as equivalent, but {verdict.by} kills it.")
        return 1 if wrong else 0
    share = tally(mutants, verdicts, listed).share
    if share is None:
        console.print("No mutant was run.")
        return 0
    met = 100 * share >= options.goal
    word = "met" if met else "missed"
    console.print(f"{100 * share:.1f} % killed; the goal of {options.goal:g} % is {word}.")
    console.print(f"Survivors with their diffs: {options.out / 'survivors.txt'}")
    return 0 if met else 1


def _all_mutants(root: Path, patterns: Sequence[str]) -> list[Mutant]:
    paths = sorted({path for pattern in patterns for path in root.glob(pattern)})
    return [
        mutant
        for path in paths
        for mutant in mutants_of(path.relative_to(root).as_posix(), path.read_text("utf-8"))
    ]


def _asked(
    options: argparse.Namespace, root: Path, everything: dict[str, Mutant], lists: Lists
) -> list[Mutant]:
    """Return the mutants that the options ask for, in an order without pattern."""
    chosen = list(everything.values())
    if options.files:
        files = {p.relative_to(root).as_posix() for f in options.files for p in root.glob(f)}
        chosen = [mutant for mutant in chosen if mutant.file in files]
        if not chosen:
            raise MutantsError(f"no mutants in {' '.join(options.files)}; see --list.")
    if options.only:
        missing = [name for name in options.only if name not in everything]
        if missing:
            raise MutantsError(f"there is no mutant {missing[0]}; see --list.")
        chosen = [everything[name] for name in options.only]
    if options.equivalents:
        chosen = [mutant for mutant in chosen if mutant.id in lists.equivalent]
    if options.list:
        return chosen
    chosen.sort(key=lambda m: hashlib.sha256(f"{options.seed} {m.id}".encode()).digest())
    if options.sample is not None:
        chosen = [m for m in chosen if options.equivalents or m.id not in lists.equivalent]
    return chosen[: options.sample]


def _trials(
    options: argparse.Namespace,
    campaign: Campaign,
    mutants: Sequence[Mutant],
    known: dict[str, Measured],
) -> Iterator[MutantVerdict]:
    """Yield the verdict on every mutant that is not listed, from the last run where it holds."""
    path, end = options.out / "verdicts.jsonl", time.monotonic() + 60.0 * options.minutes
    kept = {} if options.fresh else load_verdicts(path)
    tasks = []
    for mutant in mutants:
        if mutant.id in campaign.lists.equivalent and not options.equivalents:
            continue
        tests = campaign.chosen(mutant, known)
        before = kept.get(source_hash(mutant))
        if before is not None and campaign.holds(before, tests):
            yield before
        else:
            tasks.append((mutant, tests))
    tasks.sort(key=lambda task: bool(campaign.lists.tests_compiled(task[0])))  # the slow ones last
    in_time = (task for task in tasks if time.monotonic() < end)
    for verdict in campaign.staff.each(campaign.attempt, in_time):
        append_verdict(path, verdict)
        yield verdict


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return value


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 100.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a percentage")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.mutants", __doc__)
    add = parser.add_argument
    add(
        "--files",
        nargs="+",
        metavar="GLOB",
        help="only of these files, as engine/backend.py",
    )
    add("--tests", nargs="+", default=TESTS, metavar="GLOB", help="only these files of tests")
    add("--only", nargs="+", metavar="ID", help="only these mutants")
    add("--sample", type=positive, metavar="N", help="so many, chosen by --seed (all)")
    add("--seed", type=seed_number, default=0, metavar="N", help="order and choice of mutants (0)")
    add("--minutes", type=_amount, default=math.inf, metavar="N", help="how long (to the end)")
    add("--budget", type=_amount, default=BUDGET_S, metavar="S", help="seconds of tests each (20)")
    add_workers(parser, "mutants")
    add("--goal", type=_percent, default=95.0, metavar="P", help="percent to be killed (95)")
    add("--list", action="store_true", help="print the mutants and stop")
    add("--fresh", action="store_true", help="run again what was run before")
    add("--equivalents", action="store_true", help="run those listed as equivalent instead")
    add_out(parser, "results/mutants")
    return parser


if __name__ == "__main__":
    sys.exit(main())
