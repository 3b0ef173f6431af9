"""Track 2: EqProp learns as well as backprop, on a task that is neither trivial nor at chance."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from sklearn.linear_model import LogisticRegression

from experiments.parity.contestants import ParityJob, run_job
from experiments.parity.roster import BASELINES, BPTT, LOOPED, PARITY, TITLES
from experiments.parity.settings import settings_for
from experiments.records import Record
from experiments.reporting.document import Cell, Table
from experiments.reporting.number_text import percent, points, points_between, probability
from experiments.statistics import SIGNIFICANCE, Judgement, compare, judge
from experiments.tasks import find_task
from experiments.verify.digits import seeds
from experiments.verify.track import Check, Finding, Size, Track, TrackSize

CLAIM = (
    "EqProp reaches the test accuracy of backprop within 3 percentage points; on the same network "
    "the two are equivalent."
)
TASK = "digits"
WIDE, NARROW = 0.03, PARITY.margin_of(TASK)
"""Margins of the claim: against any baseline, and on the same network."""

LARGEST_ERROR = 0.5
"""Share of the majority class's error that a network which has learned may make."""
IDLE = 1e-9
"""Share of the learning rate at which nothing is learned."""

ContestantRuns = dict[str, list[Record]]


def verify(size: Size) -> Finding:
    """Train EqProp and two backprop baselines on the same splits and compare them in pairs."""
    runs = train_all(size.seeds, size.amount)
    linear = [linear_accuracy(seed) for seed in seeds(size.seeds)]
    wide, narrow = compare_runs(runs, WIDE), compare_runs(runs, NARROW)
    idle = train_all(1, epochs=1, pace=IDLE)
    rejected = [check.name for check in chance_checks(idle) if not check.held]
    return Finding(
        experiment=(
            f"Digits, {size.amount} epochs, {size.repeats}. EqProp on the looped network, "
            "backprop through time on the same network and a feed-forward network with two hidden "
            "layers see the same split, trained on training and validation together and scored "
            "once on the test part; settings were chosen on the validation part with other seeds. "
            "Differences are paired by seed; two one-sided t-tests, corrected by Holm's method, "
            "say whether a gap is within a margin. A linear classifier shows what the task asks. "
            "Networks that learn nothing agree too: the same networks at a billionth of the "
            "learning rate have to be rejected by the checks on chance."
        ),
        checks=(
            *list_checks(runs, linear, wide, narrow),
            Check(
                "Checks on chance that networks which learn nothing do not pass",
                float(len(rejected)),
                ">=",
                1.0,
            ),
        ),
        tables=(_accuracy_table(runs, linear), _statistics_table(wide, narrow)),
        limits=(
            "Digits with 1,797 images is a small task, and its test part of 360 images tells "
            "accuracies apart in steps of 0.28 points. python -m experiments.parity compares "
            "on five tasks, with controls.",
            "Few seeds leave wide intervals: that a narrow margin is not shown is no evidence of "
            "a difference.",
            "Equal accuracy does not show that the gradient is right: see track 28.",
        ),
        measurements={
            "runs": {name: [_plain(record) for record in found] for name, found in runs.items()},
            "linear": linear,
            "learning_nothing": {name: found[0].accuracy for name, found in idle.items()},
        },
    )


def train_all(count: int, epochs: int, pace: float = 1.0) -> ContestantRuns:
    """Train every contestant with so many seeds, at this share of its learning rate."""
    runs: ContestantRuns = {}
    for name in (LOOPED, *BASELINES):
        usual = settings_for(TASK, name)
        settings = replace(usual, epochs=epochs, lr=pace * usual.lr)
        runs[name] = [run_job(ParityJob(find_task(TASK), name, s, settings)) for s in seeds(count)]
    return runs


def linear_accuracy(seed: int) -> float:
    """Return the test accuracy of a logistic regression on the same split."""
    split = find_task(TASK).load(seed).joined()
    model = LogisticRegression(max_iter=2000).fit(split.x_train, split.y_train)
    return float(model.score(split.x_test, split.y_test))


