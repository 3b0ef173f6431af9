"""The hardware report as a document: what it says, in which order."""

from collections.abc import Mapping, Sequence

from experiments.hardware.contest import Contest, Summary
from experiments.hardware.cost_tables import cost_names, cost_sentence, cost_table
from experiments.hardware.own_network import refusal
from experiments.hardware.report_tables import (
    LEARNER_TITLES,
    break_even_tables,
    counts_table,
    headline_table,
    learning_table,
    names,
    parts_table,
    prices_table,
    resources_table,
    sensitivity_table,
    sweep_table,
)
from experiments.hardware.sample_tables import sample_table
from experiments.hardware.settings import RIVALS
from experiments.hardware.trends import trends_table
from experiments.reporting.document import (
    Block,
    Bullets,
    Code,
    Document,
    Figure,
    Section,
    Table,
)
from hw_sim.prices.technology import Technology

TITLE = "EqProp on simulated hardware"

COUNTED = (
    "Counts are exact integers from the runs: real steps, real events, real writes. Prices are "
    "assumptions, each with a range, a source and a status.",
    "The work of the optimizer is the only count that is a formula: a fixed number of operations "
    "for each parameter and update.",
)

BY_FORMULA = (
    "No chip runs this network. Its steps are those that the compiled engine took, in floating "
    "point; the events of a step, of learning and of an update are a formula of digital logic, "
    "word by word. Prices are assumptions, each with a range, a source and a status.",
    "Words are priced at the widths of the digital chip, but nothing was rounded to them: the "
    "accuracy is that of floating point.",
)

METHOD = (
    "Training uses the training part; the epoch at which the target is reached is read from the "
    "validation part; accuracies are of the test part after the last epoch.",
    "Every product that adds to a gradient reads and writes its word in memory. A design that sums "
    "in registers would pay less.",
    "Leakage and idle power are paid for the whole time of a run, where a technology states them.",
    "Not priced: clock, control, wires and drivers, the host, and the calculation of the "
    "spectral cap. Op-count tables understate digital logic by 4 to 11 times.",
    "Time is that of the machine that a technology states: stages follow one another, and only "
    "what it lists behind a stage takes no time of its own.",
    "Event-driven cores work side by side: a step lasts as long as its busiest core and a barrier.",
)

RIVAL_METHOD = (
    "The rivals are plain backprop through one hidden layer without recurrence, and BPTT through "
    "the same looped network. Optimizer, learning rate and batches are the same for all.",
    "The rivals hold their weights in the words or cells of the same substrate, which rounds and "
    "writes their updates too; all else they calculate in double precision without noise, at the "
    "price of narrow words. This favours them. On a crossbar their matrix products are array reads "
    "between converters, on an event-driven chip every state is sent to every core in each step.",
    "Of a design that sums gradients in registers BPTT, which adds at every step, would gain most.",
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
        _section(
            "Results", learning_table(summary), headline_table(contests), cost_table(summary.costs)
        ),
        _section("Missing", Bullets(summary.missing) if summary.missing else None),
        _section("Energy and power", figures.get("energy"), sample_table(contests, summary.costs)),
        _section("When does EqProp win?", *break_even_tables(contests), figures.get("break_even")),
        _section("Which prices decide?", sensitivity_table(contests), figures.get("sensitivity")),
        _section("Time, memory, area, wear", resources_table(contests)),
        _section("Trends", trends_table(summary.sweeps), figures.get("pareto"), *_sweeps(summary)),
        _section(
            "Where the energy goes",
            *(parts_table(", ".join(names(c)[:2]), c.ours, c.seeds) for c in singles),
            *(parts_table(", ".join(cost_names(c)), c.trained, c.seeds) for c in summary.costs),
        ),
        _section("Counts", counts_table(summary)),
        _section("Prices", prices_table(technologies)),
        _section("How the numbers were made", *_method(summary, command, machine)),
    )
    filled = tuple(section for section in sections if section.blocks)
    return Document(TITLE, tuple(lead_sentences(summary)), filled)


def lead_sentences(summary: Summary) -> list[str]:
    """Say what came out, the losses first."""
    sentences = []
    for rival in RIVALS:
        against = [c for c in summary.contests if c.rival == rival]
        parts = []
        for verdict in ("dearer", "undecided", "cheaper"):
            found = [_ratio(contest) for contest in against if contest.verdict == verdict]
            if found:
                parts.append(f"{verdict} on {', '.join(found)}")
        if parts:
            sentences.append(
                f"Energy of training by EqProp over {LEARNER_TITLES[rival]}: {'; '.join(parts)}."
            )
    if summary.costs:
        sentences.append(cost_sentence(summary.costs))
    if not sentences:
        sentences.append("No contest was decided: see what is missing.")
    return sentences


def _ratio(contest: Contest) -> str:
    substrate, _, _ = names(contest)
    return f"{substrate} / {contest.technology.name} ({contest.ratio.nominal:.2g})"


def _sweeps(summary: Summary) -> list[Block]:
    """One table for each sweep, without the points of the others."""
    titles = {
        "Bit widths": ("weights", "states", "10-bit"),
        "Roff / Ron with nonlinear updates": ("Roff",),
        "Defects, arrays shared or split": ("stuck",),
    }
    return [
        sweep_table(title, [o for o in summary.sweeps if o.label.startswith(starts)])
        for title, starts in titles.items()
    ]


def _section(title: str, *blocks: Block | None) -> Section:
    """Leave out what was not drawn and tables without rows."""
    kept = (b for b in blocks if b is not None and not (isinstance(b, Table) and not b.rows))
    return Section(title, tuple(kept))


def _method(summary: Summary, command: str, machine: Mapping[str, str]) -> list[Block]:
    rows = tuple(machine.items())
    counted = BY_FORMULA if refusal(summary.networks["eqprop"]) else COUNTED
    return [
        Bullets((*counted, *METHOD, *(() if summary.costs else RIVAL_METHOD))),
        Table("Machine", ("Part", "Version"), rows, text_columns=2),
        "The command that makes this report again:",
        Code(command),
    ]
