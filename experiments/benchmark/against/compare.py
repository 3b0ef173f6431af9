"""Rounds of two versions in turns, and what they show.

In every round each version starts a process of its own, and for each case they take turns
A B B A, in the next round B A A B. A slow moment of the machine hits both, and where a process
lies in memory is drawn anew. A round gives one ratio for each case; the verdict is Wilcoxon's
signed-rank test of their logarithms, with Holm's correction over the cases.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from math import ceil
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from experiments.benchmark.against.versions import Seconds, TimingProcess, Version, VersionError
from experiments.benchmark.against.worker import FIRST_FIT, FRESH, IMPORT, cases
from experiments.benchmark.timing import REST
from experiments.statistics import CONFIDENCE, SIGNIFICANCE, holm

Ruling: TypeAlias = Literal["faster", "slower", "undecided"]
Pair: TypeAlias = tuple[Seconds, Seconds]
"""Of the old and of the new version, in one round."""

MARGIN = 0.02
"""Smaller differences are no verdict: one source in two folders can differ by as much."""
SLICE = 0.05
"""CPU seconds of one turn: as many calls as they take."""
MOST_CALLS = 1000


@dataclass(frozen=True)
class Rounds:
    """How many rounds, of small cases or of all; the least p of `n` rounds is `2^(1 - n)`."""

    count: int = 12
    quick: bool = False


QUICK_ROUNDS = Rounds(9, quick=True)


@dataclass(frozen=True)
class Duel:
    """Two versions, how often they are timed, and who is told how far that is."""

    old: Version
    new: Version
    rounds: Rounds
    threads: int
    on_note: Callable[[int, int, str], None]
    """Takes the rounds that are done, of how many, and what is measured."""


@dataclass(frozen=True)
class ComparedRow:
    """A case: medians of the seconds of both, and the ratio new / old within rounds.

    The clock is that of the processors for one thread, and that of the wall for more: a thread
    that waits for work counts as work. `interval` is that of the median ratio, by the sign test;
    fewer than six rounds have none. `p` is corrected for the number of cases. A case that a
    version lacks has only a `note`.
    """

    case: str
    old: float | None = None
    new: float | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    other_ratio: float | None = None
    """By the clock that does not decide."""
    p: float = 1.0
    verdict: Ruling | None = None
    note: str = ""


def compare_versions(duel: Duel) -> list[ComparedRow]:
    """Time both versions and judge every case."""
    calls, absent = _first_run(duel)
    rounds = [_run_round(duel, number, calls) for number in range(duel.rounds.count)]
    measured = {case: [pairs[case] for pairs in rounds] for case in calls}
    judged = {row.case: row for row in judge_rows(measured, duel.threads == 1)}
    names = (IMPORT, FIRST_FIT, *cases(duel.rounds.quick))
    return [judged.get(name) or ComparedRow(name, note=absent[name]) for name in names]


def judge_rows(measured: Mapping[str, Sequence[Pair]], by_cpu: bool) -> list[ComparedRow]:
    """Judge every case from its pairs, one for each round."""
    ratios = {}
    for case, pairs in measured.items():
        cpu = np.array([new.cpu / old.cpu for old, new in pairs])
        wall = np.array([new.wall / old.wall for old, new in pairs])
        ratios[case] = (cpu, wall) if by_cpu else (wall, cpu)
    corrected = holm([_p_value(np.log(deciding)) for deciding, _ in ratios.values()])
    rows = []
    for (case, (deciding, other)), p in zip(ratios.items(), corrected, strict=True):
        middle = float(np.median(deciding))
        taken = [[_clock(seconds, by_cpu) for seconds in pair] for pair in measured[case]]
        old, new = np.median(taken, axis=0).tolist()
        rows.append(
            ComparedRow(
                case,
                old,
                new,
                middle,
                _interval(deciding),
                float(np.median(other)),
                float(p),
                _ruling(middle, float(p)),
            )
        )
    return rows


def _ruling(ratio: float, p: float) -> Ruling:
    if p >= SIGNIFICANCE or abs(ratio - 1.0) <= MARGIN:
        return "undecided"
    return "faster" if ratio < 1.0 else "slower"


def _p_value(differences: np.ndarray) -> float:
    """Return that of differences symmetric around zero; zeros are shared by both sides."""
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="zsplit").pvalue)


def _interval(ratios: np.ndarray) -> tuple[float, float] | None:
    """Return the interval of the median that inverts the sign test, where the rounds suffice."""
    found = stats.quantile_test(ratios, p=0.5).confidence_interval(CONFIDENCE)
    low, high = float(found.low), float(found.high)
    return (low, high) if np.isfinite(low) and np.isfinite(high) else None


def _clock(seconds: Seconds, by_cpu: bool) -> float:
    return seconds.cpu if by_cpu else seconds.wall


def _first_run(duel: Duel) -> tuple[dict[str, int], dict[str, str]]:
    """Compile and load all that is needed; return the calls of each turn, and who lacks what."""
    longest: dict[str, float] = {IMPORT: 0.0, FIRST_FIT: 0.0}
    absent: dict[str, str] = {}
    for version in (duel.old, duel.new):
        with closing(TimingProcess(version, duel.threads)) as process:
            for case in (FIRST_FIT, *cases(duel.rounds.quick)):
                note = f"{case}: first run of {version.title}, which may compile"
                duel.on_note(0, duel.rounds.count, note)
                said = process.time(case, 1)
                if isinstance(said, str):
                    absent[case] = f"{version.title} has no '{case}': {said}"
                else:
                    longest[case] = max(longest.get(case, 0.0), said.cpu)
    calls = {
        case: 1 if case in FRESH else min(MOST_CALLS, ceil(SLICE / max(seconds, 1e-9)))
        for case, seconds in longest.items()
        if case not in absent
    }
    return calls, absent


def _run_round(duel: Duel, number: int, calls: Mapping[str, int]) -> dict[str, Pair]:
    """Start both versions and time every case in turns; the first alternates."""
    order = (0, 1) if number % 2 == 0 else (1, 0)
    versions = (duel.old, duel.new)
    with ExitStack() as stack:
        processes = {
            k: stack.enter_context(closing(TimingProcess(versions[k], duel.threads))) for k in order
        }
        pairs = {IMPORT: (processes[0].imported, processes[1].imported)}
        for case, count in calls.items():
            if case == IMPORT:
                continue
            duel.on_note(number, duel.rounds.count, case)
            taken: dict[int, list[Seconds]] = {0: [], 1: []}
            for k in order if case in FRESH else (*order, *reversed(order)):
                if duel.threads > 1:
                    time.sleep(REST)
                said = processes[k].time(case, count)
                if isinstance(said, str):
                    raise VersionError(f"{versions[k].title} failed in '{case}': {said}.")
                taken[k].append(said)
            pairs[case] = (_mean(taken[0]), _mean(taken[1]))
    return pairs


def _mean(turns: Sequence[Seconds]) -> Seconds:
    return Seconds(*np.mean([(turn.cpu, turn.wall) for turn in turns], axis=0).tolist())
