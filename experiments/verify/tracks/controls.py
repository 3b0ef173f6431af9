"""Track 29: take learning apart; each part that theory calls necessary has to be missed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.learning.predict import predict_proba
from engine.learning.training import fit
from engine.model.params import initial_params
from experiments.parity.contestants import TEST_STEPS, FlippedBackend, ParityJob
from experiments.parity.settings import settings_for
from experiments.reporting.document import Badge, Cell, Table
from experiments.reporting.number_text import percent, points_between, probability
from experiments.statistics import SIGNIFICANCE, Judgement, compare, judge
from experiments.tasks import find_task
from experiments.verify.digits import seeds
from experiments.verify.track import Check, Finding, Size, Track, TrackSize

CLAIM = (
    "The network learns because its hidden weights follow the nudge: with the sign of their update "
    "flipped, the nudge left out, the hidden weights held, or the path from the input to the "
    "output cut, it does as badly as theory says."
)
TASK, HIDDEN = "digits", 16
"""So few units that random features do not suffice: with 128 they nearly do on digits."""
MARGIN = 0.005
NOTHING = "theory says nothing"


class UnnudgedBackend(NumbaBackend):
    """An execution that leaves the nudge out."""

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        return super()._relax_one(clamped, 0.0, relaxation, start)

    # One phase after the other, each by the above.
    _relax = Backend._relax


@dataclass(frozen=True)
class Variant:
    """A way to train, and what theory says about it in comparison with another."""

    title: str
    contestant: str = "eqprop_looped"
    backend: type[NumbaBackend] = NumbaBackend
    frozen: tuple[str, ...] = ()
    zeroed: str | None = None
    against: str | None = None
    theory: str = ""
    must_hurt: bool = False


HIDDEN_BLOCKS = ("W_in", "b", "W_rec")
VARIANTS = {
    "looped": Variant("EqProp, looped"),
    "layered": Variant("EqProp, layered", "eqprop_layered"),
    "readout_only": Variant(
        "Read-out only",
        frozen=HIDDEN_BLOCKS,
        against="looped",
        theory="hurts: 16 random features span less than learned ones",
        must_hurt=True,
    ),
    "flipped": Variant(
        "Sign of the hidden update flipped",
        backend=FlippedBackend,
        against="readout_only",
        theory="hurts, also against no hidden learning: it climbs the cost",
        must_hurt=True,
    ),
    "unnudged": Variant(
        "Nudge of zero",
        backend=UnnudgedBackend,
        against="looped",
        theory="hurts: the phases are equal, so it is read-out only, bit for bit",
        must_hurt=True,
    ),
    "nothing": Variant(
        "Nothing learns",
        frozen=(*HIDDEN_BLOCKS, "W_out", "b_out"),
        against="readout_only",
        theory="hurts: the answer of random weights",
        must_hurt=True,
    ),
    "cut": Variant(
        "W_rec = 0, layered",
        "eqprop_layered",
        frozen=("W_2",),
        zeroed="W_2",
        against="layered",
        theory="hurts: the output no longer sees the input",
        must_hurt=True,
    ),
    "no_recurrence": Variant(
        "W_rec = 0, looped",
        frozen=("W_rec",),
        zeroed="W_rec",
        against="looped",
        theory=f"{NOTHING}: one hidden layer may do",
    ),
    "frozen_recurrence": Variant(
        "W_rec frozen, looped",
        frozen=("W_rec",),
        against="looped",
        theory=f"{NOTHING}: random recurrence may do",
    ),
}


@dataclass(frozen=True)
class TrainedVariant:
    """One variant with one seed."""

    accuracy: float
    n_test: int
    majority_rate: float
    theta: FloatArray
    outputs_spread: float
    """Largest difference of an output between two test samples."""


VariantRuns = dict[str, list[TrainedVariant]]


def verify(size: Size) -> Finding:
    """Train every variant on the same splits and compare it with what it lacks something of."""
    runs = {
        name: [train_variant(variant, seed, size.amount) for seed in seeds(size.seeds)]
        for name, variant in VARIANTS.items()
    }
    must = judge_variants(runs, must_hurt=True)
    open_ones = judge_variants(runs, must_hurt=False)
    return Finding(
        experiment=(
            f"Digits, {HIDDEN} units a hidden layer, {size.amount} epochs, {size.repeats}, the "
            "settings of the parity experiment. Every variant starts from the same weights and "
            "sees the same batches; differences in test accuracy are paired by seed and tested by "
            "Student's t with Holm's correction. Where theory makes no statement, the difference "
            "is shown and not judged."
        ),
        checks=list_checks(runs, must),
        tables=(_table(runs, must | open_ones),),
        limits=(
            f"{HIDDEN} units were chosen so that learned features matter. With 128 units random "
            "features and no recurrence nearly suffice on digits, and these controls say little.",
            "That W_rec = 0 costs little or nothing on digits is no argument against recurrence "
            "elsewhere, and no argument for it: the task does not ask for it.",
            "The controls show what learning needs, not that it is optimal.",
        ),
        measurements={
            name: {
                "accuracies": [one.accuracy for one in found],
                "outputs_spread": [one.outputs_spread for one in found],
            }
            for name, found in runs.items()
        },
    )


def train_variant(variant: Variant, seed: int, epochs: int) -> TrainedVariant:
    """Train once and measure on the test part."""
    usual = settings_for(TASK, variant.contestant)
    # Without decay, so that a weight changes by what it learns alone.
    settings = replace(usual, hidden=HIDDEN, epochs=epochs, decay=0.0)
    job = ParityJob(find_task(TASK), variant.contestant, seed, settings)
    split, training = job.task.load(seed).joined(), replace(job.training, frozen=variant.frozen)
    params = initial_params(job.network, np.random.default_rng(seed))
    if variant.zeroed is not None:
        params[variant.zeroed][...] = 0.0
    backend = variant.backend(job.network, params)
    fit(backend, split.x_train, split.y_train, training)
    p = predict_proba(backend, split.x_test, replace(training.settled, max_steps=TEST_STEPS))
    return TrainedVariant(
        accuracy=float((p.argmax(axis=1) == split.y_test).mean()),
        n_test=len(split.y_test),
        majority_rate=split.majority_rate,
        theta=backend.params.theta.copy(),
        outputs_spread=float(np.ptp(p, axis=0).max()),
    )


def judge_variants(runs: VariantRuns, *, must_hurt: bool) -> dict[str, Judgement]:
    """Compare each of these variants with what it is held against, as one family of tests."""
    return judge(
        {
            name: compare(
                [one.accuracy for one in runs[name]],
                [one.accuracy for one in runs[variant.against]],
                n_test=[one.n_test for one in runs[name]],
                majority_rate=[one.majority_rate for one in runs[name]],
                margin=MARGIN,
            )
            for name, variant in VARIANTS.items()
            if variant.against is not None and variant.must_hurt == must_hurt
        }
    )


def list_checks(runs: VariantRuns, must: Mapping[str, Judgement]) -> tuple[Check, ...]:
    """Ask that the whole networks learn, and that each necessary part is missed."""
    whole = [one for name in ("looped", "layered") for one in runs[name]]
    errors = [(1 - one.accuracy) / (1 - one.majority_rate) for one in whole]
    checks = [Check.of_all("EqProp: largest error over the majority class's", errors, "<=", 0.5)]
    for name, judged in must.items():
        # A control that does better has not hurt, however significant that is.
        p = judged.p_difference if judged.comparison.difference < 0 else 1.0
        title = f"{VARIANTS[name].title}: p that it does not hurt"
        checks.append(Check(title, p, "<", SIGNIFICANCE))
    pairs = zip(runs["unnudged"], runs["readout_only"], strict=True)
    gaps = [float(np.abs(a.theta - b.theta).max()) for a, b in pairs]
    same = "Nudge of zero: largest difference from read-out only"
    checks.append(Check.of_all(same, gaps, "=", 0.0))
    spreads = [one.outputs_spread for one in runs["cut"]]
    deaf = "W_rec = 0, layered: largest effect of the input"
    checks.append(Check.of_all(deaf, spreads, "=", 0.0))
    return tuple(checks)


def _table(runs: VariantRuns, judged: Mapping[str, Judgement]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, variant in VARIANTS.items():
        values = [one.accuracy for one in runs[name]]
        std = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
        cells: tuple[Cell, ...] = ("whole", "", "", "")
        if variant.against is not None:
            found = judged[name]
            hurts = found.p_difference < SIGNIFICANCE and found.comparison.difference < 0
            word = "hurts" if hurts else "does not hurt"
            seen = (
                Badge(word, "good" if hurts else "bad")
                if variant.must_hurt
                else Badge(word, "open")
            )
            cells = (
                variant.theory,
                points_between(found.comparison.difference, found.comparison.interval),
                probability(found.p_difference),
                seen,
            )
        rows.append((variant.title, cells[0], percent(float(np.mean(values)), std), *cells[1:]))
    chance = percent(float(np.mean([one.majority_rate for one in runs["looped"]])))
    return Table(
        "Controls on the test part",
        ("Variant", "Theory", "Accuracy (%)", "Points\n(95 % CI)", "p", "Seen"),
        tuple(rows),
        caption=f"Points against the whole network; those of the flipped sign and of no learning "
        f"at all against read-out only. The majority class has {chance} %. 'Does not hurt' means "
        "that no loss was shown.",
        text_columns=2,
    )


TRACK = Track(
    number=29,
    title="Controls",
    claim=CLAIM,
    unit="epochs",
    sizes={
        TrackSize.QUICK: Size(4, 3),
        TrackSize.DEFAULT: Size(5, 10),
        TrackSize.FULL: Size(8, 30),
    },
    verify=verify,
)
