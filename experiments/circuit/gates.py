"""A core in the gates of an open library, what it takes, its price; and the chip around it."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.arrays import FloatArray
from engine.model.params import Params
from experiments.reporting.document import Table
from hw_sim.prices.price import Price
from hw_sim.prices.technology import shipped_technologies
from hw_sim.rtl.activity import LEARNS, RESTS, SETTLES, Activity, measure
from hw_sim.rtl.description import chip_files
from hw_sim.rtl.plan import Plan, RtlError
from hw_sim.rtl.rehearsal import Rehearsal
from hw_sim.rtl.schedule import Schedule
from hw_sim.rtl.simulation import write_files
from hw_sim.rtl.synthesis import Synthesis, synthesise
from hw_sim.rtl.technology import BASE, NODE, technology_text
from hw_sim.rtl.units import UnitGates, unit_gates

CORE = "core_logic"
DOES = {
    SETTLES: "a cycle in which it multiplies and adds to settle",
    LEARNS: "a cycle in which it multiplies and adds to learn",
    RESTS: "a cycle in which it waits, with its clock",
}


@dataclass(frozen=True)
class Gates:
    """A core as gates, and its activity with delays and without."""

    plan: Plan
    synthesis: Synthesis
    gross: Activity
    net: Activity
    units: tuple[UnitGates, ...]
    """All units of the chip."""

    @property
    def technology(self) -> str:
        """The text of a technology file."""
        return technology_text(self.plan, self.synthesis, self.gross, self.net)

    def tables(self) -> tuple[Table, Table, Table]:
        """Return what a core takes, its product beside that of op-count tables, and all units."""
        made, (weights, traces) = self.synthesis, self.memory_bits
        bits = weights + traces
        cell = shipped_technologies()[BASE].price_at("area", "memory_bit", self._words)
        size = (
            ("cells", f"{sum(made.cells.values()):,}"),
            ("area of the cells", f"{made.area_um2:,.0f} um2"),
            ("leakage", f"{made.leakage_nw:.3g} nW"),
            ("longest path", f"{made.delay_ps / 1000:.2f} ns"),
            (f"beside them: memories of {bits:,} bits, {BASE}", _area(cell, bits)),
        )
        rows = tuple((name, value, "") for name, value in size)
        rows += tuple(
            (
                f"{about} ({self.gross.cycles[what]:,} of them)",
                f"{self.gross.energy_pj[what]:.1f} pJ",
                f"{self.net.energy_pj[what]:.1f} pJ",
            )
            for what, about in DOES.items()
        )
        title = f"The logic of one core in OSU {NODE}, without memories and wires"
        return (
            Table(title, ("", "with delays", "without"), rows),
            Table(
                "A product, and the memories of the core",
                ("", "value", "range"),
                self._prices(),
                caption="A bill has the gates in place of the product of the table, and beside "
                f"either the memories of {BASE}: there all weights of the chip lie in one.",
            ),
            self._chip(),
        )

    def _chip(self) -> Table:
        whole = sum(unit.area_um2 for unit in self.units)
        rows = [
            (unit.name, unit.count, sum(unit.cells.values()), unit.area_um2) for unit in self.units
        ]
        rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows), whole))
        return Table(
            f"The logic of the whole chip in OSU {NODE}, without memories and wires",
            ("unit", "how many", "cells", "area", "share"),
            tuple(
                (name, f"{count:,}", f"{cells:,}", f"{area:,.0f} um2", f"{area / whole:.1%}")
                for name, count, cells, area in rows
            ),
        )

    def values(self) -> dict[str, object]:
        """Return the tables, and how many words of the gates were compared, as plain values."""
        size, prices, units = self.tables()
        return {
            "logic": size.rows,
            "products": prices.rows,
            "units": units.rows,
            "compared": self.gross.compared,
            "differ": self.gross.differ,
        }

    @property
    def memory_bits(self) -> tuple[int, int]:
        """Bits of the weights, copies included, and of the traces of the core of the first unit."""
        rows = self.plan.layers[0]
        return rows.count * self.plan.config.weight_bits, rows.owned * self.plan.trace_bits

    @property
    def _words(self) -> dict[str, float]:
        """What prices of words depend on, where each core has memories of its own."""
        config, (weights, traces) = self.plan.config, self.memory_bits
        return {
            "multiplier_bits": (config.weight_bits * config.state_bits) ** 0.5,
            "weight_bits": config.weight_bits,
            "state_bits": config.state_bits,
            "weight_bytes": weights / 8,
            "trace_bytes": traces / 8,
        }

    def _prices(self) -> tuple[tuple[str, ...], ...]:
        gross, net = self.gross.energy_pj, self.net.energy_pj
        # A learning word is priced as wide as two weights; a trace is as wide as it has to be.
        wider = self.plan.trace_bits / (2 * self.plan.config.weight_bits)
        counted = (
            (f"op-count table, {BASE}", "mac", 1.0),
            (f"its weight, read from SRAM, {BASE}", "weight_read", 1.0),
            (f"to learn: its trace, read from SRAM, {BASE}", "trace_read", wider),
            (f"to learn: its trace, written to SRAM, {BASE}", "trace_write", wider),
        )
        rows = [
            (
                f"these gates, {NODE}, above rest",
                f"{gross[SETTLES] - gross[RESTS]:.1f} pJ",
                f"{net[SETTLES] - net[RESTS]:.1f} pJ without delays",
            )
        ]
        for about, event, factor in counted:
            price = shipped_technologies()[BASE].price_at("energy", event, self._words)
            value, low, high = (
                f"{factor * end * 1e12:.2f}" for end in (price.value, price.low, price.high)
            )
            rows.append((about, f"{value} pJ", f"{low} to {high}"))
        return tuple(rows)


def _area(cell: Price, bits: int) -> str:
    value, low, high = (f"{end * bits * 1e12:,.0f}" for end in (cell.value, cell.low, cell.high))
    return f"{value} um2 ({low} to {high})"


def make_gates(
    plan: Plan, params: Params, schedule: Schedule, x: FloatArray, y: FloatArray
) -> Gates:
    """Synthesise a core, and run its gates beside it while the chip learns one sample."""
    rehearsal = Rehearsal(plan, params, schedule)
    rehearsal.train(x[:1], y[:1])
    design = chip_files(plan) | rehearsal.bench_files()
    config = plan.config
    widths = {
        "WORD": plan.word_bits, "OWN": config.state_bits + 1, "WEIGHT": config.weight_bits,
        "ACC": config.accumulator_bits, "TRACE": plan.trace_bits,
    }  # fmt: skip
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, design)
        synthesis = synthesise(CORE, widths, folder)
        gross, net = (measure(folder, design, synthesis, delays) for delays in (True, False))
        units = unit_gates(chip_files(plan), folder)
    for activity in (gross, net):
        if activity.differ:
            raise RtlError(
                f"{activity.differ:,} of {activity.compared:,} words at the outputs of the gates "
                "are not those of the core."
            )
    return Gates(plan, synthesis, gross, net, units)
