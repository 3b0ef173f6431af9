"""Train one or more seeds, evaluate as they go, and leave files from which each can go on."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.addition.checkpoint import load_checkpoint
from experiments.addition.config import AdditionError, ModelConfig, TrainConfig
from experiments.addition.data import encode, prompts, right_digits
from experiments.addition.evaluate import answerer, score
from experiments.addition.learners import SeedLearner, make_learner
from experiments.addition.seed_run import MetricRow, SeedRun, read_metrics
from experiments.output import prepare_output
from experiments.pool import as_finished
from experiments.progress import progress_bars, repeating

POLL_SECONDS = 0.5

SeedSettings: TypeAlias = tuple[ModelConfig, TrainConfig, str]
"""The model, its training and the device."""
Watch: TypeAlias = Callable[[SeedRun, MetricRow], None]
"""Is told of every evaluation."""


def train_all(
    folders: Sequence[Path],
    model: ModelConfig,
    settings: Sequence[TrainConfig],
    device: str,
    *,
    workers: int,
    fresh: bool = False,
) -> list[dict[str, Any]]:
    """Finish the run of every folder and return the summaries, showing how far each one is.

    On a CPU each has a process with one thread, on another device all are one stack.
    """
    runs = [(f, (model, t, device)) for f, t in zip(folders, settings, strict=True)]
    for folder in folders:
        prepare_output(folder, "summary.json", "checkpoints/last.pt")
    with _shown_progress(folders, settings[0].train_steps):
        if device != "cpu":
            return train_runs([SeedRun(f, *setting, fresh=fresh) for f, setting in runs])
        work = partial(_train_one, fresh)
        summaries = dict(as_finished(work, runs, min(workers, len(runs))))
        return [summaries[number] for number in range(len(runs))]


@contextmanager
def _shown_progress(folders: Sequence[Path], steps: int) -> Iterator[None]:
    """Show how far each run is, read from its metrics, until the work ends."""
    with progress_bars() as show:
        for folder in folders:
            show(folder.name, 0, steps, "")

        def follow() -> None:
            for folder in folders:
                try:
                    last = read_metrics(folder / "metrics.csv")[-1]
                except (OSError, IndexError, ValueError, TypeError):
                    continue  # no evaluation yet
                note = f"exact {last.val_exact:.2%}, loss {last.train_loss:.3f}"
                show(folder.name, last.step + 1, steps, note)

        with repeating(follow, POLL_SECONDS):
            yield


def train_runs(runs: Sequence[SeedRun], watch: Watch | None = None) -> list[dict[str, Any]]:
    """Finish every run and return the summaries; runs of one model at one step go together."""
    for run in runs:
        run.write_config()
    todo = sorted((run for run in runs if not run.finished), key=lambda run: run.step)
    for _, group in groupby(todo, key=lambda run: run.step):
        _train_together(list(group), watch)
    return [_summarise(run) for run in runs]


def _train_together(runs: list[SeedRun], watch: Watch | None) -> None:
    first = runs[0]
    learner = make_learner(
        first.model,
        first.train,
        np.stack([run.flat for run in runs]),
        [run.frozen for run in runs],
        np.stack([run.moments for run in runs], axis=1),
        first.device,
    )
    asked = np.stack([prompts(run.held_out.validation) for run in runs])
    train, began = first.train, time.perf_counter()
    before = [run.elapsed for run in runs]
    for step in range(first.step, train.train_steps):
        size, digits, carrying = train.batch_size, train.most_digits(step), train.carrying(step)
        pairs = [run.sampler.draw(size, digits, carrying, train.sparse_share) for run in runs]
        rows = [encode(drawn) for drawn in pairs]
        losses = learner.learn(np.stack(rows), step)
        if not np.isfinite(losses).all():
            raise AdditionError(f"the loss is not finite at step {step}: lower the learning rate.")
        if step % train.eval_interval == 0 or step == train.train_steps - 1:
            seconds = [spent + time.perf_counter() - began for spent in before]
            _evaluate(runs, learner, asked, step, losses, seconds, watch)
            if all(run.finished for run in runs):
                break


def _evaluate(
    runs: list[SeedRun],
    learner: SeedLearner,
    asked: Any,
    step: int,
    losses: Any,
    seconds: list[float],
    watch: Watch | None,
) -> None:
    answers = learner.answer(asked)
    flat, moments = learner.state()
    for k, run in enumerate(runs):
        if run.finished:  # solved before the others of its stack: its result stands
            continue
        right = right_digits(answers[k], run.held_out.validation)
        metric = MetricRow(
            step,
            float(losses[k]),
            float(right.all(axis=1).mean()),
            float(right.mean()),
            run.train.rate(step),
            seconds[k],
        )
        run.record(metric, flat[k], moments[:, k])
        if watch is not None:
            watch(run, metric)


def _summarise(run: SeedRun) -> dict[str, Any]:
    """Score the best checkpoint, chosen on the validation part, on the test part."""
    answer = answerer(load_checkpoint(run.best), run.device)
    result = score(answer, run.held_out.test, run.train.seed)
    return run.write_summary(result.exact / result.total)


def _train_one(fresh: bool, run: tuple[Path, SeedSettings]) -> dict[str, Any]:
    return train_seed(*run, fresh=fresh)


def train_seed(
    folder: Path,
    settings: SeedSettings,
    *,
    fresh: bool,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train the run of one seed, single threaded: many of these go side by side."""
    with threadpool_limits(1):
        return train_runs([SeedRun(folder, *settings, fresh=fresh)], watch)[0]
