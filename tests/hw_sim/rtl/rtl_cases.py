"""Networks, widths and rehearsals that the tests of the description share."""

from pathlib import Path

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.rtl.description import chip_files
from hw_sim.rtl.plan import Plan
from hw_sim.rtl.rehearsal import Rehearsal
from hw_sim.rtl.schedule import Schedule
from hw_sim.rtl.simulation import Comparison, missing_simulator, simulate, write_files

NETWORKS = {
    "looped": looped_mlp(5, 6, 3),
    "layered": layered((4, 5, 4, 3)),
    "squared error": layered((4, 5, 3), "hard_sigmoid", "squared_error"),
}
WIDTHS = {
    "8/8/20": DigitalConfig(8, 8, 20, table_bits=8, table_range=4.0),
    "8/8/32": DigitalConfig(8, 8, 32, table_bits=10),
    "12/10/16": DigitalConfig(12, 10, 16),
    "12/10/32": DigitalConfig(12, 10, 32, seed=2**32 - 1),
    "6/5/10": DigitalConfig(6, 5, 10, table_bits=20, weight_range=1.0, table_range=2.0),
    "4/3/6": DigitalConfig(4, 3, 6, table_bits=4, table_range=2.0, seed=77),
    "16/12/30": DigitalConfig(16, 12, 30, table_bits=12, weight_range=4.0),
    "2/2/5": DigitalConfig(2, 2, 5, table_bits=3, input_range=8.0),
    "24/12/20": DigitalConfig(24, 12, 20, table_bits=3),
}
"""Bits of weights, states and accumulators."""
SATURATING = ("12/10/16", "6/5/10", "4/3/6", "2/2/5", "24/12/20")
SCHEDULE = Schedule(0.25, Relaxation(9, 0.01), Relaxation(7, 0.01), lr=1.0)

needs_iverilog = pytest.mark.skipif(bool(missing_simulator()), reason=missing_simulator() or "-")


def strong_params(network: Network, seed: int) -> Params:
    """Return weights of which some do not fit, on networks that need not settle."""
    params = Params(network, np.random.default_rng(seed).normal(0.0, 1.0, network.size))
    for link in network.links.values():
        if link.tied:
            params[link.block][...] = (params[link.block] + params[link.block].T) / 2
    return params


def batch(network: Network, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs, some beyond their range, and targets."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(network.outputs, size=samples)
    return rng.normal(0.0, 2.5, (samples, network.inputs)), np.eye(network.outputs)[classes]


def rehearsed(
    network: Network, config: DigitalConfig, seed: int = 0, schedule: Schedule = SCHEDULE
) -> Rehearsal:
    """Train, take two updates of a controller, some words beyond their range, and train again."""
    rehearsal = Rehearsal(Plan(network, config), strong_params(network, seed), schedule)
    rng = np.random.default_rng(seed)
    rehearsal.train(*batch(network, 2, seed))
    for scale in (0.01, 4.0):
        update = rng.normal(0.0, scale, network.size)
        rehearsal.visit(*batch(network, 2, seed + 1), update)
    rehearsal.train(*batch(network, 2, seed + 2))
    return rehearsal


def compared(
    rehearsal: Rehearsal, folder: Path, simulator: str = "iverilog", **changed: str
) -> Comparison:
    """Simulate the description of a rehearsal, of which some files may be `changed`."""
    texts = chip_files(rehearsal.plan) | rehearsal.bench_files()
    texts |= {f"{name}.v": text for name, text in changed.items()}
    write_files(folder, texts)
    # A compiler of C++ may have to wait for a processor.
    longest_s = 60.0 if simulator == "iverilog" else 600.0
    return simulate(folder, texts, longest_s=longest_s, simulator=simulator)
