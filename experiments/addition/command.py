"""The work of the addition commands, but for those that train: each prints what it found."""

import argparse
import json
import shlex
from collections.abc import Sequence

import numpy as np
from rich.console import Console

from adapters.torch_arrays import pick_device
from engine.errors import EngineError
from experiments.addition import eqprop_command, training_command
from experiments.addition.checkpoint import load_checkpoint
from experiments.addition.config import AdditionError
from experiments.addition.data import Pairs, decode, prompts
from experiments.addition.evaluate import FAILURES_SHOWN, SumScore, answerer, as_result, benchmark
from experiments.addition.log import LogSettings, write_log
from experiments.addition.sums import TEST_SEEDS
from experiments.output import prepare_output
from experiments.progress import progress_bars
from experiments.records import write_text
from experiments.reporting.document import Table
from experiments.reporting.terminal_table import rich_table
from experiments.shell import guarded, make_console


def run(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Do what the options ask for; return the exit code."""
    console = make_console(highlight=False)
    told = shlex.join(["python", "-m", "experiments.addition", *given])

    def work() -> int:
        match options.command:
            case "train":
                return training_command.train(options, given, console)
            case "evaluate":
                return evaluate(options, console)
            case "predict":
                return predict(options, console)
            case "log":
                return log(options, console)
            case "cell":
                return eqprop_command.cell(options, told, console)
            case _:
                return eqprop_command.energy(options, told, console)

    resumed = options.command in ("train", "log")
    kept = "The same command goes on from the last evaluation that was saved." if resumed else ""
    return guarded(work, console, (AdditionError, EngineError), kept)


def evaluate(options: argparse.Namespace, console: Console) -> int:
    """Score a checkpoint; the exit code is 0 whatever the score."""
    if options.output is not None:
        prepare_output(options.output.parent, options.output.name)
    checkpoint = load_checkpoint(options.checkpoint)
    with progress_bars() as show:
        show("test sets", 0, len(TEST_SEEDS), "")

        def on_score(score: SumScore) -> None:
            done = TEST_SEEDS.index(score.seed) + 1
            show("test sets", done, len(TEST_SEEDS), f"seed {score.seed}: {score.exact:,} exact")

        scores = benchmark(answerer(checkpoint, options.device), on_score)
    result = as_result(str(options.checkpoint), checkpoint, scores)
    rows = tuple(
        (str(s.seed), f"{s.exact:,} of {s.total:,}", f"{s.token_accuracy:.4%}") for s in scores
    )
    title = f"{checkpoint.params} trained parameters"
    table = Table(title, ("test set", "exact", "right digits"), rows)
    console.print(rich_table(table, console.width))
    for failure in result["failures"][:FAILURES_SHOWN]:
        console.print("{a} + {b} = {sum}, the model says {answer}".format(**failure))
    more = len(result["failures"]) - FAILURES_SHOWN
    if more > 0:
        console.print(f"and {more:,} more failures.")
    console.print(f"Exact: {result['exact']:,} of {result['total']:,}.")
    if options.output is not None:
        write_text(options.output, json.dumps(result, indent=1))
        console.print(f"Written: {options.output}", soft_wrap=True)
    return 0


def predict(options: argparse.Namespace, console: Console) -> int:
    """Add two numbers with a checkpoint; the exit code says whether it was right."""
    checkpoint = load_checkpoint(options.checkpoint)
    pair = Pairs(np.array([options.a], np.int64), np.array([options.b], np.int64))
    (said,) = decode(answerer(checkpoint, options.device)(prompts(pair)))
    meant = options.a + options.b
    verdict = "right" if said == meant else f"wrong: it is {meant}"
    console.print(
        f"{options.a} + {options.b} = {'no number' if said is None else said} ({verdict})"
    )
    return 0 if said == meant else 1


def log(options: argparse.Namespace, console: Console) -> int:
    """Write the experiments log."""
    device = pick_device(options.device, np.float32).type
    load_checkpoint(options.published)  # it is evaluated last, after hours of training
    steps, workers = options.train_steps, options.workers
    settings = LogSettings(options.out, options.published, device, steps, workers)
    prepare_output(options.out, "experiments_log.md", "repro_456_s43_eval.json")
    path = write_log(settings, lambda line: console.print(line, soft_wrap=True))
    console.print(path.read_text(encoding="utf-8"), soft_wrap=True)
    console.print(f"Written: {path}", soft_wrap=True)
    return 0
