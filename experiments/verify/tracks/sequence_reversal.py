"""Track 14: an equilibrium transformer, trained by EqProp, reverses sequences it has not seen."""

from dataclasses import asdict, replace

import matplotlib
from matplotlib.figure import Figure

from experiments.reporting.document import Table
from experiments.reporting.number_text import number
from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import STYLE
from experiments.transformer.measures import held_out
from experiments.transformer.outcomes import TransformerOutcome, run_job
from experiments.transformer.plots import draw_maps
from experiments.transformer.settings import (
    FEW_STEPS,
    GOAL_TOKENS,
    GOALS,
    LARGEST_RESIDUAL,
    LEAST_COSINE,
    TransformerSettings,
    settings_for,
)
from experiments.transformer.training import (
    BACKPROP,
    EQPROP,
    METHODS,
    TransformerJob,
    training_batches,
)
from experiments.verify.digits import seeds
from experiments.verify.track import Check, Finding, Size, Track, TrackSize

CLAIM = (
    "A transformer whose attention is an energy, trained by EqProp on fresh random sequences, "
    "reverses sequences of 8 tokens that no update has seen: at equilibrium every seed gets at "
    "least 99 % of the tokens right. Trained and tested in full (--full), it gets all of 80,000 "
    "right with a vocabulary of 10 and 99.99 % with one of 50, and its gradient keeps a cosine of "
    "at least 0.99 with that of autograd."
)
TASK, LENGTH, VOCABULARY, LARGE_VOCABULARY = "reversal", 8, 10, 50
LEAST_SHARE = 0.99
FULL_UPDATES, SOME_UPDATES = 1500, 500
"""From the first on the larger vocabulary and backprop take part and the goals decide, from the
second on tests are not tiny."""


def verify(size: Size) -> Finding:
    """Train, relax held-out sequences to equilibrium and count wrong tokens."""
    jobs = list_jobs(size)
    seen = sum(count_seen(job) for job in jobs if job.method == EQPROP)
    outcomes = [run_job(job) for job in jobs]
    return Finding(
        experiment=(
            f"Reversal of {LENGTH} tokens from a vocabulary of {VOCABULARY}"
            f"{f' and of {LARGE_VOCABULARY}' if size.amount >= FULL_UPDATES else ''}, "
            f"{size.repeats}, {size.amount} updates for the smaller one. Every batch is drawn "
            "anew; a hash of its tokens puts each possible sequence into training, validation or "
            "test for good. Test sequences relax until the residual is at most "
            f"{LARGEST_RESIDUAL:g}, and also for just {FEW_STEPS} steps; a sequence that does not "
            "get that far counts as wrong. To be sure, the sequences of all updates are drawn once "
            "more and compared with the test sequences. During training the estimate is compared "
            "with the gradient of autograd."
        ),
        checks=list_checks(outcomes, seen),
        tables=(_answer_table(outcomes), _equilibrium_table(outcomes)),
        limits=(
            "One task of fixed length. python -m experiments.transformer runs copy, shift, sort "
            "and longer sequences.",
            "The energy has no spectral cap: sequences may have several equilibria, and the "
            "answer is that of the one reached from the usual start. The table says how often "
            "random starts end elsewhere.",
            "Without --full the network is trained for a part of the updates, tested on fewer "
            "sequences and not compared with backprop, and the goals do not decide.",
        ),
        pictures=(_picture(outcomes[0]),),
        measurements={
            "runs": [asdict(outcome) for outcome in outcomes],
            "seen_in_training": seen,
        },
    )


def list_jobs(size: Size) -> list[TransformerJob]:
    """Return the trainings of a size, EqProp on the small vocabulary first."""
    settings = replace(settings_for(TASK, VOCABULARY, LENGTH, quick=False), updates=size.amount)
    kinds = [(EQPROP, settings)]
    if size.amount >= FULL_UPDATES:
        large = settings_for(TASK, LARGE_VOCABULARY, LENGTH, quick=False)
        kinds += [(EQPROP, large), (BACKPROP, settings)]
    else:
        kinds = [(EQPROP, _shortened(settings))]
    return [
        TransformerJob(TASK, method, seed, s) for method, s in kinds for seed in seeds(size.seeds)
    ]


def count_seen(job: TransformerJob) -> int:
    """Draw all training sequences of a job again and count test sequences among them."""
    batches = training_batches(job.settings, job.seed)
    trained = {row.tobytes() for batch in batches for row in batch}
    return sum(row.tobytes() in trained for row in held_out(job.settings, job.seed))


