"""The tables of the hardware report that compare EqProp with its rivals at equal accuracy."""

from collections.abc import Sequence

from experiments.hardware.costs import Contest
from experiments.hardware.report_tables import ends_text, names, range_text, ratio_text
from experiments.hardware.spread import RatioSpread
from experiments.reporting.document import Badge, Cell, Table, Tone

TONES: dict[str, Tone] = {
    "cheaper": "good", "faster": "good", "dearer": "bad", "slower": "bad", "undecided": "open"
}  # fmt: skip


def headline_tables(contests: Sequence[Contest]) -> tuple[Table, Table]:
    """Energy and time of training to the target, against both rivals."""
    energies = [
        _ratio_row(c, range_text(c.training_energy, "J"), c.ratio, c.verdict) for c in contests
    ]
    times = [
        _ratio_row(c, range_text(c.training_time, "s"), c.time_ratio, c.time_verdict)
        for c in contests
        if c.time_ratio is not None
    ]
    header = ("Substrate", "Technology", "Against", "{} of training", "Ratio", "By prices",
              "By seeds", "EqProp is")  # fmt: skip
    caption = (
        "{} until the target accuracy, mean over seeds. The ratio is EqProp over its rival in the "
        "same technology, priced with the same draw of prices. In brackets the 5th and 95th "
        "percentile over the ranges of the prices and over seeds, both drawn together; undecided "
        "means that 1 lies between them. By prices and by seeds is what the bracket would be if "
        "the other stayed. A price is as likely to be above its value as below."
    )
    energy, time = (
        Table(
            f"{what} of training at equal accuracy",
            tuple(title.format(what) for title in header),
            tuple(rows),
            caption.format(what),
            3,
        )
        for what, rows in (("Energy", energies), ("Time", times))
    )
    return energy, time


def _ratio_row(contest: Contest, cost: str, ratio: RatioSpread, verdict: str) -> tuple[Cell, ...]:
    """Return a contest with the ratio of its costs, and where its range comes from."""
    apart = (ends_text(part) for part in (ratio.prices, ratio.seeds))
    return (*names(contest), cost, ratio_text(ratio.both), *apart, Badge(verdict, TONES[verdict]))


def break_even_tables(contests: Sequence[Contest]) -> tuple[Table, Table]:
    """Where the balance of energy tips, and that of time."""
    caption = (
        "EqProp takes less than its rival if one of these holds and all else stays at its nominal "
        "price. {} are straight lines in each, so the points are exact. {}"
    )
    steps = "Steps are those of a sample in its three phases together."
    settling = (
        "On a crossbar cell_read time is that of settling; on cores what is busiest "
        "at nominal times stays so."
    )
    owners = ("Substrate", "Technology", "Against")
    energy = tuple((*names(c), ";\n".join(c.break_even())) for c in contests)
    times = (c for c in contests if c.time_ratio is not None)
    time = tuple((*names(c), ";\n".join(c.break_even_times())) for c in times)
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
