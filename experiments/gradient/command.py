"""Estimate a gradient as training would, find the exact one, and print how far they are apart."""

import argparse
from typing import NamedTuple

import numpy as np
from rich.table import Table

from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.errors import EngineError
from engine.learning.estimator import Report, estimate
from engine.learning.predict import targets_of
from engine.learning.training import Training
from experiments.saved_network import UNSCALED, SavedNetwork, read_network
from experiments.shell import guarded, make_console
from experiments.tasks import TaskError
from experiments.tasks.samples import Samples, read_samples
from experiments.vision.gradient import cosine, exact_gradient


class BlockAgreement(NamedTuple):
    """How an estimate of a block compares with the exact gradient of it."""

    block: str
    size: int
    cosine: float
    error: float
    """`|g - g*| / |g*|`; infinite where the exact one is zero and the estimate is not."""


def run(options: argparse.Namespace) -> int:
    """Compare and print; return the exit code."""
    console = make_console()

    def work() -> int:
        saved = read_network(options.network)
        samples = read_samples(options.data, saved.params.network.inputs, options.label)
        x, y = _batch(saved, samples, options.samples)
        recipe = Training(estimator=options.estimator, beta=options.beta or "auto")
        estimated, report, beta = _estimated(saved, x, y, recipe)
        exact = exact_gradient(saved.params.astype(float), x.astype(float), y)
        table = Table("Block", "Parameters", "Cosine", "Relative error")
        for row in agreements(saved, estimated, exact):
            table.add_row(row.block, f"{row.size:,}", f"{row.cosine:.6f}", f"{row.error:.1e}")
        console.print(table)
        console.print(
            f"{len(x):,} samples, cost {report.cost:.4f}; beta {beta:g}; {report.free_steps:.1f} "
            f"free and {report.nudged_steps:.1f} nudged steps a sample, {report.unsettled:.1%} of "
            "the phases not settled.",
            soft_wrap=True,
        )
        if not saved.is_scaled:
            console.print(UNSCALED)
        return 0

    return guarded(work, console, (EngineError, TaskError), "")


def agreements(
    saved: SavedNetwork, estimated: FloatArray, exact: FloatArray
) -> list[BlockAgreement]:
    """Compare two gradients as a whole, and block by block."""
    network = saved.params.network
    spans = {"all": slice(0, network.size)}
    spans |= {name: block.span for name, block in network.blocks.items()}
    return [
        BlockAgreement(name, len(exact[span]), cosine(estimated[span], exact[span]),
                  _error(estimated[span], exact[span]))
        for name, span in spans.items()
    ]  # fmt: skip


def _error(estimated: FloatArray, exact: FloatArray) -> float:
    apart, length = float(np.linalg.norm(estimated - exact)), float(np.linalg.norm(exact))
    if length == 0.0:
        return 0.0 if apart == 0.0 else float("inf")
    return apart / length


def _batch(saved: SavedNetwork, samples: Samples, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the first samples as the network is trained on them: inputs and targets."""
    network = saved.params.network
    if samples.y is None:
        raise EngineError("the file has no labels, and a gradient needs to know what is right.")
    labels = samples.y[:count]
    reading = network.reading
    if reading is not None and reading.link is not None:
        labels = saved.places(labels)
    else:
        labels = saved.targets(labels)
    x = saved.inputs(samples.x[:count])
    return x, targets_of(network, labels, saved.params.theta.dtype)


def _estimated(
    saved: SavedNetwork, x: FloatArray, y: FloatArray, training: Training
) -> tuple[FloatArray, Report, float]:
    """Return the estimate as a training step would make it, how it went, and the largest nudge."""
    backend = NumbaBackend(saved.params.network, saved.params)
    gradient = np.zeros(saved.params.network.size, saved.params.theta.dtype)
    clamped = backend.clamp(x, y)
    cost = float(backend.cost(clamped, backend.settle(clamped)).mean())
    phases, ways = training.phases(backend), training.relaxations(backend, cost)
    report = estimate(backend, clamped, phases, gradient, *ways)
    return gradient, report, max(abs(beta) for beta, _ in phases)
