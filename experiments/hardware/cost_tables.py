"""What the report says of EqProp alone, on a network where no rival is counted."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.hardware.contest import Summary, accuracy_spread, design_of, mean_and_deviation
from experiments.hardware.costs import Cost, scaled, timed
from experiments.hardware.job import SETTLING_SAMPLES
from experiments.hardware.report_tables import range_text, ratio_text, time_range_text, worn_text
from experiments.reporting.document import Table
from experiments.reporting.number_text import NONE, in_units, number, percent
from hw_sim.prices.bill import grouped
from hw_sim.prices.sums import Range
from hw_sim.prices.technology import Technology


def cost_table(costs: Sequence[Cost]) -> Table:
    """Energy, time and area of training to the target and of one inference."""
    rows = []
    for cost in costs:
        area = cost.trained.area()
        rows.append(
            (
                *cost_names(cost),
                range_text(cost.training_energy, "J"),
                time_range_text(cost.training_time),
                range_text(scaled(cost.once.energy(), 1 / cost.inferences), "J"),
                time_range_text(scaled(cost.once.latency(), 1 / cost.inferences)),
                number(cost.trained.design.memory_bits / 8192, 1),
                NONE if area is None else ratio_text(scaled(area, 1e6)),
                worn_text(cost.trained),
            )
        )
    header = (
        "Substrate", "Technology", "Training: energy", "Training: time", "Inference: energy",
        "Inference: time", "KiB", "Area, mm²", "Trainings until worn out",
    )  # fmt: skip
    caption = (
        "Training is until the target accuracy, inference a mean over the test part. In brackets "
        "the 5th and 95th percentile over the ranges of the prices, and for training over seeds "
        "too. Memory is for one sample in flight, optimizer included."
    )
    return Table("Training to the target", header, tuple(rows), caption, 2)


def settling_table(summary: Summary, technologies: Sequence[Technology]) -> Table:
    """How long an analog network takes to settle, and what one time constant is."""
    rows = []
    for (_, substrate), group in summary.outcomes.items():
        found = [outcome.settling for outcome in group if outcome.settling is not None]
        parameters = design_of(group[0], summary.networks[group[0].learner]).parameters
        for technology in technologies if found else ():
            if "cell_read" not in technology.prices["latency"]:
                continue
            constant = technology.price_at("latency", "cell_read", parameters)
            free, nudged = ([part.phases[phase] for part in found] for phase in ("free", "nudged"))
            rows.append(
                (
                    substrate,
                    technology.name,
                    _spread_text(free),
                    _spread_text(nudged),
                    in_units(constant.value, "s"),
                    in_units(float(np.mean(free)) * constant.value, "s"),
                    in_units(float(np.mean(nudged)) * constant.value, "s"),
                    constant.source,
                )
            )
    header = (
        "Substrate", "Technology", "Free, time constants", "Nudged, time constants",
        "Time constant", "Free", "Nudged", "Source of the time constant",
    )  # fmt: skip
    caption = (
        "States stay analog, so no step is clocked. How long the slowest of up to "
        f"{SETTLING_SAMPLES} validation samples takes to the tolerance was integrated (ds/dt = -s "
        "+ T(s)) on the trained network of every seed; means ± deviations over seeds. All bills of "
        "this substrate hold their cells and neurons for so long, in place of the steps that the "
        "simulation took. Activations and, in a nudged phase, one round of converters for the "
        "softmax come on top of each time constant."
    )
    return Table("Settling in time", header, tuple(rows), caption, 2)


def _spread_text(values: Sequence[float]) -> str:
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.2f}" if np.isnan(deviation) else f"{mean:.2f} ± {deviation:.2f}"


def saved_table(summary: Summary) -> Table:
    """How good a saved network is before it is trained further, on its chips and on the engine."""
    rows = []
    for (_, substrate), group in summary.outcomes.items():
        found = [outcome.as_loaded for outcome in group if outcome.as_loaded is not None]
        on_chip = [loaded.chip for loaded in found if loaded.chip is not None]
        if found:
            rows.append(
                (
                    substrate,
                    percent(*mean_and_deviation(on_chip)) if on_chip else NONE,
                    percent(*mean_and_deviation([loaded.engine for loaded in found])),
                    percent(*accuracy_spread(group)),
                )
            )
    header = (
        "Substrate", "On the chip, as loaded, %", "In floating point, %", "Trained further, %"
    )  # fmt: skip
    caption = (
        "Accuracy on the test part of the network as it was saved: in the words or cells of the "
        "chip before any update, and on the compiled engine, which rounds nothing to them. Each "
        "seed has a split and devices of its own. Samples of a test part that the network was "
        "trained on before it was saved are not held out."
    )
    return Table("The saved network", header, tuple(rows), caption, 1)


def cost_sentence(costs: Sequence[Cost]) -> str:
    """Say what a training takes everywhere."""
    parts = [
        f"{in_units(cost.trained.energy_j / cost.seeds, 'J')} on {' / '.join(cost_names(cost))}"
        for cost in costs
    ]
    return f"Energy of training by EqProp to its target: {', '.join(parts)}."


def cost_values(cost: Cost) -> dict[str, Any]:
    """Return a cost of one training and one inference as plain values."""
    area, seeds, tests = cost.trained.area(), cost.seeds, cost.inferences
    power, wear = cost.trained.power(), cost.trained.wear()
    return {
        "substrate": cost.substrate,
        "technology": cost.technology.name,
        "energy_j": asdict(cost.training_energy),
        "latency_s": plain_time(cost.training_time),
        "inference_energy_j": asdict(scaled(cost.once.energy(), 1 / tests)),
        "inference_latency_s": plain_time(scaled(cost.once.latency(), 1 / tests)),
        "power_w": None if power is None else asdict(power),
        "memory": asdict(cost.trained.design.memory) | {"bits": cost.trained.design.memory_bits},
        "area_m2": None if area is None else asdict(area),
        "wear": None if wear is None else asdict(wear),
        "energy_j_by_place": {
            name: value / seeds
            for name, value in grouped(cost.trained.energy_parts(), "place").items()
        },
        "steps": cost.steps,
    }


def plain_time(value: Range) -> dict[str, float] | None:
    """Return a time as plain values, `None` where a technology states no times."""
    return asdict(value) if timed(value) else None


def cost_names(cost: Cost) -> tuple[str, str]:
    """Return substrate and technology as tables show them."""
    return cost.substrate, cost.technology.name
