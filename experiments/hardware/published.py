"""Figures that others published, computed again: their parameters, our counts, prices and time.

Each function returns the figures of one publication. Counts are those of the chips of `hw_sim` or
of its closed formula, prices those of the publication (`published.toml`) or, where it states none,
those of a shipped technology; a `Bill` makes energy and time of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from engine.model.builders import layered
from engine.model.params import initial_params
from experiments.hardware.costs import scaled
from experiments.hardware.workloads import at_clock, forward_counts, one_layer, spiking_step
from hw_sim.chips.crossbar import CrossbarBackend, CrossbarConfig
from hw_sim.chips.substrate import NEURON_WORDS
from hw_sim.counts import Footprint, OpCounts
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.sums import Range
from hw_sim.prices.technology import Technology, published_technologies, shipped_technologies

INFERENCE = Footprint(NEURON_WORDS, ("weight",))
"""Nothing is learned: there are no gradients."""


@dataclass(frozen=True)
class Parameter:
    """What a publication states of its chip or workload, and how well that is known."""

    name: str
    value: str
    status: str
    source: str


@dataclass(frozen=True)
class Quoted:
    """One published number, and the same by Settle within the range of its prices."""

    chip: str
    quantity: str
    unit: str
    published: float
    status: str
    source: str
    settle: Range
    why: str
    """What makes them differ."""

    @property
    def ratio(self) -> float:
        """Settle over the publication."""
        return self.settle.nominal / self.published


@dataclass(frozen=True)
class PublishedChip:
    """What one publication states, how it is priced, and its figures."""

    title: str
    parameters: tuple[Parameter, ...]
    technology: Technology
    figures: tuple[Quoted, ...]


@cache
def publications() -> tuple[PublishedChip, ...]:
    """Return every publication, with its figures computed."""
    return tuple(publication() for publication in PUBLICATIONS)


def isaac() -> PublishedChip:
    """Compute power and throughput of a full ISAAC chip from one unit of eight arrays.

    A unit multiplies 1024 words of 16 bits by 16 columns of weights of 16 bits, cut into 128
    columns of 2-bit cells. Words enter bit by bit: 16 planes of ones and zeros, one a cycle.
    """
    units, rows, columns, planes = 168 * 12, 8 * 128, 128, 16
    operations = 2 * rows * columns // 8
    network, rng = one_layer(rows, columns), np.random.default_rng(0)
    config = CrossbarConfig(tile_rows=128, tile_columns=128, dac_bits=2, adc_bits=8)
    chip = CrossbarBackend(network, initial_params(network, rng), config)
    chip.clamp(rng.integers(0, 2, (planes, rows)).astype(np.float64))
    design = Design(network, 8, 8, chip.footprint.count(network))
    technology = published_technologies()["isaac"]
    bill = Bill(technology, design, chip.counts)
    power = bill.power()
    assert power is not None, "a cycle takes time"
    source = "Shafiee et al., ISCA 2016, in a review of crossbar accelerators"
    return PublishedChip(
        "ISAAC",
        (
            Parameter("arrays", "8 of 128 x 128, 2-bit cells", "second-hand", source),
            Parameter("units, tiles", "12 units a tile, 168 tiles", "second-hand", source),
            Parameter("words", "16 bits, one bit a cycle of 100 ns", "second-hand", source),
        ),
        technology,
        (
            Quoted(
                "ISAAC", "power of the chip", "W", 65.8, "second-hand", source,
                scaled(power, units),
                "links between chips (10.4 W, recalled), registers and sigmoids have no price",
            ),
            Quoted(
                "ISAAC", "throughput of the chip", "TOP/s", 0.479 * 85.4, "second-hand",
                f"{source}: 479 GOP/s/mm² on 85.4 mm²",
                _inverse(bill.latency(), 1e-12 * units * operations),
                "every array is taken to be busy in every cycle",
            ),
        ),
    )  # fmt: skip


def tiny_anomaly() -> PublishedChip:
    """Compute a dense autoencoder on two microcontrollers (MLPerf Tiny v1.1), 8-bit words.

    Cycles and energies are those of the shipped `microcontroller`; only the clock is the board's.
    """
    sizes = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
    network, counts = layered(sizes, readout="squared_error"), forward_counts(sizes)
    shipped = shipped_technologies()["microcontroller"]
    source = "MLPerf Tiny v1.1, results of Krai, X-CUBE-AI 8.0, anomaly detection"
    boards = (
        ("Cortex-M4 (STM32L4R5)", 120e6, 131.950, 528.881e-6),
        ("Cortex-M7 (STM32H7A3)", 280e6, 547.234, 235.833e-6),
    )
    figures = []
    for board, clock_hz, rate, energy in boards:
        design = Design(network, 8, 8, INFERENCE.count(network))
        bill = Bill(at_clock(shipped, clock_hz), design, counts)
        cycles, per_cycle = clock_hz / rate / counts.total("mac"), 1e12 * energy * rate / clock_hz
        figures += [
            Quoted(board, "time of an inference", "s", 1 / rate, "read", source, bill.latency(),
                   f"2.5 cycles a product (1 to 8) are assumed, the board took {cycles:.1f}"),
            Quoted(board, "energy of an inference", "J", energy, "read", source, bill.energy(),
                   f"the board drew {per_cycle:.0f} pJ a cycle, with flash, memories and "
                   "regulator; 20 to 100 pJ are assumed"),
        ]  # fmt: skip
    described = "MLPerf Tiny v1.1, descriptions of the systems"
    return PublishedChip(
        "Microcontrollers",
        (
            Parameter(
                "network",
                "-".join(map(str, sizes)),
                "second-hand",
                "a port of the benchmark's model",
            ),
            Parameter("clock", "120 MHz and 280 MHz", "read", described),
            Parameter("words", "8 bits", "read", described),
        ),
        shipped,
        tuple(figures),
    )


def loihi_keywords() -> PublishedChip:
    """Compute a keyword spotter on Loihi (Blouw et al. 2018), if all neurons always speak."""
    sizes, steps = (390, 256, 256, 29), 10
    network = layered(sizes, readout="squared_error")
    step = spiking_step(sizes)
    counts = sum((step for _ in range(steps)), OpCounts())
    technology = shipped_technologies()["loihi_like"]
    bill = Bill(technology, Design(network, 8, 8, INFERENCE.count(network)), counts)
    source = "Blouw et al. 2018, table 1 and its text"
    unknown = f"every neuron is taken to speak in each of {steps} steps (5 to 20 may be right)"
    return PublishedChip(
        "Loihi",
        (
            Parameter("network", "390-256-256-29", "read", source),
            Parameter("steps of an inference", "10 (5 to 20)", "recalled",
                      "not stated; steps of 1 ms in frames of 10 ms"),
            Parameter("neurons that speak", "all", "recalled", "not stated; the most there can be"),
        ),
        technology,
        (
            Quoted("Loihi", "energy of an inference, all above idle", "J", 0.00027, "read",
                   source, bill.energy(),
                   "70 of the 81 mW are embedded processors that are idle after the first run, "
                   f"and have no price; {unknown}"),
            Quoted("Loihi", "the same without these 70 mW", "J", (0.081 - 0.070) / 296, "read",
                   source, bill.energy(), unknown),
        ),
    )  # fmt: skip


def weights_in_dram() -> PublishedChip:
    """Compute the power of a billion connections that are read from DRAM 20 times a second."""
    side, rate = 31_623, 20  # of a square of a billion
    network = one_layer(side, side)
    technology = published_technologies()["dram_45nm"]
    design = Design(network, 32, 32, INFERENCE.count(network))
    bill = Bill(technology, design, forward_counts((side, side)))
    source = "Han et al., ICLR 2016, introduction"
    return PublishedChip(
        "Weights in DRAM",
        (
            Parameter("connections", "1e9, 32 bits each", "read", source),
            Parameter("inferences", "20 a second", "read", source),
        ),
        technology,
        (
            Quoted("Weights in DRAM", "power of 20 inferences a second", "W", 12.8, "read", source,
                   scaled(bill.energy(), rate),
                   "products, states and activations are added to the accesses of DRAM"),
        ),
    )  # fmt: skip


PUBLICATIONS: tuple[Callable[[], PublishedChip], ...] = (
    isaac, tiny_anomaly, loihi_keywords, weights_in_dram
)  # fmt: skip


def _inverse(time: Range, events: float) -> Range:
    """Return events a second."""
    return Range(events / time.nominal, events / time.high, events / time.low)
