"""Rows of the energy transformer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.reporting.number_text import NONE
from experiments.tables.readers.outputs import Rows, read_output
from experiments.transformer.measures import PROBED
from experiments.transformer.training import BACKPROP, EQPROP

METHODS = {EQPROP: "EqProp", BACKPROP: "backprop"}
TASKS = {"shift": "shift by one"}
"""What is called otherwise in the table."""


def transformer_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return a row for each kind of sequences and method: errors, and the worst cosine."""
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in read_output(folder / "results.json", command)["runs"]:
        runs.setdefault((_sequences(run), run["method"]), []).append(run)
    return tuple(
        (sequences, METHODS[method], *_counts(found), *_fidelity(found, method))
        for (sequences, method), found in runs.items()
    )


def _sequences(run: dict[str, Any]) -> str:
    """Name the task, and what it has of more than one kind: the vocabulary, the length."""
    settings = run["settings"]
    about: str = TASKS.get(run["task"], run["task"])
    if run["task"] != "reversal":
        return about
    about = f"{about}, {settings['vocabulary']} tokens"
    return about if settings["length"] == 8 else f"{about}, length {settings['length']}"


def _counts(runs: Sequence[dict[str, Any]]) -> tuple[str, str]:
    wrong = [run["settled"]["wrong"] for run in runs]
    tokens = runs[0]["settled"]["tokens"]
    right = 100 * (1 - sum(wrong) / (tokens * len(runs)))
    return f"{', '.join(f'{count:,}' for count in wrong)} of {tokens:,}", f"{right:.4f}"


def _fidelity(runs: Sequence[dict[str, Any]], method: str) -> tuple[str, str]:
    """Return the lowest cosine of each seed, and how many sequences were lopsided at worst."""
    if method != EQPROP:
        return NONE, NONE
    least = [_least(run) for run in runs]
    lopsided = [max(moment["lopsided"] for moment in run["curve"]) for run in runs]
    counts = ", ".join(f"{share * PROBED:.0f}" for share in lopsided)
    return ", ".join(least), f"{counts} of {PROBED}"


def _least(run: dict[str, Any]) -> str:
    """Return the lowest cosine of a training; a dash where a gradient could not be told."""
    cosines = [moment["cosine"] for moment in run["curve"]]
    return NONE if None in cosines else f"{min(cosines):.4f}"
