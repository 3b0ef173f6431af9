"""What one sample takes, in training and in inference, and the average power of both."""

from collections.abc import Sequence
from typing import NamedTuple

from experiments.hardware.costs import Contest, Cost, scaled
from experiments.hardware.report_tables import LEARNER_TITLES, range_text
from experiments.reporting.document import Table
from experiments.reporting.number_text import NONE, in_units
from hw_sim.prices.bill import Bill
from hw_sim.prices.technology import Technology


class Run(NamedTuple):
    """A learner in a technology: training to the target, and all inferences of the test parts."""

    substrate: str
    technology: Technology
    learner: str
    trained: Bill
    once: Bill
    inferences: int


def sample_table(contests: Sequence[Contest], costs: Sequence[Cost]) -> Table:
    """Energy and time of an inference and of a training sample, and the average power."""
    rows = []
    for run in priced_runs(contests, costs):
        rows.append(_row(run, LEARNER_TITLES[run.learner]))
        if run.technology.machine.batch > 1:
            alone = run.trained.one_at_a_time(), run.once.one_at_a_time()
            title = f"{LEARNER_TITLES[run.learner]},\none sample at a time"
            rows.append(_row(run._replace(trained=alone[0], once=alone[1]), title))
    header = (
        "Substrate", "Technology", "Learner", "Inference: energy", "Inference: time",
        "Training sample: energy", "Training sample: time", "Power in inference",
        "Power in training",
    )  # fmt: skip
    caption = (
        "Means over the test part, and over all samples until the target, updates included. "
        "Average power is energy over time. In brackets the 5th and 95th percentile over the "
        "ranges of the prices. Where a technology runs batches, the time of a sample is its share; "
        "one sample at a time is the worst case."
    )
    return Table("One sample", header, tuple(rows), caption, 3)


def training_samples(bill: Bill) -> float:
    """Return how many samples a training saw: all words of each came in over the border."""
    return bill.counts.total("off_chip", "input") / bill.design.network.inputs


def power_text(bill: Bill) -> str:
    """Return the average power with its range, and whether it is more than a board may draw.

    A dash stands where nothing takes time.
    """
    power, limit = bill.power(), bill.power_limit_w()
    if power is None:
        return NONE
    text = range_text(power, "W")
    if limit is not None and power.nominal > limit:
        return f"{text}\nabove the limit of {in_units(limit, 'W')}"
    return text


def priced_runs(contests: Sequence[Contest], costs: Sequence[Cost]) -> list[Run]:
    """Every learner once, EqProp first."""
    runs: dict[tuple[str, str, str], Run] = {}
    for c in contests:
        for learner, trained, once in (
            ("eqprop", c.ours, c.ours_once),
            (c.rival, c.theirs, c.theirs_once),
        ):
            run = Run(c.substrate, c.technology, learner, trained, once, c.inferences)
            runs.setdefault((c.substrate, c.technology.name, learner), run)
    found = list(runs.values())
    return found + [
        Run(c.substrate, c.technology, "eqprop", c.trained, c.once, c.inferences) for c in costs
    ]


def _row(run: Run, title: str) -> tuple[str, ...]:
    samples = training_samples(run.trained)
    return (
        run.substrate,
        run.technology.name,
        title,
        range_text(scaled(run.once.energy(), 1 / run.inferences), "J"),
        time_text(run.once.latency_s / run.inferences),
        range_text(scaled(run.trained.energy(), 1 / samples), "J"),
        time_text(run.trained.latency_s / samples),
        power_text(run.once),
        power_text(run.trained),
    )


def time_text(seconds: float) -> str:
    """Return a time; a dash where a technology states no times."""
    return in_units(seconds, "s") if seconds else NONE
