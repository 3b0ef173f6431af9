"""The tables of the hardware report."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from experiments.hardware.contest import Contest, Summary, accuracy_spread, scaled
from experiments.hardware.job import Outcome
from experiments.hardware.settings import LEARNERS
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
TONES: dict[str, Tone] = {"cheaper": "good", "dearer": "bad", "undecided": "open"}
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


def ratio_text(value: Range) -> str:
    """Return a ratio with its range below it."""
    return f"{value.nominal:.3g}\n({value.low:.2g} to {value.high:.2g})"


def learning_table(summary: Summary) -> Table:
    """Does it still learn there?"""
    rows = []
    for substrate, learner in product(CHIPS, LEARNERS):
        group = summary.outcomes.get((learner, substrate))
        if not group:
            continue
        target = summary.targets[substrate]
        epochs = [o.first_epoch(target) for o in group]
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
                CHIPS[substrate].title,
                LEARNER_TITLES[learner],
                percent(*accuracy_spread(group)),
                f"{100 * target:.0f}",
                ", ".join("never" if e is None else str(e) for e in epochs),
                *settled,
            )
        )
    header = (
        "Substrate", "Learner", "Test accuracy, %", "Target, %", "Epochs to it", "Free steps",
        "Nudged steps", "Unsettled, %",
    )  # fmt: skip
    caption = (
        "Accuracy on the test part after the last epoch, mean ± deviation over seeds. The target "
        "is the accuracy on the validation part that all learners reached on the substrate. Steps "
        "are means of the last epoch; a noisy or coarse state may never settle to the tolerance, "
        "and then uses all its steps."
    )
    return Table("Learning", header, tuple(rows), caption, 2)


def headline_table(contests: Sequence[Contest]) -> Table:
    """Energy of training to the target, against both rivals."""
    rows: list[tuple[Cell, ...]] = [
        (
            *names(contest),
            range_text(contest.training_energy(), "J"),
            ratio_text(contest.ratio),
            Badge(contest.verdict, TONES[contest.verdict]),
        )
        for contest in contests
    ]
    header = ("Substrate", "Technology", "Against", "Energy of training", "Ratio", "EqProp is")
    caption = (
        "Energy until the target accuracy. The ratio is EqProp over its rival in the same "
        "technology, priced with the same draw of prices. In brackets the 5th and 95th percentile "
        "over the ranges of the prices; undecided means that 1 lies between them. Ranges reach "
        "further up than down, so a nominal value may lie at the low end of its bracket."
    )
    return Table("Energy of training at equal accuracy", header, tuple(rows), caption, 3)


def resources_table(contests: Sequence[Contest]) -> Table:
    """Time, memory, area and wear of training."""
    rows = []
    for contest in contests:
        substrate, technology, rival = names(contest)
        for bill, name in ((contest.ours, "EqProp"), (contest.theirs, rival)):
            area, wear = bill.area(), bill.wear()
            row = (
                substrate,
                technology,
                name,
                range_text(scaled(bill.latency(), 1 / contest.seeds), "s"),
                f"{bill.design.memory.words:,}",
                number(bill.design.memory_bits / 8192, 1),
                NONE if area is None else ratio_text(scaled(area, 1e6)),
                NONE if wear is None else ratio_text(wear),
            )
            if row not in rows:
                rows.append(row)
    header = (
        "Substrate", "Technology", "Learner", "Time of training", "Words and cells", "KiB",
        "Area, mm²", "Writes / endurance",
    )  # fmt: skip
    caption = (
        "Memory for one sample in flight, optimizer included; KiB are those of words, as cells are "
        "analog. BPTT stores its trajectory: its words grow with the steps. The wear is that of "
        "the cell that was written most until the target."
    )
    return Table("Time, memory, area, wear", header, tuple(rows), caption, 3)


def break_even_tables(contests: Sequence[Contest]) -> tuple[Table, Table]:
    """Where the balance of energy tips, and that of time."""
    caption = (
        "EqProp takes less than its rival if one of these holds and all else stays at its nominal "
        "price. {} are straight lines in each, so the points are exact. {}"
    )
    steps = "Steps are those of a sample in its three phases together."
    settling = (
        "On a crossbar cell_read time is that of settling; on event-driven cores what is busiest "
        "at nominal times stays so."
    )
    owners = ("Substrate", "Technology", "Against")
    energy = tuple((*names(c), ";\n".join(c.break_even())) for c in contests)
    time = tuple((*names(c), ";\n".join(c.break_even_times())) for c in contests)
    return (
        Table(
            "Break-even of energy",
            (*owners, "Less energy if"),
            energy,
            caption.format("Energies", steps),
            4,
        ),
        Table(
            "Break-even of time",
            (*owners, "Less time if"),
            time,
            caption.format("Times", settling),
            4,
        ),
    )


def sensitivity_table(contests: Sequence[Contest]) -> Table:
    """The prices that move the ratio most."""
    rows = []
    for contest in contests:
        strongest = [
            f"{s.kind} ({s.low:.2g} to {s.high:.2g}{', decides' if s.decides else ''})"
            for s in contest.swings[:4]
            if s.size > 1.001
        ]
        rows.append((*names(contest), ";\n".join(strongest)))
    caption = (
        "The ratio of energies when one price goes from its low to its high end and all others "
        "stay, the strongest first. A price decides if that changes which is cheaper."
    )
    header = ("Substrate", "Technology", "Against", "Ratio from the low to the high price")
    return Table("Sensitivity", header, tuple(rows), caption, 4)


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
    """The events that were counted until the target."""
    totals = {}
    for substrate, learner in product(CHIPS, LEARNERS):
        if (learner, substrate) in summary.outcomes:
            outcome = summary.outcomes[learner, substrate][0]
            epoch = outcome.first_epoch(summary.targets[substrate]) or len(outcome.curve)
            totals[f"{learner}, {substrate}"] = outcome.counts_at(epoch)
    kinds = sorted({key[2] for counts in totals.values() for key, _ in counts})
    rows = tuple((kind, *(f"{c.total(kind):,}" for c in totals.values())) for kind in kinds)
    caption = "Exact counts of the first seed until the target (or the last epoch, if never)."
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
    substrate = CHIPS[contest.substrate].title
    return substrate, contest.technology.title, LEARNER_TITLES[contest.rival]


def prices_table(technologies: Sequence[Technology]) -> Table:
    """Every price with its range, source and status."""
    rows: list[tuple[Cell, ...]] = []
    for technology in technologies:
        for section, price in technology.listed():
            values = [price_text(v, section) for v in (price.value, price.low, price.high)]
            rows.append(
                (
                    technology.title, f"{section}, {price.name}", price.source, price.node,
                    Badge(price.status, STATUS_TONES[price.status]), *values,
                )
            )  # fmt: skip
    header = ("Technology", "Price", "Source", "Node", "Status", "Value", "Low", "High")
    caption = "Recalled numbers are unverified and have wide ranges."
    return Table("Prices", header, tuple(rows), caption, 5)


def compare_table(old: dict[str, dict[str, float]], new: dict[str, dict[str, float]]) -> Table:
    """Two saved reports side by side."""
    rows = []
    for name in dict.fromkeys([*old, *new]):
        for measure in dict.fromkeys([*old.get(name, {}), *new.get(name, {})]):
            a, b = (side.get(name, {}).get(measure, math.nan) for side in (old, new))
            change = f"{b / a:.3g}" if a and not math.isnan(a * b) else NONE
            rows.append((name, measure, f"{a:.4g}", f"{b:.4g}", change))
    return Table("Comparison", ("What", "Measure", "First", "Second", "Ratio"), tuple(rows), "", 2)
