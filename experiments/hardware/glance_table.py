"""What EqProp takes in each technology, at a glance: a sample, memory by what it holds, wear."""

from collections.abc import Sequence

from experiments.hardware.report_tables import worn_text
from experiments.hardware.sample_tables import Run, time_text, training_samples
from experiments.hardware.throughput_tables import KIB, OPTIMIZER, levels
from experiments.reporting.document import Table
from experiments.reporting.number_text import in_units, number


def glance_table(runs: Sequence[Run]) -> Table:
    """Energy, time, memory and life of EqProp at nominal prices; the ranges stand further below."""
    rows = tuple(_row(run) for run in runs if run.learner == "eqprop")
    header = (
        "Substrate", "Technology", "Training sample: energy", "Training sample: time",
        "Inference: energy", "Inference: time", "Weights, KiB", "States, KiB", "Gradients, KiB",
        "Optimizer, KiB",
        "Trainings until worn out",
    )  # fmt: skip
    caption = (
        "At nominal prices. A training sample has its share of the updates, an inference is a mean "
        "over the test part. Memory is for one sample in flight; states are all words of neurons "
        "and their tables. A chip is worn out when the cell that is written most has had the "
        "writes that cells endure; a dash where nothing wears or no times are stated."
    )
    return Table("What EqProp takes", header, rows, caption, 2)


def _row(run: Run) -> tuple[str, ...]:
    samples, held = training_samples(run.trained), levels(run.trained.design)
    words = {level: number(bits / KIB, 1) for level, (_, bits, _) in held.items()}
    cells = held["analog cells"][0]
    return (
        run.substrate,
        run.technology.name,
        in_units(run.trained.energy_j / samples, "J"),
        time_text(run.trained.latency_s / samples),
        in_units(run.once.energy_j / run.inferences, "J"),
        time_text(run.once.latency_s / run.inferences),
        words["weights"] + (f"\nand {cells:,} cells" if cells else ""),
        words["neurons"],
        words["gradients"],
        words[OPTIMIZER],
        worn_text(run.trained),
    )
