"""The verification report as a document: summary, track table, then every track."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.reporting.document import (
    Badge,
    Block,
    Bullets,
    Cell,
    Code,
    Document,
    Section,
    Table,
    Tone,
)
from experiments.reporting.number_text import NONE, number
from experiments.verify.track import RULES, Check, Level, Status
from experiments.verify.track_outcomes import TrackOutcome

TITLE = "Verification"
TONES: dict[Status, Tone] = {Status.PASSED: "good", Status.PARTIAL: "open", Status.FAILED: "bad"}
SIGNS = {"<=": "at most", "<": "below", ">=": "at least", ">": "above", "=": "exactly"}


@dataclass(frozen=True)
class Totals:
    """What came out over all tracks that were run."""

    tracks: int
    passed: int
    partial: int
    failed: int
    average_score: float
    smoke: int
    intermediate: int
    full: int
    seconds: float
    """From the first track to the last, several at once."""


def add_up(outcomes: Sequence[TrackOutcome], seconds: float) -> Totals:
    """Count what the tracks showed."""
    statuses = [outcome.status for outcome in outcomes]
    levels = [outcome.level for outcome in outcomes]
    return Totals(
        tracks=len(outcomes),
        passed=statuses.count(Status.PASSED),
        partial=statuses.count(Status.PARTIAL),
        failed=statuses.count(Status.FAILED),
        average_score=sum(outcome.score for outcome in outcomes) / max(1, len(outcomes)),
        smoke=levels.count(Level.SMOKE),
        intermediate=levels.count(Level.INTERMEDIATE),
        full=levels.count(Level.FULL),
        seconds=seconds,
    )


def build_document(
    outcomes: Sequence[TrackOutcome],
    totals: Totals,
    left_out: Sequence[str],
    command: str,
    machine: Mapping[str, str],
) -> Document:
    """Put the outcomes, in the order of their numbers, into a report."""
    sections = [
        Section("Executive summary", (totals_table(totals), track_table(outcomes))),
        *(_track_section(outcome) for outcome in outcomes),
        _method_section(left_out, command, machine),
    ]
    return Document(TITLE, tuple(lead_sentences(outcomes, totals)), tuple(sections))


def lead_sentences(outcomes: Sequence[TrackOutcome], totals: Totals) -> list[str]:
    """Say what came out, what failed first."""
    sentences = [
        f"{totals.tracks} tracks verified: {totals.passed} passed, {totals.partial} partial, "
        f"{totals.failed} failed. Average score {totals.average_score:.1f} of 100."
    ]
    for status in (Status.FAILED, Status.PARTIAL):
        found = [f"track {o.number} ({o.title})" for o in outcomes if o.status is status]
        if found:
            sentences.append(f"{status.capitalize()}: {', '.join(found)}.")
    return sentences


def totals_table(totals: Totals) -> Table:
    """Return the numbers of the executive summary."""
    rows = (
        ("Tracks verified", str(totals.tracks)),
        ("Passed", str(totals.passed)),
        ("Partial", str(totals.partial)),
        ("Failed", str(totals.failed)),
        ("Average score", f"{totals.average_score:.1f} of 100"),
        (
            "Evidence",
            f"{totals.full} full, {totals.intermediate} intermediate, {totals.smoke} smoke",
        ),
        ("Time", f"{totals.seconds:.0f} s"),
    )
    return Table("Summary", ("", "Value"), rows)


def track_table(outcomes: Sequence[TrackOutcome]) -> Table:
    """Return one row for each track."""
    rows: list[tuple[Cell, ...]] = []
    for outcome in outcomes:
        checks = () if outcome.finding is None else outcome.finding.checks
        held = f"{sum(check.held for check in checks)} of {len(checks)}" if checks else NONE
        rows.append(
            (
                f"{outcome.number}",
                outcome.title,
                status_badge(outcome.status),
                f"{outcome.score:.0f}",
                held,
                f"{outcome.level}\n({_size(outcome)})",
                f"{outcome.seconds:.0f} s",
            )
        )
    return Table(
        "Tracks",
        ("Track", "Title", "Status", "Score", "Checks held", "Evidence", "Time"),
        tuple(rows),
        text_columns=3,
    )


def check_table(checks: Sequence[Check]) -> Table:
    """Return every check with what was measured and what is required."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            check.name,
            "essential" if check.essential else "further",
            f"{SIGNS[check.relation]} {_value(check.limit)}",
            _value(check.measured),
            Badge("holds", "good")
            if check.held
            else Badge("does not hold", "bad" if check.essential else "open"),
        )
        for check in checks
    )
    header = ("Check", "Kind", "Required", "Measured", "Verdict")
    return Table("Checks", header, rows, text_columns=2)


def status_badge(status: Status) -> Badge:
    """Return the status of a track with its tone."""
    return Badge(status.value, TONES[status])


def _track_section(outcome: TrackOutcome) -> Section:
    title = f"Track {outcome.number}: {outcome.title}"
    verdict = f"{outcome.status.capitalize()}, score {outcome.score:.0f} of 100."
    evidence = f"Evidence: {outcome.level} ({_size(outcome)}, {outcome.seconds:.0f} s)."
    blocks: list[Block] = [f"{verdict} {evidence}", f"Claim: {outcome.claim}"]
    finding = outcome.finding
    if finding is None:
        return Section(title, (*blocks, f"The track stopped with an error: {outcome.error}."))
    blocks += [f"Experiment: {finding.experiment}", check_table(finding.checks)]
    blocks += [*finding.tables, *(picture.figure for picture in finding.pictures)]
    return Section(title, (*blocks, "Limits of the claim:", Bullets(finding.limits)))


def _method_section(left_out: Sequence[str], command: str, machine: Mapping[str, str]) -> Section:
    blocks: list[Block] = [Bullets(RULES)]
    if left_out:
        blocks.append(f"Tracks that were not run: {', '.join(left_out)}.")
    rows = tuple((name, value) for name, value in machine.items())
    blocks += [Table("Machine", ("", "Value"), rows)]
    blocks += ["The command that makes this report again:", Code(command)]
    return Section("How tracks are judged", tuple(blocks))


def _size(outcome: TrackOutcome) -> str:
    return f"{outcome.size.repeats}, {outcome.size.amount} {outcome.unit}"


def _value(value: float) -> str:
    """Return counts whole, the rest with five digits, or with nine where that would read 1."""
    if not math.isfinite(value) or value == round(value):
        return number(value, 0)
    text = f"{value:.5g}"
    return f"{value:.9f}" if text == "1" else text
