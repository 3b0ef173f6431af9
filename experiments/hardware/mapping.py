"""How networks lie on tiles and cores in the hardware report: tables of the mapping and traffic."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.arrays import FloatArray
from experiments.hardware.contest import Summary
from experiments.hardware.sample_tables import Run, training_samples
from experiments.reporting.document import Table
from experiments.reporting.number_text import NONE, in_units, number
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.floor_plan import FloorPlan
from hw_sim.counts import OpCounts
from hw_sim.prices.bill import Bill, grouped

MOVES = ("message", "hop")
"""Kinds of events between tiles or cores."""


@dataclass(frozen=True)
class ChipMapping:
    """EqProp on the tiles or cores of a substrate."""

    substrate: str
    plan: FloorPlan
    busy: FloatArray
    """Of each spot, for a mean inference of the first seed."""


def mappings(summary: Summary) -> list[ChipMapping]:
    """Return the floor plan of every substrate that has one."""
    found = []
    for name, chip in CHIPS.items():
        group = summary.outcomes.get(("eqprop", name))
        if not group:
            continue
        outcome, network = group[0], summary.networks["eqprop"]
        settings = chip.settings_from(outcome.settings[name])
        plan = settings.floor_plan(network)
        if plan is not None:
            counts = OpCounts.from_rows(tuple(row) for row in outcome.inference)
            work = np.array(outcome.core_work, np.int64)
            busy = settings.hot_spots(network, counts, work) / outcome.n_test
            found.append(ChipMapping(name, plan, busy))
    return found


def mapping_table(found: Sequence[ChipMapping], runs: Sequence[Run]) -> Table:
    """Say what lies where: a row for each block or set of layers, and one for the whole."""
    rows = []
    for mapping in found:
        bills = [r.trained for r in runs if r.substrate == mapping.substrate]
        groups: dict[str, list[int]] = {}
        for k, spot in enumerate(mapping.plan.spots):
            groups.setdefault(spot.holds, []).append(k)
        rows += [_row(mapping, name, members, bills) for name, members in groups.items()]
        if len(groups) > 1:
            rows.append(_row(mapping, "all", range(len(mapping.plan.spots)), bills))
    header = (
        "Substrate", "Holds", "On", "Room of each", "In use, %", "Fullest, %", "Synapses",
        "Converters", "Busiest in an inference",
    )  # fmt: skip
    caption = (
        "A tile is a pair of arrays and holds a part of one block; its converters stand at both "
        "ends of the lines in use, as many as the first technology builds. A core holds units in "
        "their order. How busy they were was counted: words that the router of a tile passed on, "
        "or the time of all that a core did."
    )
    return Table("Mapping", header, tuple(rows), caption, 4)


def _row(
    mapping: ChipMapping, name: str, members: Sequence[int], bills: Sequence[Bill]
) -> tuple[str, ...]:
    plan = mapping.plan
    spots = [plan.spots[k] for k in members]
    converters = bills[0].tile_converters() if bills and plan.part == "tile" else []
    busiest = max(mapping.busy[k] for k in members)
    return (
        mapping.substrate,
        name,
        f"{len(spots):,} {plan.part}{'s' if len(spots) > 1 else ''}",
        " x ".join(str(size) for size in plan.shape if size > 1) + f" {plan.counted_in}",
        number(100 * sum(s.used for s in spots) / sum(s.room for s in spots), 1),
        number(100 * max(s.used / s.room for s in spots), 1),
        f"{sum(s.synapses for s in spots):,}",
        f"{sum(converters[k] for k in members):,}" if converters else NONE,
        f"{busiest:,.0f} {plan.busy_in}",
    )


def traffic_table(found: Sequence[ChipMapping], runs: Sequence[Run]) -> Table:
    """Say what moves between tiles or cores, and what that takes."""
    mapped = {mapping.substrate for mapping in found}
    rows = []
    for run in runs:
        if run.substrate in mapped and run.learner == "eqprop":
            sides = (run.once, run.inferences), (run.trained, training_samples(run.trained))
            cells = [cell for bill, samples in sides for cell in _moved(bill, samples)]
            rows.append((run.substrate, run.technology.name, *cells))
    header = (
        "Substrate", "Technology", "Inference: messages", "Inference: hops",
        "Inference: energy", "Inference: %", "Training sample: messages", "Training sample: hops",
        "Training sample: energy", "Training sample: %",
    )  # fmt: skip
    caption = (
        "Of EqProp, between tiles or cores of a square mesh. A hop is a step of a word or of a "
        "message; percent are of the whole energy."
    )
    return Table("Traffic on the mesh", header, tuple(rows), caption, 2)


def _moved(bill: Bill, samples: float) -> tuple[str, ...]:
    kinds = grouped(bill.energy_parts(), "kind")
    energy, whole = sum(kinds.get(kind, 0.0) for kind in MOVES), sum(kinds.values())
    events = [bill.counts.total(kind) / samples for kind in MOVES]
    texts = [f"{count:,.0f}" if count else NONE for count in events]
    return (*texts, in_units(energy / samples, "J"), f"{100 * energy / whole:.1f}")
