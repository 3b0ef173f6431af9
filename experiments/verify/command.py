"""The work of the verify command: tracks are run, and what they found is printed."""

import argparse
import shlex
import time
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from experiments.machine import describe_machine
from experiments.output import prepare_output
from experiments.parity.contestants import compile_kernels
from experiments.progress import progress_bars
from experiments.reporting.terminal_table import rich_table
from experiments.shell import guarded, make_console
from experiments.verify.registry import all_tracks, find_tracks
from experiments.verify.report_content import check_table, lead_sentences, totals_table, track_table
from experiments.verify.report_files import write_report
from experiments.verify.track import Status, Track, TrackSize, VerifyError
from experiments.verify.track_outcomes import TrackOutcome, run_tracks


def run(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Do what the options ask for; return 1 if a claim failed, 2 if it could not run."""
    console = make_console()

    def work() -> int:
        command = shlex.join(["python", "-m", "experiments.verify", *given])
        return verify(options, command, console)

    return guarded(work, console, (VerifyError,), "No report was written.")


def verify(options: argparse.Namespace, command: str, console: Console) -> int:
    """Run the tracks, write the report and print its summary; return 1 if a claim failed."""
    effort = TrackSize(options.effort)
    tracks = find_tracks(options.track)
    left_out = [f"{n} ({t.title})" for n, t in all_tracks().items() if t not in tracks]
    prepare_output(options.out, "report.html", "report.md", "report.json", "plots/track.png")
    compile_kernels()  # once, before several processes want it at the same time
    began = time.perf_counter()
    outcomes = _run(tracks, effort, options.workers)
    totals = write_report(
        outcomes,
        options.out,
        seconds=time.perf_counter() - began,
        left_out=left_out,
        command=command,
        machine=describe_machine(),
    )
    for outcome in outcomes:
        _print_missed(outcome, console)
    for table in (totals_table(totals), track_table(outcomes)):
        console.print(rich_table(table, console.width))
        console.print()
    for sentence in lead_sentences(outcomes, totals):
        console.print(Text(sentence))
    console.print(f"The whole report: {options.out / 'report.html'}", soft_wrap=True)
    return 1 if totals.failed else 0


def _run(tracks: Sequence[Track], effort: TrackSize, workers: int) -> list[TrackOutcome]:
    outcomes: list[TrackOutcome] = []
    with progress_bars() as show:
        show("tracks", 0, len(tracks), f"{effort} run")
        for outcome in run_tracks(tracks, effort, workers):
            outcomes.append(outcome)
            note = f"track {outcome.number}: {outcome.status}"
            show("tracks", len(outcomes), len(tracks), note)
    return sorted(outcomes, key=lambda outcome: outcome.number)


def _print_missed(outcome: TrackOutcome, console: Console) -> None:
    """Print the checks of a track that is not passed, or the error that stopped it."""
    if outcome.status is Status.PASSED:
        return
    heading = f"Track {outcome.number}, {outcome.title}: {outcome.status}"
    console.print(Text(heading, style="bold red" if outcome.status is Status.FAILED else "yellow"))
    if outcome.finding is None:
        console.print(Text(f"The track stopped with an error: {outcome.error}."))
    else:
        missed = [check for check in outcome.finding.checks if not check.held]
        console.print(rich_table(check_table(missed), console.width))
    console.print()
