"""Rows of circuits: what they learn, and how far ngspice and Verilog agree with the engine."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reporting.number_text import NONE
from experiments.tables.readers.outputs import Rows, read_output, spread_text, written_rows

GOALS = {"digits": NONE, "mnist": "98.0", "fashion_mnist": "88.5"}
"""Of circuits, percent of the test part."""
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}


def circuit_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return the row of one trained circuit; its options are read from the command."""
    content = json.loads((folder / "circuits.json").read_text(encoding="utf-8"))
    runs = content["runs"]
    seeds = [run["seed"] for run in runs]
    return (
        (
            TITLES.get(content["task"], content["task"]),
            _sizes(content["sizes"]),
            _option(command, "--epochs") or "20",
            str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
            spread_text([run["accuracy"] for run in runs]),
            GOALS[content["task"]],
            f"{np.mean([run['cpu_seconds'] for run in runs]):.0f} s",
        ),
    )


def agreement_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return each comparison with its largest difference and its goal; a network is named once."""
    rows: list[tuple[str, ...]] = []
    last = ""
    for row in read_output(folder / "agreement.json", command)["rows"]:
        network = "" if row["network"] == last else row["network"]
        last = row["network"]
        compared = row["compared"].replace("shockley", "Shockley")
        if row["unit"] == "words":
            rows.append((network, compared, f"{row['found']:.0f} {row['note']}", "0"))
        else:
            found, goal = (_quantity(row[name], row["unit"]) for name in ("found", "goal"))
            rows.append((network, compared, found, goal))
    return tuple(rows)


def spice_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return how far ngspice is from the engine in any node of any layer and phase."""
    content = read_output(folder / "spice.json", command)
    layers, count = content["layers"], len(content["samples"])
    samples = "1 sample" if count == 1 else f"{count} samples"
    return (
        (
            f"{_circuit(content, command)}, {samples}",
            _diodes(content["parts"]),
            _quantity(max(layer["largest_v"] for layer in layers), "V"),
            _quantity(max(layer["difference_v"] for layer in layers), "V"),
            _quantity(content["goal_v"], "V"),
        ),
    )


def transient_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return how long each phase takes by ngspice and by the engine."""
    content = read_output(folder / "transient.json", command)
    return tuple(
        (
            _circuit(content, command),
            _diodes(content["parts"]),
            phase["phase"],
            f"{1e6 * phase['spice_s']:.5g} µs",
            f"{1e6 * phase['engine_s']:.5g} µs",
            f"{phase['time_constants']:.3g}",
            f"{_quantity(phase['apart_v'], 'V')} of {_quantity(phase['largest_v'], 'V')}",
            _quantity(phase["end_v"], "V"),
        )
        for phase in content["phases"]
    )


def spread_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return the rows of the table that the command writes."""
    read_output(folder / "spread.json", command)
    return written_rows(folder / "spread.md")


def _circuit(content: Mapping[str, Any], command: str) -> str:
    task = _option(command, "--task") or ""
    return f"{_sizes(content['sizes'])}, trained on {TITLES.get(task, task)}"


def _diodes(parts: Mapping[str, Any]) -> str:
    if parts["diode"] == "ideal":
        return "ideal"
    emission = "" if parts["emission"] == 1.0 else f", emission {parts['emission']:g}"
    saturation = f"{parts['saturation_a']:g} A"
    return f"Shockley, {_exponent(saturation)}{emission}"


def _quantity(value: float | None, unit: str) -> str:
    """Return two digits with the unit; where there is no value, that there is none."""
    if value is None:
        return "none"
    text = f"{value:.0f}" if 10 <= value < 100 else f"{value:.2g}"
    return f"{_exponent(text)} {unit}"


def _exponent(text: str) -> str:
    """Write `1e-9` in place of `1e-09`."""
    return re.sub(r"e([+-])0(\d)", r"e\1\2", text)


def _sizes(sizes: Sequence[int]) -> str:
    return "-".join(map(str, sizes))


def _option(command: str, name: str) -> str | None:
    words = shlex.split(command)
    return words[words.index(name) + 1] if name in words else None
