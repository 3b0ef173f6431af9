"""The readers by the names that measurements give them."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from experiments.tables.readers import (
    addition,
    benchmark_parts,
    circuits,
    contests,
    hardware,
    performance,
    transformer,
    verilog,
)
from experiments.tables.readers.outputs import Rows

Reader: TypeAlias = Callable[[Path, str, Path], Rows]
"""Makes rows from the folder of a command, for the checkout in the last argument."""

READERS: dict[str, Reader] = {
    "parity": contests.parity_rows,
    "vision": contests.vision_rows,
    "hardware": hardware.hardware_rows,
    "sweep": hardware.sweep_rows,
    "cells": hardware.cells_row,
    "on_off": hardware.ratio_rows,
    "published": hardware.published_rows,
    "circuit": circuits.circuit_rows,
    "agreement": circuits.agreement_rows,
    "spice": circuits.spice_rows,
    "transient": circuits.transient_rows,
    "spread": circuits.spread_rows,
    "words": verilog.words_rows,
    "gates_logic": verilog.logic_rows,
    "gates_products": verilog.products_rows,
    "speed": performance.speed_rows,
    "speed_defaults": performance.defaults_rows,
    "speed_convolution": benchmark_parts.convolution_rows,
    "growth": benchmark_parts.growth_rows,
    "crossings": benchmark_parts.crossing_rows,
    "prediction": benchmark_parts.prediction_rows,
    "parallel": benchmark_parts.parallel_rows,
    "grokking": addition.grokking_rows,
    "energy_adder": addition.energy_rows,
    "transformer": transformer.transformer_rows,
}
"""By the name that measurements give them."""
