"""The tables of the hardware report."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from experiments.hardware.contest import Summary, accuracy_spread, mean_and_deviation
from experiments.hardware.costs import Contest, inverse, scaled, timed
from experiments.hardware.curve import epochs_to, first_look
from experiments.hardware.job import Outcome
from experiments.hardware.settings import LEARNERS
from experiments.hardware.target import Targets, target_of, update_reached
from experiments.reporting.document import Badge, Cell, Table, Tone
from experiments.reporting.number_text import NONE, in_units, number, percent
from hw_sim.chips.catalogue import CHIPS
from hw_sim.prices.bill import Bill, grouped
from hw_sim.prices.sums import Range
from hw_sim.prices.technology import Technology

LEARNER_TITLES = {
    "eqprop": "EqProp",
    "backprop": "backprop, feed-forward",
    "bptt": "BPTT, same network",
}
STATUS_TONES: dict[str, Tone] = {
    "ran": "good", "read": "good", "second-hand": "open", "recalled": "bad"
}  # fmt: skip


UNITS = {"energy": "J", "latency": "s", "power": "W", "area": "m²", "endurance": "writes"}
"""Of each section of prices."""


def price_text(value: float, section: str) -> str:
    """Return a price with its unit; areas and lives have no prefixes."""
    unit = UNITS[section]
    return f"{value:.2g} {unit}" if section in ("area", "endurance") else in_units(value, unit)


def range_text(value: Range, unit: str) -> str:
    """Return a nominal value with its range below it."""
    return f"{in_units(value.nominal, unit)}\n({in_units(value.low, unit)} to " + (
        f"{in_units(value.high, unit)})"
    )


def time_range_text(value: Range) -> str:
    """Return a time with its range below it; a dash where a technology states no times."""
    return range_text(value, "s") if timed(value) else NONE


def ratio_text(value: Range) -> str:
    """Return a ratio with its range below it, all with as many digits: it then holds its value."""
    return f"{value.nominal:.3g}\n({ends_text(value)})"


def ends_text(value: Range) -> str:
    """Return the ends of the range of a ratio."""
    return f"{value.low:.3g} to {value.high:.3g}"


def worn_text(bill: Bill) -> str:
    """Return how many such trainings a chip lasts; a dash where nothing wears."""
    wear = bill.wear()
    if wear is None or not wear.nominal:
        return NONE
    lives = inverse(wear)
    return f"{rounded(lives.nominal)}\n({rounded(lives.low)} to {rounded(lives.high)})"


def rounded(value: float) -> str:
    """Return three digits, as a whole number where there are more before the point."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def learning_table(summary: Summary) -> Table:
    """Does it still learn there?"""
    rows = []
    for substrate, learner in product(CHIPS, LEARNERS):
        group = summary.outcomes.get((learner, substrate))
        if not group:
            continue
        last = [o.curve[-1] for o in group]
        settled = [NONE] * 3
        if learner == "eqprop":
            settled = [
                number(float(np.mean([p.free_steps for p in last]))),
                number(float(np.mean([p.nudged_steps for p in last]))),
                percent(float(np.mean([p.unsettled for p in last]))),
            ]
        rows.append(
            (
                substrate,
                LEARNER_TITLES[learner],
                percent(*accuracy_spread(group)),
                percent(*mean_and_deviation([target_of(o, summary.targets) for o in group])),
                _epochs_text(group, summary.targets),
                *settled,
            )
        )
    header = (
        "Substrate", "Learner", "Test accuracy, %", "Target, %", "Epochs to it", "Free steps",
        "Nudged steps", "Unsettled, %",
    )  # fmt: skip
    caption = (
        "Accuracy on the test part after the last epoch; it, targets and epochs are means ± "
        "deviations over seeds. The target of a seed is an accuracy on the validation part that "
        "all its learners reached and kept on the substrate, unless it was given. Steps are means "
        "between the last two looks. " + _unsettled_text(summary)
    )
    return Table("Learning", header, tuple(rows), caption, 2)


def _unsettled_text(summary: Summary) -> str:
    """Say what unsettled means, with the numbers of the run."""
    group = next(g for (learner, _), g in summary.outcomes.items() if learner == "eqprop")
    settings = group[0].settings
    return (
        f"Unsettled is the share of all phases that ended with their last step (free "
        f"{settings['free_steps']}, nudged {settings['nudged_steps']}) while a unit still moved by "
        f"more than the tolerance of {settings['tolerance']:g}. They learn and answer from the "
        f"state that they have; noise, or words coarser than the tolerance, may never settle."
    )


