"""Rows of ten-digit addition."""

import shlex
from pathlib import Path

from experiments.reporting.number_text import NONE
from experiments.tables.readers.outputs import Rows, read_output
from experiments.transformer.training import BACKPROP, EQPROP

METHODS = {EQPROP: "EqProp", BACKPROP: "backprop through the steps"}


def grokking_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return the row of one recipe: the share of seeds that grokked, and when."""
    words = shlex.split(command)
    place = folder / words[words.index("--run-name") + 1]
    content = read_output(place / "summary.json", command)
    runs = content["runs"]
    seeds = [run["seed"] for run in runs]
    steps = sorted(run["best_step"] for run in runs if run["grokked"])
    low, high = (f"{100 * end:.3g} %" for end in content["interval"])
    return (
        (
            f"{content['params']:,}",
            f"{seeds[0]} to {seeds[-1]}",
            f"{content['grokked']} of {content['seeds']}",
            f"{low} to {high}",
            " to ".join(f"{step:,}" for step in dict.fromkeys((*steps[:1], *steps[-1:]))) or NONE,
        ),
    )


def energy_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return what both methods get right of sums of a few digits."""
    return tuple(
        (
            str(found["digits"]),
            METHODS[found["method"]],
            f"{found['exact']:,} of {found['total']:,}",
            f"{100 * found['right_digits']:.1f}",
            f"{100 * found['unsettled']:.1f}",
        )
        for found in read_output(folder / "energy.json", command)["results"]
    )
