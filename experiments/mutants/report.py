"""What the command says: a table of files, and every survivor with its diff."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from experiments.mutants.mutant import Mutant
from experiments.mutants.verdict import MutantVerdict
from experiments.records import write_text


@dataclass(frozen=True)
class MutantCounts:
    """Mutants of one file, or of all."""

    killed: int
    survived: int
    equivalent: int
    not_run: int

    @property
    def share(self) -> float | None:
        """Killed among those that were run and are not listed as equivalent."""
        run = self.killed + self.survived
        return self.killed / run if run else None


def tally(
    mutants: Sequence[Mutant], verdicts: Mapping[str, MutantVerdict], equivalent: Mapping[str, str]
) -> MutantCounts:
    """Count what became of mutants; a listed equivalent counts as nothing else."""
    found: Counter[str] = Counter()
    for mutant in mutants:
        if mutant.id in equivalent:
            found["equivalent"] += 1
        else:
            verdict = verdicts.get(mutant.id)
            found[verdict.status if verdict else "not_run"] += 1
    names = ("killed", "survived", "equivalent", "not_run")
    return MutantCounts(**{name: found[name] for name in names})


def by_file(mutants: Sequence[Mutant]) -> dict[str, list[Mutant]]:
    """Return the mutants of each file."""
    files: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        files.setdefault(mutant.file, []).append(mutant)
    return dict(sorted(files.items()))


def table(
    mutants: Sequence[Mutant], verdicts: Mapping[str, MutantVerdict], equivalent: Mapping[str, str]
) -> Table:
    """Return one row for each file that had a trial, and their sum."""
    shown = Table("File", "Killed", "Survived", "Equivalent", "Not run", "Killed, %")
    for column in shown.columns[1:]:
        column.justify = "right"
    for file, part in [*by_file(mutants).items(), ("all", list(mutants))]:
        count = tally(part, verdicts, equivalent)
        share = "" if count.share is None else f"{100 * count.share:.1f}"
        numbers = (count.killed, count.survived, count.equivalent, count.not_run)
        shown.add_row(file, *map(str, numbers), share)
    return shown


def survivors_text(mutants: Sequence[Mutant], verdicts: Mapping[str, MutantVerdict]) -> str:
    """Return every survivor with its diff."""
    parts = []
    for mutant in mutants:
        verdict = verdicts.get(mutant.id)
        if verdict is not None and verdict.status == "survived":
            parts.append(f"{mutant.id}\n({verdict.by})\n{mutant.diff}\n")
    return "\n".join(parts)


def write_report(
    out: Path,
    mutants: Sequence[Mutant],
    verdicts: Mapping[str, MutantVerdict],
    equivalent: Mapping[str, str],
) -> None:
    """Write `survivors.txt` and `report.json`."""
    write_text(out / "survivors.txt", survivors_text(mutants, verdicts))
    files = {
        file: asdict(tally(part, verdicts, equivalent)) for file, part in by_file(mutants).items()
    }
    found = [asdict(verdicts[m.id]) | {"change": m.change} for m in mutants if m.id in verdicts]
    listed = {m.id: equivalent[m.id] for m in mutants if m.id in equivalent}
    report = {"files": files, "equivalent": listed, "verdicts": found}
    write_text(out / "report.json", json.dumps(report, indent=1))
