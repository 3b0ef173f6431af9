"""Settle every sample of a file, and write what the network reads out of it."""

import argparse
import csv
import io

import numpy as np
from rich.console import Console

from engine.arrays import FloatArray, IntArray
from engine.compiled.backend import NumbaBackend
from engine.errors import EngineError
from engine.learning.predict import Predictor
from experiments.output import prepare_output
from experiments.records import write_text
from experiments.saved_network import UNSCALED, SavedNetwork, read_network
from experiments.shell import guarded, make_console
from experiments.tasks import TaskError
from experiments.tasks.samples import Samples, read_samples

SHOWN = 5
"""Rows that are printed."""


def run(options: argparse.Namespace) -> int:
    """Predict, write and print; return the exit code."""
    console = make_console()

    def work() -> int:
        saved = read_network(options.network)
        samples = read_samples(options.data, saved.params.network.inputs, options.label)
        right, targets = _places(saved, samples), _targets(saved, samples)
        _check_out(options)
        outputs = Predictor(NumbaBackend(saved.params.network, saved.params)).predict_outputs(
            saved.inputs(samples.x)
        )
        if not _has_classes(saved):
            outputs = saved.numbers(outputs)
        header, rows = _table(saved, samples, outputs, options.probabilities)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *rows])
        write_text(options.out, text.getvalue())
        _print_first(console, header, rows)
        if not saved.is_scaled:
            console.print(UNSCALED)
        if right is not None:
            share = float((outputs.argmax(1) == right).mean())
            console.print(f"{share:.2%} of {len(rows):,} samples are right.")
        if targets is not None and np.ptp(targets) > 0.0:
            r2 = 1.0 - ((targets - outputs) ** 2).sum() / ((targets - targets.mean()) ** 2).sum()
            console.print(f"R² over {len(rows):,} samples: {r2:.3f}")
        console.print(f"All of them: {options.out}", soft_wrap=True)
        return 0

    return guarded(work, console, (EngineError, TaskError), "Nothing was written.")


def _table(
    saved: SavedNetwork, samples: Samples, outputs: FloatArray, with_all: bool
) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns, and a row for each sample."""
    if not _has_classes(saved):
        several = outputs.shape[1] > 1
        names = [f"output_{j + 1}" for j in range(outputs.shape[1])] if several else ["predicted"]
        header = ["sample", *names]
        answers = [[f"{value:.9g}" for value in row] for row in outputs]
    else:
        header, best = ["sample", "predicted", "probability"], outputs.argmax(1)
        answers = [[saved.label(k), f"{row[k]:.6f}"] for row, k in zip(outputs, best, strict=True)]
        if with_all:
            header += [f"p_{saved.label(k)}" for k in range(outputs.shape[1])]
            for answer, row in zip(answers, outputs, strict=True):
                answer += [f"{value:.6f}" for value in row]
    rows = [[str(k + 1), *answer] for k, answer in enumerate(answers)]
    if samples.y is not None:
        header.append("label")
        for row, label in zip(rows, samples.y, strict=True):
            row.append(str(label))
    return header, rows


def _places(saved: SavedNetwork, samples: Samples) -> IntArray | None:
    """Return the classes that are right; `None` where there are no classes, or no labels."""
    if samples.y is None or not _has_classes(saved):
        return None
    return saved.places(samples.y)


def _targets(saved: SavedNetwork, samples: Samples) -> FloatArray | None:
    """Return the numbers that are right `(samples, 1)`; `None` where there are none, or several."""
    if samples.y is None or _has_classes(saved) or saved.params.network.outputs > 1:
        return None
    return saved.numbers(saved.targets(samples.y))


def _check_out(options: argparse.Namespace) -> None:
    """Refuse a place for the answers that cannot be written, or that one of the inputs has."""
    for path in (options.network, options.data):
        if options.out.exists() and options.out.samefile(path):
            raise TaskError(f"--out {options.out} would overwrite {path}: name another file.")
    prepare_output(options.out.parent, options.out.name)


def _print_first(console: Console, header: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(header, *rows[:SHOWN], strict=True)]
    for row in [header, *rows[:SHOWN]]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print("  ".join(cells).rstrip(), soft_wrap=True)
    if len(rows) > SHOWN:
        console.print(f"... and {len(rows) - SHOWN} more")


def _has_classes(saved: SavedNetwork) -> bool:
    """Whether the read-out is one softmax; numbers and tokens are written as they are."""
    reading = saved.params.network.reading
    return reading is not None and reading.link is not None and reading.positions == 1