def _epochs_text(group: Sequence[Outcome], targets: Targets) -> str:
    """Say after how many passes over the training part the target was reached."""
    never = [str(o.seed) for o in group if update_reached(o, targets) is None]
    if never:
        return f"never by seed {', '.join(never)}"
    mean, deviation = mean_and_deviation([epochs_to(o.curve, target_of(o, targets)) for o in group])
    return f"{mean:.2f}" if math.isnan(deviation) else f"{mean:.2f} ± {deviation:.2f}"


def resources_table(contests: Sequence[Contest]) -> Table:
    """Time, memory, area and wear of training."""
    rows = []
    for contest in contests:
        substrate, technology, rival = names(contest)
        for bill, name in ((contest.ours, "EqProp"), (contest.theirs, rival)):
            area = bill.area()
            row = (
                substrate,
                technology,
                name,
                time_range_text(scaled(bill.latency(), 1 / contest.seeds)),
                f"{bill.design.memory.words:,}",
                number(bill.design.memory_bits / 8192, 1),
                NONE if area is None else ratio_text(scaled(area, 1e6)),
                worn_text(bill),
            )
            if row not in rows:
                rows.append(row)
    header = (
        "Substrate", "Technology", "Learner", "Time of training", "Words and cells", "KiB",
        "Area, mm²", "Trainings until worn out",
    )  # fmt: skip
    caption = (
        "Memory for one sample in flight, optimizer included; KiB are those of words, as cells are "
        "analog. BPTT stores its trajectory: its words grow with the steps. A "
        "chip is worn out when the cell that is written most has had the writes that cells endure. "
        "In brackets the ranges of the prices."
    )
    return Table("Time, memory, area, wear", header, tuple(rows), caption, 3)


def parts_table(owner: str, bill: Bill, seeds: int) -> Table:
    """Energy of one training of EqProp by phase, place and kind, and the share of each."""
    rows = []
    for by in ("phase", "place", "kind"):
        parts = grouped(bill.energy_parts(), by)
        total = sum(parts.values())
        for name, energy in sorted(parts.items(), key=lambda item: -item[1]):
            if energy > 0.0:
                share = f"{100 * energy / total:.1f}"
                rows.append((by, name, in_units(energy / seeds, "J"), share))
    title = f"EqProp, {owner}: energy of training"
    caption = "Each of the three groups sums to the whole."
    return Table(title, ("By", "Part", "Energy", "%"), tuple(rows), caption, 2)


def counts_table(summary: Summary) -> Table:
    """The events that were counted until about the target."""
    totals = {}
    for substrate, learner in product(CHIPS, LEARNERS):
        if (learner, substrate) in summary.outcomes:
            outcome = summary.outcomes[learner, substrate][0]
            totals[f"{learner}, {substrate}"] = first_look(
                outcome.curve, target_of(outcome, summary.targets)
            ).done
    kinds = sorted({key[2] for counts in totals.values() for key, _ in counts})
    rows = tuple((kind, *(f"{c.total(kind):,}" for c in totals.values())) for kind in kinds)
    caption = (
        "Exact counts of the first seed until the first look after the target was reached (or the "
        "last, if never)."
    )
    return Table("Counts", ("Event", *totals), rows, caption)


def sweep_table(title: str, outcomes: Sequence[Outcome]) -> Table:
    """Test accuracy along a sweep."""
    rows = []
    for label in dict.fromkeys(outcome.label for outcome in outcomes):
        group = [outcome for outcome in outcomes if outcome.label == label]
        rows.append((label, percent(*accuracy_spread(group)), str(len(group))))
    return Table(title, ("Point", "Test accuracy, %", "Seeds"), tuple(rows))


def names(contest: Contest) -> tuple[str, str, str]:
    """Return substrate, technology and rival as tables show them."""
    return contest.substrate, contest.technology.name, LEARNER_TITLES[contest.rival]


def prices_table(technologies: Sequence[Technology]) -> Table:
    """Every price with its range, source and status."""
    rows: list[tuple[Cell, ...]] = []
    for technology in technologies:
        for section, price in technology.listed():
            values = [price_text(v, section) for v in (price.value, price.low, price.high)]
            rows.append(
                (
                    technology.name, f"{section}, {price.name}", price.source, price.node,
                    Badge(price.status, STATUS_TONES[price.status]), *values,
                )
            )  # fmt: skip
    header = ("Technology", "Price", "Source", "Node", "Status", "Value", "Low", "High")
    caption = "Recalled numbers are unverified and have wide ranges."
    return Table("Prices", header, tuple(rows), caption, 5)
