"""Rows of what chips cost."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from experiments.hardware.report_tables import range_text
from experiments.reporting.number_text import in_units
from experiments.tables.readers.outputs import Rows, columns_of, read_output, spread_text
from hw_sim.prices.sums import Range

PLACES = {
    ("digital", "digital_45nm"): "fixed point, digital logic in 45 nm",
    ("digital", "digital_7nm"): "fixed point, digital logic in 7 nm",
    ("digital", "gpu"): "fixed point, GPU in batches of 256",
    ("digital", "microcontroller"): "fixed point, microcontroller",
    ("crossbar", "rram_crossbar"): "analog crossbar, RRAM with ADC",
    ("spiking", "loihi_like"): "spiking, Loihi-like",
}
"""Substrate and technology, in the order of the table."""


def hardware_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return accuracy and ratios of energy for each substrate and technology."""
    content = read_output(folder / "report.json", command)
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
        rows.append((title, spread_text(found), *texts))
    return tuple(rows)


def sweep_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return every point of a grid of widths, and whether it is on the front."""
    read_output(folder / "sweep.json", command)
    columns = (
        "weight_bits",
        "state_bits",
        "Test accuracy, %",
        "Inference: energy",
        "Training sample: energy",
        "KiB",
        "Area, mm²",
        "On the front",
    )
    points = columns_of(folder / "sweep.md", "On the front")
    return tuple(tuple(_in_line(point[name]) for name in columns) for point in points)


def cells_row(folder: Path, command: str, root: Path) -> Rows:
    """Return the row of one sort of cells, named as the command names them."""
    read_output(folder / "sweep.json", command)
    words = shlex.split(command)
    name = f"`{words[words.index('--cells') + 1]}`" if "--cells" in words else "as shipped"
    columns = (
        "Test accuracy, %",
        "Inference: energy",
        "Training sample: energy",
        "Trainings until worn out",
    )
    (point,) = columns_of(folder / "sweep.md", "Trainings until worn out")
    return ((name, *(_in_line(point[column]) for column in columns)),)


def ratio_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return accuracies over the on/off ratio, a row for each range of weights and noise."""
    content = read_output(folder / "sweep.json", command)
    rows: dict[tuple[str, str], list[str]] = {}
    for point in content["points"]:
        chosen = point["settings"]
        shares = list(point["accuracies"].values())
        place = chosen["weight_range"], chosen["read_noise"]
        rows.setdefault(place, []).append(f"{100 * sum(shares) / len(shares):.1f}")
    return tuple((*place, *shares) for place, shares in rows.items())


def published_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return each figure that others published beside the same by Settle."""
    return tuple(
        (
            figure["chip"],
            figure["quantity"],
            in_units(figure["published"], figure["unit"]),
            _in_line(range_text(Range(**figure["settle"]), figure["unit"])),
            f"{figure['ratio']:.3g}",
            figure["status"],
        )
        for figure in read_output(folder / "published.json", command)["figures"]
    )


def _in_line(cell: str) -> str:
    return cell.replace("<br>", " ").replace("\n", " ")


def _ratio(ratio: Mapping[str, float]) -> str:
    """Return a ratio with its bracket in two digits."""
    value, low, high = (f"{ratio[k]:#.2g}".rstrip(".") for k in ("nominal", "low", "high"))
    return f"{value} ({low} to {high})"
