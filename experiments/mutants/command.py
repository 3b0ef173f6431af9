"""The work of the mutants command: faults are planted and tried, and what survives is listed."""

import argparse
import hashlib
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
from experiments.output import prepare_output
from experiments.shell import guarded, make_console

FILES = ("engine/**/*.py", "hw_sim/**/*.py", "golden/**/*.py", "experiments/statistics.py")


def run(options: argparse.Namespace, root: Path, lists: Path | None = None) -> int:
    """Do what the options ask for on the tree at `root`; return the exit code."""
    console = make_console()
    stopped = f"What is done is in {options.out}, and is not done again."
    return guarded(
        lambda: _run(options, root, lists or HERE, console), console, (MutantsError,), stopped
    )


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
        tests, budget = options.tests or TESTS, options.budget or BUDGET_S
        campaign = Campaign(root, options.out, lists, staff, tests, budget)
        known = campaign.learn(lambda line: console.print(line, soft_wrap=True))
        slow = sum(len(file.slow) for file in known.values())
        count = sum(len(file.ran) for file in known.values())
        console.print(f"{len(mutants)} mutants, {count} tests; {slow} more are left out as slow.")
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