def list_checks(outcomes: list[TransformerOutcome], seen: int) -> tuple[Check, ...]:
    """Hold the worst seed to the claim; in a full run to the goals as well."""
    trained = [outcome for outcome in outcomes if outcome.method == EQPROP]
    full = all(outcome.settled.tokens >= GOAL_TOKENS for outcome in trained)
    checks = [Check("Test sequences that an update has seen", float(seen), "=", 0.0)]
    for vocabulary in dict.fromkeys(outcome.settings["vocabulary"] for outcome in trained):
        shares = [right_share(o) for o in trained if o.settings["vocabulary"] == vocabulary]
        name = f"Vocabulary {vocabulary}: smallest share of tokens right at equilibrium"
        checks.append(Check.of_all(name, shares, ">=", LEAST_SHARE))
        goal = GOALS[TASK, vocabulary, LENGTH]
        checks.append(Check.of_all(f"{name} (goal)", shares, ">=", goal, essential=full))
    cosines = [moment.cosine for outcome in trained for moment in outcome.curve]
    name = "Smallest cosine with autograd (goal)"
    checks.append(Check.of_all(name, cosines, ">=", LEAST_COSINE, essential=full))
    return tuple(checks)


def right_share(outcome: TransformerOutcome) -> float:
    """Return the share of tokens right at equilibrium; one that did not get there is not."""
    settled = outcome.settled
    length = settled.tokens // settled.sequences
    return 1 - (settled.wrong + length * settled.unsettled) / settled.tokens


def _shortened(settings: TransformerSettings) -> TransformerSettings:
    tests = 2500 if settings.updates >= SOME_UPDATES else 500
    return replace(settings, test_sequences=tests, restarted=50, restarts=5, measured=2)


def _answer_table(outcomes: list[TransformerOutcome]) -> Table:
    rows = tuple(
        (
            METHODS[outcome.method],
            str(outcome.settings["vocabulary"]),
            str(outcome.seed),
            f"{outcome.settled.tokens:,}",
            str(outcome.settled.wrong),
            number(100 * (1 - outcome.settled.wrong / outcome.settled.tokens), 4),
            str(outcome.few.wrong),
            number(outcome.least_cosine, 5) if outcome.method == EQPROP else "",
        )
        for outcome in outcomes
    )
    return Table(
        "Held-out tokens",
        (
            "Method",
            "Vocabulary",
            "Seed",
            "Tokens",
            "Wrong at\nequilibrium",
            "Right\n(%)",
            f"Wrong after\n{FEW_STEPS} steps",
            "Least cosine\nwith autograd",
        ),
        rows,
    )


def _equilibrium_table(outcomes: list[TransformerOutcome]) -> Table:
    rows = tuple(
        (
            METHODS[outcome.method],
            str(outcome.settings["vocabulary"]),
            str(outcome.seed),
            f"{outcome.settled.residual:.1e}",
            str(outcome.settled.unsettled),
            " / ".join(f"{count:.0f}" for count in outcome.settled.steps),
            number(100 * outcome.multistability.several / outcome.multistability.sequences, 1),
        )
        for outcome in outcomes
    )
    return Table(
        "Equilibria of the test sequences",
        (
            "Method",
            "Vocabulary",
            "Seed",
            "Largest\nresidual",
            "Unsettled",
            "Steps: median /\n95 % / most",
            "Several\nequilibria (%)",
        ),
        rows,
        caption="Several equilibria: share of sequences that end elsewhere from a random start.",
    )


def _picture(outcome: TransformerOutcome) -> Picture:
    caption = (
        "Probability with which the token at a row attends to the token at a column, at "
        "equilibrium: mean over test sequences of the first seed. Reversal is the diagonal from "
        "the lower left; a token does not see itself."
    )
    return take_picture("attention", "What tokens attend to", caption, _draw(outcome))


@matplotlib.rc_context(STYLE)
def _draw(outcome: TransformerOutcome) -> Figure:
    return draw_maps({f"Head {k + 1}": head for k, head in enumerate(outcome.attention)})


TRACK = Track(
    number=14,
    title="Equilibrium transformer",
    claim=CLAIM,
    unit="updates",
    sizes={
        TrackSize.QUICK: Size(1, 400),
        TrackSize.DEFAULT: Size(3, 800),
        TrackSize.FULL: Size(5, FULL_UPDATES),
    },
    verify=verify,
)
