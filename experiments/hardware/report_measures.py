"""The numbers of the hardware report one a row: accuracies, costs, memory and wear."""

from collections.abc import Iterator

from experiments.hardware.contest import Summary
from experiments.hardware.costs import scaled, timed
from experiments.hardware.measures import Measure
from experiments.hardware.sample_tables import Run, priced_runs, training_samples
from experiments.hardware.throughput_tables import levels
from hw_sim.prices.sums import Range


def report_measures(summary: Summary) -> Iterator[Measure]:
    """Yield every number that the report prices, and the accuracies of all runs."""
    for (learner, substrate), group in summary.outcomes.items():
        for o in group:
            of = substrate, "", learner, o.label, str(o.seed)
            yield Measure(*of, "test accuracy", "", o.accuracy)
            yield Measure(*of, "target accuracy", "", summary.targets[substrate, o.seed])
    for o in summary.sweeps:
        of = o.substrate, "", o.learner, o.label, str(o.seed)
        yield Measure(*of, "test accuracy", "", o.accuracy)
    for contest in summary.contests:
        of = contest.substrate, contest.technology.name, "eqprop", "", ""
        against = f"over {contest.rival}"
        yield _ranged(of, f"energy of training {against}", "", contest.ratio.both)
        if contest.time_ratio is not None:
            yield _ranged(of, f"time of training {against}", "", contest.time_ratio.both)
    for run in priced_runs(summary.contests, summary.costs):
        yield from _of_run(run, len(summary.outcomes[run.learner, run.substrate]))


def _of_run(run: Run, seeds: int) -> Iterator[Measure]:
    of = run.substrate, run.technology.name, run.learner, "", ""
    samples, trained, once = training_samples(run.trained), run.trained, run.once
    for what, bill, share in (
        ("training", trained, 1 / seeds),
        ("a training sample", trained, 1 / samples),
        ("an inference", once, 1 / run.inferences),
    ):
        yield _ranged(of, f"energy of {what}", "J", scaled(bill.energy(), share))
        time = timed(scaled(bill.latency(), share))
        if time is not None:
            yield _ranged(of, f"time of {what}", "s", time)
    for level, (words, bits, _) in levels(trained.design).items():
        if words:
            yield Measure(*of, f"memory of {level}", "bits" if bits else "cells", bits or words)
    for what, unit, value in (("area", "m2", trained.area()), ("wear", "", trained.wear())):
        if value is not None:
            yield _ranged(of, what, unit, value)


def _ranged(of: tuple[str, str, str, str, str], what: str, unit: str, value: Range) -> Measure:
    return Measure(*of, what, unit, value.nominal, value.low, value.high)
