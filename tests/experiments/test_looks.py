"""Seeds that are added while a verdict is open: the error rate holds, and only open tasks get more.

The error rates are those of simulated experiments in which the claim is false.
"""

import io
from typing import NamedTuple

import numpy as np
import pytest
from rich.console import Console

from experiments.contest import looks as contest_looks
from experiments.contest import summary as contest_summary
from experiments.contest.choices import SeedCount
from experiments.contest.looks import run_looks
from experiments.parity.roster import CONTESTANTS, CONTROLS, PARITY
from experiments.statistics import Verdict, compare_r2, judge, planned_looks
from tests.experiments.parity.parity_cases import make_job
from tests.experiments.parity.parity_records import make_record

LOOKS = planned_looks(30)
MARGIN, SPREAD = 0.02, 0.03


def last_verdict(differences, corrected):
    """Look as planned, and stop at the first verdict."""
    for seeds in LOOKS:
        case = compare_r2(
            0.5 + differences[:seeds],
            [0.5] * seeds,
            n_test=[10**6] * seeds,
            p_chance=([0.0], [0.0]),
            margin=MARGIN,
        )
        verdict = judge({"t": case}, looks=len(LOOKS) if corrected else 1)["t"].verdict
        if verdict is not Verdict.UNDECIDED:
            return verdict
    return Verdict.UNDECIDED


def rate_of(claims, gap, corrected, experiments=400):
    rng = np.random.default_rng(1)
    drawn = rng.normal(gap, SPREAD, (experiments, LOOKS[-1]))
    return np.mean([last_verdict(row, corrected) in claims for row in drawn])


@pytest.mark.parametrize(
    ("claims", "gap"),
    [
        ({Verdict.BETTER, Verdict.WORSE}, 0.0),  # there is no difference
        ({Verdict.EQUIVALENT}, MARGIN),  # the gap is not within the margin
    ],
)
def test_looking_often_errs_no_more_than_looking_once(claims, gap):
    assert rate_of(claims, gap, corrected=True) <= 0.05
    assert rate_of(claims, gap, corrected=False) > 0.06  # which is what the correction is for


def test_a_true_claim_is_found_with_seeds_to_spare():
    assert rate_of({Verdict.WORSE}, -0.04, corrected=True, experiments=60) > 0.9


def test_the_interval_is_as_wide_as_the_looks_ask_for():
    scores = 0.5 + 0.01 * np.arange(6)
    made = {"n_test": [1000] * 6, "p_chance": ([0.0], [0.0]), "margin": MARGIN}
    once, often = (compare_r2(scores, [0.5] * 6, **made, looks=n) for n in (1, 5))
    assert often.interval[0] < once.interval[0] < once.interval[1] < often.interval[1]
    assert often.p_difference == once.p_difference  # which `judge` corrects


@pytest.mark.parametrize(
    ("most", "expected"),
    [(30, (5, 8, 13, 21, 30)), (5, (5,)), (3, (3,)), (1, (1,)), (9, (5, 8, 9))],
)
def test_looks_grow_by_a_share_and_end_at_the_limit(most, expected):
    assert planned_looks(most) == expected


class Planned(NamedTuple):
    task: str
    name: str
    seed: int


class Runs:
    """Trainings that are not done: EqProp is as good as backprop, or nobody can tell."""

    def __init__(self, decided_after):
        self.decided_after, self.asked = decided_after, []

    def jobs_of(self, task, seeds, first):
        self.asked.append((task, list(seeds), first))
        names = (*CONTESTANTS, *(CONTROLS if first else ()))
        return [Planned(task, name, seed) for seed in seeds for name in names]

    def finish(self, jobs):
        return [self.record(*job) for job in jobs]

    def record(self, task, name, seed):
        open_yet = seed < 42 + self.decided_after[task]
        shift = 0.03 * (-1) ** seed if open_yet and name == "eqprop_looped" else 0.0
        return make_record(task, name, seed, 0.9 + shift, n_test=100_000)


def run(decided_after, looks):
    runs, told = Runs(decided_after), io.StringIO()
    records = run_looks(
        looks,
        runs.jobs_of,
        runs.finish,
        lambda records: contest_summary.summarise(PARITY, records, {}, len(looks)),
        "eqprop_looped",
        Console(file=told, width=200),
    )
    return runs.asked, records, told.getvalue()


def test_only_open_tasks_get_more_seeds_and_controls_get_none():
    looks = [dict.fromkeys(("digits", "mine.csv"), n) for n in (4, 6, 9)]
    asked, records, told = run({"digits": 0, "mine.csv": 100}, looks)
    assert asked == [
        ("digits", [42, 43, 44, 45], True),
        ("mine.csv", [42, 43, 44, 45], True),
        ("mine.csv", [46, 47], False),
        ("mine.csv", [48, 49, 50], False),
    ]
    assert told.splitlines() == [
        "Look 1 of at most 3: undecided on mine.csv; seeds 46, 47 are added.",
        "Look 2 of at most 3: undecided on mine.csv; seeds 48, 49, 50 are added.",
    ]
    summary = contest_summary.summarise(PARITY, records, {}, 3)
    assert not any("seed" in sentence for sentence in summary.missing)


def test_it_stops_when_all_is_decided():
    looks = [{"digits": n} for n in (4, 6, 9)]
    asked, *_ = run({"digits": 0}, looks)
    assert asked == [("digits", [42, 43, 44, 45], True)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, [{"a": 3, "b": 7}]),
        (SeedCount(4), [{"a": 4, "b": 4}]),
        (SeedCount(8, until_decided=True), [{"a": 5, "b": 5}, {"a": 8, "b": 8}]),
    ],
)
def test_seeds_are_the_usual_ones_so_many_or_as_many_as_decide(asked, expected):
    class Options:
        seeds = asked

    assert contest_looks.looks_at(Options, {"a": 3, "b": 7}) == expected


def test_jobs_of_a_look_go_seed_by_seed():
    ran = []
    jobs = [make_job(name, seed) for name in CONTESTANTS[:2] for seed in (43, 42)]
    run_looks([{"tiny": 2}], lambda *_: jobs, lambda found: ran.extend(found) or [], None, "", None)
    assert [job.seed for job in ran] == [42, 42, 43, 43]
