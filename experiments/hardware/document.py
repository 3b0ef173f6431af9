"""The hardware report as a document: what it says, in which order."""

from collections.abc import Mapping, Sequence

from experiments.hardware.settings import SUBSTRATES
from experiments.hardware.summary import Contest, Summary
from experiments.hardware.tables import (
    TITLES,
    break_even_table,
    counts_table,
    headline_table,
    inference_table,
    learning_table,
    parts_table,
    prices_table,
    resources_table,
    sweep_table,
)
from experiments.reporting.document import (
    Block,
    Bullets,
    Code,
    Document,
    Figure,
    Section,
    Table,
)
from hw_sim.technology import Technology

TITLE = "EqProp on simulated hardware"

METHOD = (
    "Counts are exact integers from the runs: real steps, real events, real writes. Prices are "
    "assumptions, each with a range, a source and a status.",
    "Training uses the training part; the epoch at which the target is reached is read from the "
    "validation part; accuracies are of the test part after the last epoch.",
    "The rivals run in floating point and are priced at the word widths of their opponent, which "
    "favours them. On a crossbar their matrix products are priced as array reads and conversions.",
    "The rivals are plain backprop through one hidden layer without recurrence, and BPTT through "
    "the same looped network. Optimizer and batches are the same for all.",
    "Every product that adds to a gradient reads and writes its word in memory. A design that sums "
    "in registers would pay less, and BPTT, which adds at every step, would gain most.",
    "Not priced: leakage, clock, control, wires and drivers, the host, and the calculation of the "
    "spectral cap. Op-count tables understate digital logic by 4 to 11 times.",
    "Latency lets nothing overlap; events without a latency price hide behind those with one.",
)


def build_document(
    summary: Summary,
    figures: Mapping[str, Figure],
    technologies: Sequence[Technology],
    command: str,
    machine: Mapping[str, str],
) -> Document:
    """Put tables and figures in order; what there is nothing to say about is left out."""
    contests = summary.contests
    singles = [c for c in contests if c.rival == "backprop"]
    sections = (
        _section("Results", learning_table(summary), headline_table(contests)),
        _section("Missing", Bullets(summary.missing) if summary.missing else None),
        _section("Energy", figures.get("energy"), inference_table(contests)),
        _section("When does EqProp win?", break_even_table(contests), figures.get("break_even")),
        _section("Which prices decide?", figures.get("sensitivity")),
        _section("Time, memory, area, wear", resources_table(contests)),
        _section("Trends", figures.get("pareto"), *_sweeps(summary)),
        _section("Where the energy goes", *(parts_table(contest) for contest in singles)),
        _section("Counts", counts_table(summary)),
        _section("Prices", prices_table(technologies)),
        _section("How the numbers were made", *_method(command, machine)),
    )
    filled = tuple(section for section in sections if section.blocks)
    return Document(TITLE, tuple(lead_sentences(summary)), filled)


def lead_sentences(summary: Summary) -> list[str]:
    """Say what came out, the losses first."""
    sentences = []
    for rival in ("backprop", "bptt"):
        against = [c for c in summary.contests if c.rival == rival]
        if not against:
            continue
        parts = []
        for verdict in ("dearer", "undecided", "cheaper"):
            found = [_ratio(contest) for contest in against if contest.verdict == verdict]
            if found:
                parts.append(f"{verdict}: {'; '.join(found)}")
        sentences.append(
            f"Training EqProp to {summary.target:.0%} against {TITLES[rival]}, energy ratio: "
            f"{'. '.join(parts)}."
        )
    if not sentences:
        sentences.append("No contest was decided: see what is missing.")
    return sentences


def _ratio(contest: Contest) -> str:
    return f"{contest.substrate} in {contest.technology.title} {contest.ratio.nominal:.2g}"


def _sweeps(summary: Summary) -> list[Block]:
    bits = [o for o in summary.sweeps if o.contender == SUBSTRATES[0]]
    ratios = [o for o in summary.sweeps if o.label.startswith("Roff")]
    defects = [o for o in summary.sweeps if o.label.startswith("stuck")]
    blocks: list[Block] = []
    if bits:
        caption = (
            "Published: an oscillator network holds at 10-bit parameters with a 4-bit read-out "
            "(Gower 2025)."
        )
        blocks.append(sweep_table("Bit widths", bits, caption))
    if ratios:
        caption = (
            "Published: nonlinear updates are fine if Roff / Ron is at least 10 (Müller 2025)."
        )
        blocks.append(sweep_table("Roff / Ron with nonlinear updates", ratios, caption))
    if defects:
        caption = (
            "Published: at 10 % defects one crossbar shared by the phases holds (92 % on MNIST), "
            "one for each phase does not (33 %; Oh, Yoon and Min 2025)."
        )
        blocks.append(sweep_table("Defects, arrays shared or split", defects, caption))
    return blocks


def _section(title: str, *blocks: Block | None) -> Section:
    """Leave out what was not drawn and tables without rows."""
    kept = (b for b in blocks if b is not None and not (isinstance(b, Table) and not b.rows))
    return Section(title, tuple(kept))


def _method(command: str, machine: Mapping[str, str]) -> list[Block]:
    rows = tuple(machine.items())
    return [
        Bullets(METHOD),
        Table("Machine", ("Part", "Version"), rows, text_columns=2),
        "The command that makes this report again:",
        Code(command),
    ]
