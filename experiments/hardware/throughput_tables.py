"""Samples a second, and memory level by level, in the hardware report."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from experiments.hardware.report_tables import LEARNER_TITLES, rounded
from experiments.hardware.sample_tables import Run, training_samples
from experiments.reporting.document import Table
from experiments.reporting.number_text import NONE, number
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.throughput import Throughput, throughput

KIB = 8 * 1024
"""Bits."""
OPTIMIZER = "optimizer"
"""The level of what it keeps of each weight."""


def throughput_table(runs: Sequence[Run]) -> Table:
    """Samples a second in inference and in training, one after the other and in a pipeline."""
    rows = []
    for run in runs:
        once = throughput(run.once, run.inferences)
        trained = throughput(run.trained, training_samples(run.trained))
        rows.append((*_names(run), *_rates(once), *_rates(trained)))
    header = (
        "Substrate", "Technology", "Learner", "Inferences a second",
        "Inferences a second, pipelined", "Inference: longest stage", "Inferences in flight",
        "Training samples a second",
        "Training samples a second, pipelined", "Training: longest stage",
        "Training samples in flight",
    )  # fmt: skip
    caption = (
        "One sample after the other is the inverse of its time. In a pipeline every stage of the "
        "machine works on another sample, so that one leaves whenever the longest stage is done; "
        "so many samples are then in flight, each with neuron words of its own. Inference can "
        "always be pipelined, training within a batch: the pipeline fills anew after each update, "
        "which overlaps with nothing. Machines whose stages do not overlap gain nothing."
    )
    return Table("Throughput", header, tuple(rows), caption, 3)


def throughput_values(run: Run) -> dict[str, Any]:
    """Return both throughputs as plain values, `None` where nothing takes time."""
    once = throughput(run.once, run.inferences)
    trained = throughput(run.trained, training_samples(run.trained))
    return {
        "inference": None if once is None else asdict(once),
        "training": None if trained is None else asdict(trained),
    }


def _rates(found: Throughput | None) -> tuple[str, ...]:
    if found is None:
        return (NONE,) * 4
    rates = (rounded(rate) for rate in (found.alone, found.pipelined))
    return (*rates, found.stage or NONE, f"{found.in_flight:,}")


def memory_table(runs: Sequence[Run]) -> Table:
    """What each level of memory holds for a learner, and how often it is used."""
    rows: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for run in runs:  # the first technology speaks for all: none changes a count
        substrate, _, learner = _names(run)
        samples = training_samples(run.trained)
        for level, (words, bits, events) in levels(run.trained.design).items():
            used = [_used(run.once, level, events) / run.inferences,
                    _used(run.trained, level, events) / samples]  # fmt: skip
            if words or any(used):
                held = f"{words:,}" if words else NONE, number(bits / KIB, 1) if bits else NONE
                row = (substrate, learner, level, *held, *(f"{n:,.0f}" for n in used))
                rows.setdefault((substrate, learner, level), row)
    header = (
        "Substrate", "Learner", "Level", "Words", "KiB", "Uses in an inference",
        "Uses in a training sample",
    )  # fmt: skip
    caption = (
        "What each level holds, and its reads and writes. Neuron words are those of one sample in "
        "flight; analog cells are no bits, and a use is a read of one cell or a pulse; beside them "
        "biases are read as words. Words of gradients and of the optimizer are twice as wide as a "
        "weight. Across the border are inputs, targets, outputs, gradients and updates."
    )
    return Table("Memory by level", header, tuple(rows.values()), caption, 3)


def levels(design: Design) -> dict[str, tuple[int, int, tuple[str, ...]]]:
    """Return words, bits and events of each level of memory."""
    held, weight, state = design.memory, design.weight_bits, design.state_bits
    neurons = held.states + held.wide, state * held.states + held.wide_bits
    in_cells = held.cells > 0
    gradients = min(design.network.size, held.traces)
    return {
        "neurons": (*neurons, ("state_read", "state_write")),
        "weights": (held.weights, weight * held.weights, ("weight_read",)
                    if in_cells else ("weight_read", "weight_write")),
        "analog cells": (held.cells, 0, ("cell_read", "weight_write") if in_cells else ()),
        "gradients": (gradients, 2 * weight * gradients, ("trace_read", "trace_write")),
        OPTIMIZER: (held.traces - gradients, 2 * weight * (held.traces - gradients), ()),
        "across the border": (0, 0, ("off_chip",)),
    }  # fmt: skip


def _used(bill: Bill, level: str, events: Sequence[str]) -> float:
    """Return the uses of a level; of learning words the optimizer writes all that it reads."""
    found = float(sum(bill.counts.total(kind) for kind in events))
    moments = 2.0 * bill.counts.total("trace_write", "update")
    return moments if level == OPTIMIZER else found - moments * ("trace_write" in events)


def _names(run: Run) -> tuple[str, str, str]:
    return run.substrate, run.technology.name, LEARNER_TITLES[run.learner]
