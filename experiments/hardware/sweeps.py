"""The trends of the literature as experiments: bit widths, Roff / Ron, defects in one array or two.

Sweeps use a smaller network and fewer epochs than the main runs: they show trends.
"""

from collections.abc import Sequence
from dataclasses import replace

from experiments.hardware.runs import Job
from experiments.hardware.settings import REALISTIC_CROSSBAR, Settings
from experiments.tasks import Task
from hw_sim.devices import CrossbarConfig
from hw_sim.digital import DigitalConfig

WEIGHT_BITS = (4, 6, 8, 10, 12, 16)
STATE_BITS = (4, 6, 8, 16)
RATIOS = (1.2, 2.0, 3.0, 10.0, 100.0)
DEFECTS = (0.0, 0.05, 0.1, 0.2)
NARROW = (10, 4)
"""Bits of a weight and of the read-out that a published oscillator network got by with."""

DEVICES = replace(REALISTIC_CROSSBAR, stuck=0.0, nonlinearity=2.0)
"""Of the sweep over Roff / Ron: nonlinear devices without defects."""


def sweep_jobs(
    task: Task, substrates: Sequence[str], settings: Settings, seeds: Sequence[int]
) -> list[Job]:
    """Return the trainings of all sweeps that concern the chosen substrates."""
    small = replace(settings, hidden=min(32, settings.hidden), epochs=min(6, settings.epochs))
    jobs = []
    for seed in seeds:
        if "digital" in substrates:
            for label, config in bit_points(small).items():
                point = replace(small, digital=config)
                jobs.append(Job(task, "eqprop", "digital", seed, point, label))
        if "crossbar" in substrates:
            for label, crossbar in crossbar_points().items():
                point = replace(small, crossbar=crossbar)
                jobs.append(Job(task, "eqprop", "crossbar", seed, point, label))
    return jobs


def bit_points(settings: Settings) -> dict[str, DigitalConfig]:
    """Return digital configurations by label."""
    base = settings.digital
    points = {f"weights {bits}": replace(base, weight_bits=bits) for bits in WEIGHT_BITS}
    for bits in STATE_BITS:
        points[f"states {bits}"] = replace(base, state_bits=bits, readout_bits=None)
    narrow = replace(base, weight_bits=NARROW[0], readout_bits=min(NARROW[1], base.state_bits))
    points[f"{NARROW[0]}-bit weights, {NARROW[1]}-bit read-out"] = narrow
    return points


def crossbar_points() -> dict[str, CrossbarConfig]:
    """Return crossbar configurations by label."""
    points = {f"Roff/Ron {ratio:g}": replace(DEVICES, on_off_ratio=ratio) for ratio in RATIOS}
    for share in DEFECTS:
        for split in (False, True):
            points[defect_label(share, split)] = replace(
                REALISTIC_CROSSBAR, stuck=share, split_arrays=split
            )
    return points


def defect_label(share: float, split: bool) -> str:
    """Return how a point of the sweep over defects is called."""
    return f"stuck {share:.0%}, {'two arrays' if split else 'one array'}"
