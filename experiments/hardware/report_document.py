"""The hardware report as a document: what it says, in which order."""

from collections.abc import Mapping, Sequence

from experiments.hardware.contest import Summary
from experiments.hardware.cost_tables import (
    cost_names,
    cost_sentence,
    cost_table,
    saved_table,
    settling_table,
)
from experiments.hardware.costs import Contest
from experiments.hardware.device_fit import device_of, device_table
from experiments.hardware.glance_table import glance_table
from experiments.hardware.mapping import mapping_table, mappings, traffic_table
from experiments.hardware.own_network import refusal
from experiments.hardware.priced import priced_blocks
from experiments.hardware.published_tables import (
    differences,
    published_figures,
    published_parameters,
)
from experiments.hardware.ratio_tables import (
    break_even_tables,
    headline_tables,
    sensitivity_table,
)
from experiments.hardware.report_tables import (
    LEARNER_TITLES,
    counts_table,
    learning_table,
    names,
    parts_table,
    prices_table,
    resources_table,
    sweep_table,
)
from experiments.hardware.sample_tables import priced_runs, sample_table
from experiments.hardware.settings import RIVALS
from experiments.hardware.throughput_tables import memory_table, throughput_table
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
    "Of EqProp the work of the optimizer is the only count that is a formula: a fixed number of "
    "operations for each parameter and update.",
)

BY_FORMULA = (
    "No chip runs this network. Its steps are those that the compiled engine took, in floating "
    "point; the events of a step, of learning and of an update are a formula of digital logic, "
    "word by word. Prices are assumptions, each with a range, a source and a status.",
    "Words are priced at the widths of the digital chip, but nothing was rounded to them: the "
    "accuracy is that of floating point.",
)

METHOD = (
    "Training uses the training part; accuracies are of the test part after the last epoch. The "
    "update at which the target is reached is read from the validation part, which is looked at "
    "as training goes on: an isotonic regression of its accuracies, with straight lines between "
    "the centres of its flat pieces. Looks are no part of the counts.",
    "Every product that adds to a gradient reads and writes its word in memory. A design that sums "
    "in registers would pay less.",
    "Leakage and idle power are paid for the whole time of a run, where a technology states them.",
    "Not priced: clock, control, drivers and wires but for those between tiles and cores, the "
    "host, and the calculation of the spectral cap. Op-count tables understate digital logic by 4 "
    "to 11 times.",
    "Time is that of the machine that a technology states: stages follow one another, and only "
    "what it lists behind a stage takes no time of its own.",
    "Cores of a spiking chip work side by side: a step lasts as long as its busiest core and a "
    "barrier.",
)

RIVAL_METHOD = (
    "The rivals are plain backprop through the same layers without recurrence, and BPTT through "
    "the very network that EqProp trains, unrolled for a fixed number of synchronous steps. "
    "Optimizer and batches are the same for all; each has its own tuned learning rate.",
    "What a rival does for a sample does not depend on the data: its events are counted once, "
    "product by product, times the samples that it saw.",
    "The rivals hold their weights in the words or cells of the same substrate, which rounds and "
    "writes their updates too; all else they calculate in double precision without noise, at the "
    "price of narrow words. This favours them. On a crossbar their matrix products are array reads "
    "between converters, on a spiking chip every state is sent to every core with a listener "
    "in each step.",
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
    runs, mapped = priced_runs(contests, summary.costs), mappings(summary)
    used = {technology.name: technology for technology in technologies}
    priced = summary.task, summary.main_runs, used, summary.networks, summary.cells
    sections = (
        _section("What was priced", *priced_blocks(*priced)),
        _section(
            "Results",
            learning_table(summary),
            saved_table(summary),
            glance_table(runs),
            settling_table(summary, technologies),
            *headline_tables(contests),
            cost_table(summary.costs),
        ),
        _section("Learning curves", figures.get("learning")),
        _section("Missing", Bullets(summary.missing) if summary.missing else None),
        _section("Energy and power", figures.get("energy"), sample_table(contests, summary.costs)),
        _section("When does EqProp win?", *break_even_tables(contests), figures.get("break_even")),
        _section("Which prices decide?", sensitivity_table(contests), figures.get("sensitivity")),
        _section(
            "Mapping",
            figures.get("floor_plan"),
            mapping_table(mapped, runs),
            traffic_table(mapped, runs),
        ),
        _section("Throughput", throughput_table(runs)),
        _section("Time, memory, area, wear", resources_table(contests), memory_table(runs)),
        _section("Trends", trends_table(summary.sweeps), figures.get("pareto"), *_sweeps(summary)),
        _section(
            "Where the energy goes",
            *(parts_table(", ".join(names(c)[:2]), c.ours, c.seeds) for c in singles),
            *(parts_table(", ".join(cost_names(c)), c.trained, c.seeds) for c in summary.costs),
        ),
        _section("Device", figures.get("device"), device_table(device_of(summary))),
        _section("Published chips", published_figures(), differences(), *published_parameters()),
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
    substrate, technology, _ = names(contest)
    return f"{substrate} / {technology} ({contest.ratio.both.nominal:.3g})"


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
