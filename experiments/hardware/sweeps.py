"""The trends of the literature as experiments: bit widths, Roff / Ron, defects in one array or two.

Sweeps use a smaller network and fewer epochs than the main runs: they show trends.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from experiments.hardware.job import Job
from experiments.hardware.settings import LOOPED, Settings
from experiments.tasks import Task
from hw_sim.chips.crossbar import CROSSBAR, MIDDLING
from hw_sim.chips.digital import DIGITAL
from hw_sim.chips.settings import ChipSettings

WEIGHT_BITS = (4, 6, 8, 10, 12, 16)
STATE_BITS = (4, 6, 8, 16)
RATIOS = (1.2, 2.0, 3.0, 10.0, 100.0)
DEFECTS = (0.0, 0.05, 0.1, 0.2)
NARROW = (10, 4)
"""Bits of a weight and of the read-out that a published oscillator network got by with."""

DEVICES = replace(MIDDLING, stuck=0.0, nonlinearity=2.0)
"""Of the sweep over Roff / Ron: nonlinear devices without defects."""


def sweep_jobs(
    task: Task,
    substrates: Sequence[str],
    settings: Settings,
    seeds: Sequence[int],
    network: str = LOOPED,
) -> list[Job]:
    """Return the trainings of all sweeps that concern the chosen substrates."""
    small = replace(
        settings,
        hidden=min(32, settings.hidden),
        channels=min(4, settings.channels),
        epochs=min(6, settings.epochs),
        looks=1,
    )
    return [
        Job(task, "eqprop", name, seed, small.on_chip(name, point), label, network)
        for seed in seeds
        for name, points in SWEEPS.items()
        if name in substrates
        for label, point in points(small).items()
    ]


def bit_points(settings: Settings) -> dict[str, ChipSettings]:
    """Return digital configurations by label."""
    base: Any = settings.chips[DIGITAL.name]
    points = {f"weights {bits}": replace(base, weight_bits=bits) for bits in WEIGHT_BITS}
    for bits in STATE_BITS:
        points[f"states {bits}"] = replace(base, state_bits=bits, readout_bits=None)
    narrow = replace(base, weight_bits=NARROW[0], readout_bits=min(NARROW[1], base.state_bits))
    points[f"{NARROW[0]}-bit weights, {NARROW[1]}-bit read-out"] = narrow
    return dict(points)


def crossbar_points(settings: Settings) -> dict[str, ChipSettings]:
    """Return crossbar configurations by label, whatever the settings."""
    points = {f"Roff/Ron {ratio:g}": replace(DEVICES, on_off_ratio=ratio) for ratio in RATIOS}
    for share in DEFECTS:
        for split in (False, True):
            points[defect_label(share, split)] = replace(MIDDLING, stuck=share, split_arrays=split)
    return dict(points)


def defect_label(share: float, split: bool) -> str:
    """Return how a point of the sweep over defects is called."""
    return f"stuck {share:.0%}, {'two arrays' if split else 'one array'}"


SWEEPS: dict[str, Callable[[Settings], dict[str, ChipSettings]]] = {
    DIGITAL.name: bit_points,
    CROSSBAR.name: crossbar_points,
}
"""The chips that are swept, and their points."""
