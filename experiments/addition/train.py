"""Train one or more seeds, evaluate as they go, and leave files from which each can go on."""

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.addition.checkpoint import load_checkpoint
from experiments.addition.config import AdditionError, ModelConfig, TrainConfig
from experiments.addition.data import encode, prompts, right_digits
from experiments.addition.evaluate import answerer, score
from experiments.addition.learners import Learner, make_learner
from experiments.addition.runs import Metric, Run

Watch: TypeAlias = Callable[[Run, Metric], None]
"""Is told of every evaluation."""


def train_runs(runs: Sequence[Run], watch: Watch | None = None) -> list[dict[str, Any]]:
    """Finish every run and return the summaries; runs of one model at one step go together."""
    for run in runs:
        run.write_config()
    todo = sorted((run for run in runs if not run.finished), key=lambda run: run.step)
    for _, group in groupby(todo, key=lambda run: run.step):
        _train_together(list(group), watch)
    return [_summarise(run) for run in runs]


def _train_together(runs: list[Run], watch: Watch | None) -> None:
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
        digits = train.most_digits(step)
        rows = [encode(run.sampler.draw(train.batch_size, digits)) for run in runs]
        losses = learner.learn(np.stack(rows), step)
        if not np.isfinite(losses).all():
            raise AdditionError(f"the loss is not finite at step {step}: lower the learning rate.")
        if step % train.eval_interval == 0 or step == train.train_steps - 1:
            seconds = [spent + time.perf_counter() - began for spent in before]
            _evaluate(runs, learner, asked, step, losses, seconds, watch)
            if all(run.finished for run in runs):
                break


def _evaluate(
    runs: list[Run],
    learner: Learner,
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
        metric = Metric(
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


def _summarise(run: Run) -> dict[str, Any]:
    """Score the best checkpoint, chosen on the validation part, on the test part."""
    answer = answerer(load_checkpoint(run.best), run.device)
    result = score(answer, run.held_out.test, run.train.seed)
    return run.write_summary(result.exact / result.total)


def train_seed(
    folder: Path,
    settings: tuple[ModelConfig, TrainConfig, str],
    *,
    fresh: bool,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train the run of one seed, single threaded: many of these go side by side."""
    model, train, device = settings
    with threadpool_limits(1):
        return train_runs([Run(folder, model, train, device, fresh=fresh)], watch)[0]