def compare_runs(runs: ContestantRuns, margin: float) -> dict[str, Judgement]:
    """Judge EqProp against every baseline, with Holm's correction over them."""
    eqprop = runs[LOOPED]
    return judge(
        {
            name: compare(
                [record.accuracy for record in eqprop],
                [record.accuracy for record in runs[name]],
                n_test=[record.n_test for record in eqprop],
                majority_rate=[record.majority_rate for record in eqprop],
                margin=margin,
            )
            for name in BASELINES
        }
    )


def chance_checks(runs: ContestantRuns) -> tuple[Check, ...]:
    """Ask that every single run is far above chance: equality there would mean nothing."""
    chances = [judged.p_chance for judged in compare_runs(runs, WIDE).values()]
    records = [record for found in runs.values() for record in found]
    errors = [(1 - record.accuracy) / (1 - record.majority_rate) for record in records]
    largest = "Largest error of a run over the majority class's"
    return (
        Check.of_all("p that a run is at the majority class", chances, "<", SIGNIFICANCE),
        Check.of_all(largest, errors, "<=", LARGEST_ERROR),
    )


def list_checks(
    runs: ContestantRuns,
    linear: list[float],
    wide: Mapping[str, Judgement],
    narrow: Mapping[str, Judgement],
) -> tuple[Check, ...]:
    """Hold the comparison to the claim; equality at chance level does not pass."""
    eqprop = float(np.mean([record.accuracy for record in runs[LOOPED]]))
    return (
        *chance_checks(runs),
        *(
            Check(
                f"p of a gap beyond {100 * WIDE:g} points: {TITLES[name]}",
                judged.p_equivalence,
                "<",
                SIGNIFICANCE,
            )
            for name, judged in wide.items()
        ),
        Check(
            f"p of a gap beyond {100 * NARROW:g} points on the same network",
            narrow[BPTT].p_equivalence,
            "<",
            SIGNIFICANCE,
            essential=False,
        ),
        Check(
            "EqProp minus a linear classifier, mean",
            eqprop - float(np.mean(linear)),
            ">",
            0.0,
            essential=False,
        ),
    )


def _plain(record: Record) -> dict[str, object]:
    kept = ("seed", "accuracy", "cost", "n_test", "majority_rate", "settings", "seconds")
    return {name: getattr(record, name) for name in kept}


def _accuracy_table(runs: ContestantRuns, linear: list[float]) -> Table:
    found = {TITLES[name]: [r.accuracy for r in records] for name, records in runs.items()}
    found["Linear classifier"] = linear
    found["Majority class"] = [record.majority_rate for record in runs[LOOPED]]
    rows = []
    for title, values in found.items():
        std = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
        rows.append((title, percent(float(np.mean(values)), std), *map(percent, values)))
    numbers = tuple(f"Seed {record.seed}" for record in runs[LOOPED])
    return Table(
        "Accuracy on the test part (%)", ("Contestant", "Mean ± std", *numbers), tuple(rows)
    )


def _statistics_table(wide: Mapping[str, Judgement], narrow: Mapping[str, Judgement]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, judged in wide.items():
        found = judged.comparison
        rows.append(
            (
                f"EqProp minus {TITLES[name]}",
                points_between(found.difference, found.interval),
                probability(judged.p_equivalence),
                probability(narrow[name].p_equivalence),
                probability(judged.p_difference),
                narrow[name].verdict.value,
            )
        )
    return Table(
        "Paired differences",
        (
            "Difference",
            "Points\n(95 % CI)",
            f"p, beyond\n±{points(WIDE)[1:]}",
            f"p, beyond\n±{points(NARROW)[1:]}",
            "p, no\ndifference",
            f"Verdict at\n±{points(NARROW)[1:]}",
        ),
        tuple(rows),
        caption="p-values after Holm's correction over the two baselines.",
    )


TRACK = Track(
    number=2,
    title="Parity with backprop",
    claim=CLAIM,
    unit="epochs",
    sizes={
        TrackSize.QUICK: Size(3, 3),
        TrackSize.DEFAULT: Size(5, 12),
        TrackSize.FULL: Size(10, 30),
    },
    verify=verify,
)
