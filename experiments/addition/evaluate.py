"""How many sums a model gets exactly right, with nothing but the prompt given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from adapters.torch_arrays import pick_device, torch
from experiments.addition import transformer
from experiments.addition.checkpoint import Checkpoint
from experiments.addition.data import Pairs, Tokens, decode, holdout, prompts, right_digits
from experiments.addition.fast_model import FastModel, runs_compiled
from experiments.addition.parameters import Layout
from experiments.addition.sums import TEST_SEEDS, TEST_SIZE

Answerer: TypeAlias = Callable[[Tokens], Tokens]
"""Gives the 12 tokens that follow each prompt `(n, 22)`."""

TORCH_BATCH = 2048
FAILURES_SHOWN = 10


@dataclass(frozen=True)
class WrongSum:
    """A sum that came out wrong; `answer` is `None` where the answer is no number."""

    seed: int
    a: int
    b: int
    answer: int | None


@dataclass(frozen=True)
class SumScore:
    """Result on the test set of a seed."""

    seed: int
    exact: int
    total: int
    token_accuracy: float
    failures: tuple[WrongSum, ...]


def answerer(checkpoint: Checkpoint, device: str = "cpu") -> Answerer:
    """Return how a checkpoint answers: compiled on a CPU where it can be, else by torch."""
    place = pick_device(device, np.float32)
    if place.type == "cpu" and runs_compiled(checkpoint.config):
        model = FastModel(checkpoint.config, checkpoint.frozen)
        return lambda asked: model.answer(checkpoint.flat, asked)
    blocks = {
        name: torch.tensor(np.asarray(block), device=place)
        for name, block in _blocks(checkpoint).items()
    }

    def by_torch(asked: Tokens) -> Tokens:
        parts = torch.split(torch.tensor(asked, device=place), TORCH_BATCH)
        answers = [transformer.answer(checkpoint.config, blocks, part).cpu() for part in parts]
        return torch.cat(answers).numpy()

    return by_torch


def score(answer: Answerer, pairs: Pairs, seed: int) -> SumScore:
    """Ask for every sum and compare all eleven digits."""
    answers = answer(prompts(pairs))
    right = right_digits(answers, pairs)
    wrong = np.flatnonzero(~right.all(axis=1))
    said = decode(answers[wrong])
    failures = tuple(
        WrongSum(seed, int(pairs.a[row]), int(pairs.b[row]), value)
        for row, value in zip(wrong, said, strict=True)
    )
    return SumScore(seed, len(pairs) - len(wrong), len(pairs), float(right.mean()), failures)


def benchmark(
    answer: Answerer, on_score: Callable[[SumScore], None] | None = None
) -> list[SumScore]:
    """Score a model on the ten published test sets."""
    scores = []
    for seed in TEST_SEEDS:
        scores.append(score(answer, holdout(seed).test, seed))
        if on_score is not None:
            on_score(scores[-1])
    return scores


def as_result(name: str, checkpoint: Checkpoint, scores: list[SumScore]) -> dict[str, Any]:
    """Return the scores as the table of a JSON file, with every failure."""
    exact, total = sum(s.exact for s in scores), sum(s.total for s in scores)
    return {
        "checkpoint": name,
        "parameters": checkpoint.params,
        "step": checkpoint.step,
        "exact": exact,
        "total": total,
        "exact_match": exact / total,
        "test_size": TEST_SIZE,
        "per_seed": {
            str(s.seed): {
                "exact": s.exact,
                "total": s.total,
                "exact_match": s.exact / s.total,
                "token_accuracy": s.token_accuracy,
            }
            for s in scores
        },
        "failures": [
            {"seed": f.seed, "a": f.a, "b": f.b, "sum": f.a + f.b, "answer": f.answer}
            for s in scores
            for f in s.failures
        ],
    }


def _blocks(checkpoint: Checkpoint) -> dict[str, Any]:
    return Layout(checkpoint.config).views(checkpoint.flat) | checkpoint.frozen
