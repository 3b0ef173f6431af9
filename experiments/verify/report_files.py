"""The files of the verification report."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from experiments.records import write_text
from experiments.reporting.html_page import render_html
from experiments.reporting.json_page import render_json
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.picture import write_picture
from experiments.verify.report_content import Totals, add_up, build_document
from experiments.verify.track import RULES
from experiments.verify.track_outcomes import TrackOutcome


def write_report(
    outcomes: Sequence[TrackOutcome],
    folder: Path,
    *,
    seconds: float,
    left_out: Sequence[str],
    command: str,
    machine: Mapping[str, str],
) -> Totals:
    """Write `report.md`, `report.html`, `report.json` and the pictures under `plots`."""
    outcomes = [_numbered(outcome) for outcome in sorted(outcomes, key=lambda o: o.number)]
    totals = add_up(outcomes, seconds)
    for outcome in outcomes:
        for picture in outcome.finding.pictures if outcome.finding else ():
            write_picture(folder, picture)
    document = build_document(outcomes, totals, left_out, command, machine)
    content = {
        "command": command,
        "machine": dict(machine),
        "summary": asdict(totals),
        "rules": RULES,
        "left_out": list(left_out),
        "tracks": [_content(outcome) for outcome in outcomes],
    }
    write_text(folder / "report.json", render_json(content))
    write_text(folder / "report.md", render_markdown(document))
    write_text(folder / "report.html", render_html(document))
    return totals


def _numbered(outcome: TrackOutcome) -> TrackOutcome:
    """Put the number of the track before the names of its pictures, so that none are the same."""
    if outcome.finding is None:
        return outcome
    pictures = []
    for picture in outcome.finding.pictures:
        name = f"track{outcome.number}_{picture.name}"
        path = picture.figure.path.replace(picture.name, name)
        pictures.append(replace(picture, name=name, figure=replace(picture.figure, path=path)))
    return replace(outcome, finding=replace(outcome.finding, pictures=tuple(pictures)))


def _content(outcome: TrackOutcome) -> dict[str, Any]:
    content: dict[str, Any] = {
        "number": outcome.number,
        "title": outcome.title,
        "claim": outcome.claim,
        "status": outcome.status,
        "score": outcome.score,
        "evidence": outcome.level,
        "seeds": outcome.size.seeds,
        "amount": outcome.size.amount,
        "unit": outcome.unit,
        "seconds": outcome.seconds,
        "error": outcome.error or None,
    }
    finding = outcome.finding
    if finding is not None:
        content |= {
            "experiment": finding.experiment,
            "checks": [asdict(check) | {"held": check.held} for check in finding.checks],
            "limits": finding.limits,
            "measurements": finding.measurements,
        }
    return content
