"""What the runs show, kind by kind of sequence: goals, means, and what falls short."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from experiments.transformer.outcomes import TransformerOutcome
from experiments.transformer.sequences import TASKS
from experiments.transformer.settings import GOAL_TOKENS, GOALS, LEAST_COSINE
from experiments.transformer.training import BACKPROP, EQPROP


@dataclass(frozen=True)
class Kind:
    """All runs of one task, vocabulary and length."""

    task: str
    vocabulary: int
    length: int
    runs: dict[str, tuple[TransformerOutcome, ...]]
    """By method, in the order of the seeds."""

    @property
    def title(self) -> str:
        """What it is called in a table."""
        return f"{TASKS[self.task].title}, {self.vocabulary} tokens, length {self.length}"

    @property
    def goal(self) -> float | None:
        """Share of tokens that every seed has to get right, if there is a goal.

        A test that is too small to tell, as that of a quick run, is held to none.
        """
        runs = self.runs.get(EQPROP, ())
        if not runs or min(run.settled.tokens for run in runs) < GOAL_TOKENS:
            return None
        return GOALS.get((self.task, self.vocabulary, self.length))

    def accuracies(self, method: str, *, settled: bool = True) -> list[float]:
        """Return the share of right tokens of each seed."""
        answers = [run.settled if settled else run.few for run in self.runs.get(method, ())]
        return [1 - one.wrong / one.tokens for one in answers]

    @property
    def reached(self) -> bool | None:
        """Whether every seed reached the goal by EqProp with every sequence at equilibrium."""
        if self.goal is None:
            return None
        settled = all(run.settled.unsettled == 0 for run in self.runs[EQPROP])
        return settled and min(self.accuracies(EQPROP)) >= self.goal

    @property
    def least_cosine(self) -> float:
        """The lowest cosine of an EqProp gradient with autograd's, over all of training."""
        return float(np.min([run.least_cosine for run in self.runs[EQPROP]]))

    @property
    def faithful(self) -> bool | None:
        """Whether that is as high as it has to be, where there is a goal."""
        return None if self.goal is None else self.least_cosine >= LEAST_COSINE


def arrange(outcomes: Iterable[TransformerOutcome]) -> list[Kind]:
    """Sort outcomes by kind, method and seed, whatever order they finished in."""
    names = list(TASKS)
    found: dict[tuple[str, int, int], dict[str, list[TransformerOutcome]]] = {}
    for run in sorted(outcomes, key=lambda run: (names.index(run.task), run.kind, run.seed)):
        found.setdefault(run.kind, {}).setdefault(run.method, []).append(run)
    return [
        Kind(*kind, {m: tuple(by[m]) for m in (EQPROP, BACKPROP) if m in by})
        for kind, by in found.items()
    ]


def spread(values: list[float]) -> tuple[float, float]:
    """Return mean and standard deviation; the latter is not a number for a single value."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return float(np.mean(values)), deviation


def lead_sentences(kinds: list[Kind]) -> list[str]:
    """Say what came out of each kind by EqProp, and whether that is what it has to be."""
    if not kinds:
        return ["No run has finished: there is nothing to report yet."]
    sentences = []
    for kind in kinds:
        runs = kind.runs.get(EQPROP, ())
        if not runs:
            continue
        wrong = ", ".join(str(run.settled.wrong) for run in runs)
        parts = [
            f"{kind.title}: {wrong} wrong of {runs[0].settled.tokens:,} held-out tokens at "
            "equilibrium",
            f"lowest cosine of the gradient with autograd's {kind.least_cosine:.4f}",
        ]
        if kind.goal is not None:
            for k, (goal, held) in enumerate(
                ((f"{100 * kind.goal:g} %", kind.reached), (f"{LEAST_COSINE}", kind.faithful))
            ):
                parts[k] += f" (goal {goal}: {'reached' if held else 'missed'})"
        sentences.append(f"{'; '.join(parts)}.")
    seeds = sorted({run.seed for kind in kinds for by in kind.runs.values() for run in by})
    sentences.append(f"Seeds: {', '.join(map(str, seeds))}.")
    return sentences
