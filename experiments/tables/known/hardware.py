"""What a chip would cost: README and docs/hardware.md."""

from experiments.tables.measurement import ENGINE, Measurement, PageTable

HARDWARE = (
    *ENGINE,
    "hw_sim/**/*.py",
    "hw_sim/**/*.toml",
    "experiments/hardware/*.py",
    "experiments/tasks/*.py",
)

PUBLISHED = (
    "hw_sim/**/*.py",
    "hw_sim/**/*.toml",
    "engine/model/*.py",
    "experiments/hardware/costs.py",
    "experiments/hardware/published*.py",
    "experiments/hardware/workloads.py",
)
CELLS = {
    "shipped": "",
    "isaac": "rram_isaac",
    "neurram": "rram_neurram",
    "2v": "rram_2v",
    "neurosim-ideal": "neurosim_ideal",
    "neurosim-real": "neurosim_real",
    "pcm": "pcm",
}
"""The presets by the names of their measurements."""


def _hardware(options: str, reader: str) -> Measurement:
    return Measurement(f"python -m experiments.hardware {options}", HARDWARE, reader)


def _cells(name: str) -> Measurement:
    chosen = f"--cells {name} " if name else ""
    return _hardware(f"--substrate crossbar {chosen}--sweep stuck=0.01 --seeds 3", "cells")


MEASUREMENTS = {
    "hardware": _hardware("--no-sweeps", "hardware"),
    "widths": _hardware(
        "--sweep weight_bits=4,6,8,12 state_bits=4,6,10 --seeds 3 --technology digital_45nm",
        "sweep",
    ),
    **{f"cells-{name}": _cells(preset) for name, preset in CELLS.items()},
    "on-off": _hardware(
        "--substrate crossbar --sweep weight_range=0.5,2 read_noise=0.002,0.02 "
        "on_off_ratio=1.2,2,10,100 --seeds 2 --set hidden=32 --set epochs=6 "
        "--set crossbar.nonlinearity=2",
        "on_off",
    ),
    "published": Measurement("python -m experiments.hardware --published", PUBLISHED, "published"),
}

PAGE = "docs/hardware.md"

TABLES = {
    "chip": PageTable(
        "README.md",
        (("hardware", 6),),
        line="{0}: **{2}** of backprop, **{3}** of BPTT",
    ),
    "hardware": PageTable(
        PAGE,
        (("hardware", 6),),
        (
            "Substrate and technology",
            "Test accuracy, %",
            "over backprop, feed-forward",
            "over BPTT, same network",
        ),
    ),
    "widths": PageTable(
        PAGE,
        (("widths", 12),),
        (
            "weight bits",
            "state bits",
            "test accuracy, %",
            "an inference",
            "a training sample",
            "KiB",
            "mm²",
            "on the front",
        ),
        0,
    ),
    "cells": PageTable(
        PAGE,
        tuple((f"cells-{name}", 1) for name in CELLS),
        (
            "cells",
            "test accuracy, %",
            "an inference",
            "a training sample",
            "trainings until worn out",
        ),
    ),
    "on-off": PageTable(
        PAGE,
        (("on-off", 4),),
        ("$R$", "read noise", "Roff / Ron 1.2", "2", "10", "100"),
        2,
    ),
    "published": PageTable(
        PAGE,
        (("published", 9),),
        ("Chip", "Figure", "Published", "Settle", "Ratio", "Status"),
        2,
    ),
}
