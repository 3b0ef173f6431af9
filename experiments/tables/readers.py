"""Rows of text from what a command wrote into its folder."""

import json
import math
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from experiments.parity.goals import REFERENCES
from experiments.reporting.number_text import NONE, percent, points, points_between
from experiments.tables.pages import picture_hash
from experiments.tables.registry import TABLES
from experiments.tables.stored import TablesError

Rows: TypeAlias = tuple[tuple[str, ...], ...]
Reader: TypeAlias = Callable[[Path, str, Path], Rows]
"""Makes rows from the folder of a command, for the checkout in the last argument."""

PLACES = {
    ("digital", "digital_45nm"): "fixed point, digital logic in 45 nm",
    ("digital", "digital_7nm"): "fixed point, digital logic in 7 nm",
    ("digital", "gpu"): "fixed point, GPU in batches of 256",
    ("digital", "microcontroller"): "fixed point, microcontroller",
    ("crossbar", "rram_crossbar"): "analog crossbar, RRAM with ADC",
    ("spiking", "loihi_like"): "spiking, Loihi-like",
}
"""Substrate and technology, in the order of the table."""
GOALS = {"digits": NONE, "mnist": "98.0", "fashion_mnist": "88.5"}
"""Of circuits, percent of the test part."""
CIRCUIT_TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}


def parity_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return a row for each task: published, measured, and both gaps."""
    content = _read(folder / "results.json", command)
    return tuple(_parity_row(task) for task in content["summary"]["tasks"])


def _parity_row(task: Mapping[str, Any]) -> tuple[str, ...]:
    results, reference = task["results"], REFERENCES[task["name"]]
    order = ("backprop_looped", task["baseline"], "eqprop_looped", "eqprop_layered")
    gap = task["judgements"]["eqprop_looped"]["comparison"]
    return (
        task["title"],
        percent(*reference.backprop),
        percent(*reference.eqprop),
        *(percent(results[name]["mean"], _number(results[name]["std"])) for name in order),
        points(task["same_network"]["comparison"]["difference"]),
        points_between(gap["difference"], gap["interval"]).replace("\n", " "),
    )


def parity_picture(folder: Path, command: str, root: Path) -> Rows:
    """Copy the picture of the accuracies beside the pages; return its place and its hash."""
    _read(folder / "results.json", command)
    place = TABLES["parity-picture"].picture
    shutil.copyfile(folder / "plots" / "accuracy.png", root / place)
    return ((place, picture_hash(root / place)),)


def vision_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return the rows of the table that the command writes for a page."""
    _read(folder / "results.json", command)
    lines = (folder / "table.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    return tuple(tuple(cell.strip() for cell in row.strip("| ").split(" | ")) for row in rows)


def hardware_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return accuracy and ratios of energy for each substrate and technology."""
    content = _read(folder / "report.json", command)
    ratios = {
        (c["substrate"], c["technology"], c["rival"]): c["ratio"] for c in content["contests"]
    }
    rows = []
    for (substrate, technology), title in PLACES.items():
        found = [
            run["accuracy"]
            for run in content["runs"]
            if (run["substrate"], run["learner"]) == (substrate, "eqprop")
        ]
        texts = [_ratio(ratios[substrate, technology, rival]) for rival in ("backprop", "bptt")]
        rows.append((title, _spread(found), *texts))
    return tuple(rows)


def circuit_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return the row of one trained circuit; its options are read from the command."""
    content = json.loads((folder / "circuits.json").read_text(encoding="utf-8"))
    words, runs = shlex.split(command), content["runs"]
    epochs = words[words.index("--epochs") + 1] if "--epochs" in words else "20"
    seeds = [run["seed"] for run in runs]
    title = CIRCUIT_TITLES.get(content["task"], content["task"])
    return (
        (
            title,
            "-".join(map(str, content["sizes"])),
            epochs,
            str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
            _spread([run["accuracy"] for run in runs]),
            GOALS[content["task"]],
            f"{np.mean([run['cpu_seconds'] for run in runs]):.0f} s",
        ),
    )


READERS: dict[str, Reader] = {
    "parity": parity_rows,
    "parity_picture": parity_picture,
    "vision": vision_rows,
    "hardware": hardware_rows,
    "circuit": circuit_rows,
}
"""By the name that the registry gives them."""


def _read(path: Path, command: str) -> dict[str, Any]:
    """Read what a command wrote; refuse the output of another one."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TablesError(f"{path} cannot be read: {error}.") from None
    written = _told(content["command"])
    if written != _told(command):
        raise TablesError(f"{path} was written by `{content['command']}`, not by `{command}`.")
    return content


def _told(command: str) -> list[str]:
    """Return the words of a command without those that change no result."""
    words = shlex.split(command)
    for option in ("--out", "--workers"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    return words


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _spread(values: Sequence[float]) -> str:
    std = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return percent(float(np.mean(values)), std)


def _ratio(ratio: Mapping[str, float]) -> str:
    """Return a ratio with its bracket in two digits."""
    value, low, high = (f"{ratio[k]:#.2g}".rstrip(".") for k in ("nominal", "low", "high"))
    return f"{value} ({low} to {high})"
