"""Anderson mixing against a naive account of it, sample by sample and step by step."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from engine.arrays import FloatArray
from engine.compiled.anderson import mixing_weights
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.model import dynamics
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params

SAMPLES = 6
TOLERANCE = 1e-5
NETWORKS = {
    "tanh": (looped_mlp(3, 5, 2), 3.0),
    "layered": (layered((3, 4, 3, 2)), 4.0),
    "hard sigmoid": (layered((3, 4, 3, 2), "hard_sigmoid"), 1.6),
    "relu": (layered((3, 4, 3, 2), "relu"), 2.0),
}


@dataclass
class Naive:
    """One sample: mixes all it remembers, and forgets it when a mixture made things worse."""

    memory: int
    state: FloatArray
    low: float
    high: float
    states: list[FloatArray] = field(default_factory=list)
    gaps: list[FloatArray] = field(default_factory=list)
    best: float = np.inf
    plain: FloatArray | None = None
    steps: int = 0
    settled: bool = False
    undone: int = 0
    clipped: int = 0

    def step(self, image: FloatArray) -> None:
        if self.settled:
            return
        gap = image - self.state
        residual = np.abs(gap).max()
        self.steps, self.settled = self.steps + 1, residual <= TOLERANCE
        if self.settled:
            return
        if len(self.states) > 1 and residual > self.best:
            self.states, self.gaps, self.state = [], [], self.plain
            self.undone += 1
            return
        self.states = [*self.states, self.state][-self.memory :]
        self.gaps = [*self.gaps, gap][-self.memory :]
        self.best, self.plain, self.state = residual, image, image
        if len(self.states) > 1:
            mixed = self.weights() @ (np.array(self.states) + np.array(self.gaps))
            self.state = np.clip(mixed, self.low, self.high)
            self.clipped += bool((mixed != self.state).any())

    def weights(self) -> FloatArray:
        gaps = np.array(self.gaps)
        gram = gaps @ gaps.T
        ridge = 10 * np.finfo(float).eps * np.trace(gram)
        found = np.linalg.solve(gram + ridge * np.eye(len(gram)), np.ones(len(gram)))
        return found / found.sum()


def _setting(name: str) -> tuple[Network, NumbaBackend, FloatArray, FloatArray]:
    """A network beyond the cap, where a mixture can make things worse."""
    network, scale = NETWORKS[name]
    rng = np.random.default_rng(11)
    params = initial_params(network, rng, np.float64)
    for coupling in network.recurrent:
        params[coupling.name][...] *= scale / np.linalg.norm(params[coupling.name], 2)
    x = rng.standard_normal((SAMPLES, 3))
    return network, NumbaBackend(network, params), x, np.eye(2)[np.arange(SAMPLES) % 2]


def _naive(
    network: Network, params: Params, x: FloatArray, y: FloatArray, beta: float, memory: int,
    steps: int,
) -> list[Naive]:  # fmt: skip
    drive, rule = dynamics.clamped_drive(network, params, x), network.layers[0].rule
    start = dynamics.activate(network, drive)
    samples = [Naive(memory, row, rule.low, rule.high) for row in start]
    for _ in range(steps):
        state = np.array([sample.state for sample in samples])
        images = dynamics.step(network, params, x, y, state, beta, drive)
        for sample, image in zip(samples, images, strict=True):
            sample.step(image)
    return samples


@pytest.mark.parametrize("memory", [1, 2, 3, 5])
@pytest.mark.parametrize("beta", [0.0, 0.2])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_step_is_that_of_the_naive_account(name: str, beta: float, memory: int) -> None:
    network, backend, x, y = _setting(name)
    for steps in (1, 2, 3, 4, 6, 9):
        way = Relaxation(steps, TOLERANCE, "anderson", memory=memory)
        found = backend.settle(backend.clamp(x, y), beta, way)
        expected = _naive(network, backend.params, x, y, beta, memory, steps)
        state = [sample.state for sample in expected]
        np.testing.assert_allclose(found.state, state, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(found.steps, [sample.steps for sample in expected])


def test_mixtures_are_undone_and_kept_within_their_range_in_these_settings() -> None:
    """Without this the test above could be about plain steps alone."""
    undone, clipped = {}, {}
    for name in NETWORKS:
        network, backend, x, y = _setting(name)
        samples = [
            sample
            for memory in (2, 3, 5)
            for sample in _naive(network, backend.params, x, y, 0.0, memory, 9)
        ]
        undone[name] = sum(sample.undone for sample in samples)
        clipped[name] = sum(sample.clipped for sample in samples)
    assert all(undone.values()), undone
    assert all(clipped.values()), clipped


def test_the_phases_of_a_block_have_histories_of_their_own() -> None:
    _, backend, x, y = _setting("tanh")
    clamped, way = backend.clamp(x, y), Relaxation(7, 0.0, "anderson")
    free = backend.settle(clamped, 0.0, Relaxation(5, 0.0))
    both = backend.relax(clamped, (((0.3, -0.3), way),), free.state)
    for found, beta in zip(both, (0.3, -0.3), strict=True):
        alone = backend.settle(clamped, beta, way, free.state)
        np.testing.assert_allclose(found.state, alone.state, rtol=0, atol=1e-9)


def test_gaps_whose_squares_vanish_are_not_mixed() -> None:
    """States so small that no inner product of gaps is left: every step is a plain one."""
    network = looped_mlp(2, 5, 2)
    params = initial_params(network, np.random.default_rng(0))
    backend = NumbaBackend(network, params)
    clamped, start = backend.clamp(np.zeros((3, 2))), np.full((3, 5), 1e-22, np.float32)
    found, plain = (
        backend.settle(clamped, relaxation=Relaxation(6, 0.0, solver), start=start)
        for solver in ("anderson", "fixed_point")
    )
    np.testing.assert_array_equal(found.state, plain.state)
    assert (found.state != 0.0).any()


@pytest.mark.parametrize("count", [2, 3, 5])
def test_mixing_weights_make_the_mixed_gap_the_smallest(count: int) -> None:
    gaps = np.random.default_rng(9).standard_normal((count, 12))
    gram, weights = gaps @ gaps.T, np.full(6, np.nan)
    assert mixing_weights(gram, np.full((6, 6), np.nan), weights, count)
    found = weights[:count]
    np.testing.assert_allclose(found.sum(), 1.0, rtol=1e-13)
    slopes = gram @ found  # all equal at the minimum under a fixed sum
    np.testing.assert_allclose(slopes, slopes.mean(), rtol=1e-10)
    assert np.isnan(weights[count:]).all()


def test_gaps_whose_squares_underflow_have_no_mixing_weights() -> None:
    room = np.empty((3, 3)), np.empty(3)
    tiny = np.finfo(float).tiny / np.finfo(float).eps
    assert not mixing_weights(np.zeros((3, 3)), *room, 3)
    assert not mixing_weights(np.eye(3) * tiny / 3, *room, 3)
    assert mixing_weights(np.eye(3) * tiny, *room, 3)
    assert not mixing_weights(np.full((3, 3), np.nan), *room, 3)
