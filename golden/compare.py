"""Two backends side by side, step by step, through nothing but their contract.

Each takes single steps from its own last state, so a difference shows at the step that makes it,
and the first one over the threshold names the layer, the unit and the sample to look at.
"""

from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.equilibrium import Equilibrium, Relaxation, Solver
from engine.errors import EngineError
from golden.metric import Metric, format_table

THRESHOLDS = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}
"""Largest difference of a state in [-1, 1]: rounding, and the growth of it where T expands."""
TINY = float(np.finfo(np.float64).tiny)
OUTPUT = "(output)"
"""What stands for the layer when only the outputs differ."""


@dataclass(frozen=True)
class StepDifference:
    """Largest difference of the states and of the outputs after one step."""

    step: int
    hidden: float
    output: float

    @property
    def largest(self) -> float:
        """The larger of the two."""
        return float(np.maximum(self.hidden, self.output))


@dataclass(frozen=True)
class Location:
    """Where two backends first differ by more than the threshold."""

    step: int
    layer: str
    unit: int
    sample: int
    difference: float

    def __str__(self) -> str:
        return (
            f"step {self.step}, layer '{self.layer}', unit {self.unit}, sample {self.sample}: "
            f"difference {self.difference:.2e}"
        )


@dataclass(frozen=True)
class Comparison:
    """Every step of two backends, the largest differences, and where they part."""

    rows: tuple[StepDifference, ...]
    metrics: tuple[Metric, ...]
    first: Location | None

    @property
    def passed(self) -> bool:
        """Whether every difference keeps to its threshold."""
        return all(metric.passed for metric in self.metrics)


def compare_steps(
    left: Backend,
    right: Backend,
    x: FloatArray,
    y: FloatArray | None = None,
    *,
    beta: float = 0.0,
    steps: int = 30,
    solver: Solver = "fixed_point",
    threshold: float | None = None,
) -> Comparison:
    """Take `steps` single steps with both backends and compare what each of them reached."""
    if steps < 1:
        raise EngineError(f"steps is {steps}, expected at least 1.")
    limit = coarser_threshold(left, right) if threshold is None else threshold
    single = Relaxation(max_steps=1, tolerance=0.0, solver=solver)
    sides = [(backend, backend.clamp(x, y)) for backend in (left, right)]
    starts: list[FloatArray | None] = [None, None]
    rows, first = [], None
    for step in range(1, steps + 1):
        ends = [
            backend.settle(clamped, beta, single, start)
            for (backend, clamped), start in zip(sides, starts, strict=True)
        ]
        starts = [end.state for end in ends]
        hidden = _gap(ends[0].state, ends[1].state)
        output = _gap(left.predict(ends[0]), right.predict(ends[1]))
        rows.append(StepDifference(step, float(hidden.max()), float(output.max())))
        first = first or _locate(left, step, hidden, output, limit)
    metrics = (
        Metric("Hidden difference", float(np.max([row.hidden for row in rows])), limit),
        Metric("Output difference", float(np.max([row.output for row in rows])), limit),
    )
    return Comparison(tuple(rows), metrics, first)


def compare_rules(
    left: Backend, right: Backend, x: FloatArray, y: FloatArray, *, threshold: float | None = None
) -> tuple[Metric, ...]:
    """Compare what both accumulate at one state, block by block.

    A difference is relative to the largest sum of the sizes of what samples add to an entry: where
    they cancel, as errors of equally likely classes do, an entry is nothing but their rounding.
    """
    limit = coarser_threshold(left, right) if threshold is None else threshold
    reached = left.settle(left.clamp(x, y), relaxation=Relaxation(max_steps=5))
    ours, theirs = (_local_rule(backend, x, y, reached) for backend in (left, right))
    alone = [_local_rule(left, x[[k]], y[[k]], _sample(reached, k)) for k in range(len(x))]
    sizes = np.abs(alone).sum(0)
    metrics = []
    for name, block in left.network.blocks.items():
        scale = max(float(sizes[block.span].max()), TINY)
        gap = float(_gap(ours[block.span], theirs[block.span]).max()) / scale
        metrics.append(Metric(f"{name} local rule", gap, limit))
    return tuple(metrics)


def coarser_threshold(left: Backend, right: Backend) -> float:
    """Return the threshold of the less precise of two backends."""
    return max(THRESHOLDS[np.dtype(backend.dtype)] for backend in (left, right))


def format_steps(comparison: Comparison) -> str:
    """Return `| Step | Max difference |`."""
    rows = [(row.step, f"{row.largest:.2e}") for row in comparison.rows]
    return format_table(("Step", "Max difference"), rows)


def _gap(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.abs(left.astype(np.float64) - right.astype(np.float64))


def _locate(
    backend: Backend, step: int, hidden: FloatArray, output: FloatArray, limit: float
) -> Location | None:
    """Return the place of the largest difference of this step, if it is over the limit."""
    if not hidden.max() <= limit:
        sample, column = divmod(int(np.argmax(hidden)), hidden.shape[1])
        for layer, span in backend.network.columns.items():
            if span.start <= column < span.stop:
                difference = float(hidden[sample, column])
                return Location(step, layer, column - span.start, sample, difference)
    if not output.max() <= limit:
        sample, unit = divmod(int(np.argmax(output)), output.shape[1])
        return Location(step, OUTPUT, unit, sample, float(output[sample, unit]))
    return None


def _sample(reached: Equilibrium, k: int) -> Equilibrium:
    """Return where one sample ended."""
    parts = {
        name: getattr(reached, name)[[k]] for name in ("state", "steps", "residual", "converged")
    }
    return replace(reached, **parts)


def _local_rule(backend: Backend, x: FloatArray, y: FloatArray, reached: Equilibrium) -> FloatArray:
    """`dE/dtheta + dC/dtheta` at a state that another backend may have reached."""
    clamped = backend.clamp(x, y)
    gradient = np.zeros(backend.network.size, backend.dtype)
    here = replace(reached, state=reached.state.astype(backend.dtype))
    backend.accumulate(clamped, here, gradient, energy=1.0, cost=1.0)
    return gradient.astype(np.float64)
