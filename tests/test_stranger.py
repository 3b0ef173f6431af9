"""A link that nobody knew runs everywhere: it is written here, and no other file is touched."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from adapters.brian2_backend import Brian2Backend
from adapters.torch_autograd import implicit_gradient
from adapters.torch_backend import TorchBackend
from engine.arrays import by_sample
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import Bias, InputDrive
from engine.couplings.link import Link, Shapes
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.learning import checkpoint
from engine.learning.estimator import centered, estimate
from engine.learning.optimizer import Adam
from engine.learning.spectral import recurrent_norm, uncapped
from engine.learning.training import Training, fit
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from golden import scalar
from golden.compare import compare_steps
from golden.couplings import check_network
from golden.reference import ReferenceBackend
from hw_sim.audit.training_step import audit_substrate
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.digital import DigitalBackend
from hw_sim.formula import dense_counts


@dataclass(frozen=True)
class EverySecond:
    """`Phi = a[::2]' W b`: every second unit of the source is joined to all of the target."""

    name: str
    source: str
    target: str
    gain: float = 0.6
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        return (self.source, self.target)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        return ((prod(shapes[self.source]) + 1) // 2, prod(shapes[self.target]))

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> np.ndarray:
        rows, columns = self.shape(shapes)
        return rng.normal(0.0, self.gain / (rows**0.5 + columns**0.5), (rows, columns))

    def potential(self, w: Any, x: Any, *states: Any) -> Any:
        a, b = map(by_sample, states)
        return ((a[:, ::2] @ w) * b).sum(-1)

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        a, b = map(by_sample, states)
        to_source = 0 * a
        to_source[:, ::2] += b @ w.T
        return to_source, a[:, ::2] @ w

    def correlate(self, w: Any, x: Any, *states: Any) -> Any:
        a, b = map(by_sample, states)
        return a[:, ::2].T @ b

    def link(self, shapes: Shapes) -> Link:
        size = prod(shapes[self.source])
        gather = np.arange(0, size, 2)[None]
        return Link(self.name, self.source, self.target, size, gather, prod(shapes[self.target]))


def _send(coupling: Any, w: Any, x: Any, ends: Any, shape: Any) -> tuple[list[float], ...]:
    source, target = ends
    to_source = [
        sum(w[i // 2][j] * target[j] for j in range(len(target))) if i % 2 == 0 else 0.0
        for i in range(len(source))
    ]
    to_target = [sum(row[j] * source[2 * i] for i, row in enumerate(w)) for j in range(len(target))]
    return to_source, to_target


TWIN = scalar.Twin(_send, lambda c, w, x, ends, s: [a * b for a in ends[0][::2] for b in ends[1]])
NETWORK = Network(
    4,
    (Layer("low", (7,)), Layer("high", (5,))),
    (InputDrive("W_in", "low"), EverySecond("skip", "low", "high"), Bias("b", "high", 0.2)),
    SoftmaxReadout("high", 3),
)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two registrations: files, and the judge."""
    monkeypatch.setattr(scalar, "_TWINS", dict(scalar._TWINS))
    kinds = {name: kind for name, kind in checkpoint._KINDS.items() if name != "EverySecond"}
    monkeypatch.setattr(checkpoint, "_KINDS", kinds)  # a page of docs/ has one of the same name
    scalar.register(EverySecond, TWIN)
    checkpoint.register(EverySecond)


def _params() -> Params:
    return initial_params(NETWORK, np.random.default_rng(0), np.float64)


def _batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((6, 4)), np.eye(3)[rng.integers(3, size=6)]


@pytest.mark.parametrize("build", [ReferenceBackend, TorchBackend, Brian2Backend])
def test_every_backend_takes_the_same_steps(build: Callable[..., Backend]) -> None:
    sides = build(NETWORK, _params()), NumbaBackend(NETWORK, _params())
    comparison = compare_steps(*sides, *_batch(), beta=0.2, steps=12)
    assert comparison.passed, comparison.first


def test_golden_judges_its_forms_its_link_and_its_gradient() -> None:
    assert all(m.passed for m in check_network(NETWORK, np.random.default_rng(2)))
    (x, y), way = _batch(), Relaxation(1000, 1e-13)
    backend, gradient = NumbaBackend(NETWORK, _params()), np.zeros(NETWORK.size)
    estimate(backend, backend.clamp(x, y), centered(1e-3), gradient, way, way)
    exact = implicit_gradient(NETWORK, _params(), x, y, way)
    np.testing.assert_allclose(gradient, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


def test_it_trains_under_the_cap_and_is_saved(tmp_path: Path) -> None:
    assert not uncapped(NETWORK)
    params = _params()
    params["skip"][...] *= 8.0
    backend = NumbaBackend(NETWORK, params)
    fit(backend, *_batch(), Training(epochs=3, batch_size=3))
    norm = np.linalg.norm(NETWORK.links["skip"].matrix(backend.params["skip"]), 2)
    assert norm <= 0.95 * (1 + 1e-6)
    np.testing.assert_allclose(recurrent_norm(backend.params), norm, rtol=1e-6)
    checkpoint.save(tmp_path / "stranger.npz", backend.params)
    again, _, _ = checkpoint.load(tmp_path / "stranger.npz")
    assert again.network == NETWORK


@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_every_chip_trains_it_counts_it_and_passes_the_audit(chip: Any) -> None:
    backend, (x, y) = chip.build(NETWORK, _params(), chip.settings), _batch()
    training = Training(epochs=1, batch_size=3, cap=None, beta=0.2, optimizer=Adam(0.01))
    fit(backend, x, y, training)
    assert sum(n for (_, place, _), n in backend.counts if place == "high") > 0
    assert audit_substrate(backend, x, y).synapse_writes > 0


def test_its_multiply_adds_are_those_of_the_formula() -> None:
    backend, (x, y) = DigitalBackend(NETWORK, _params()), _batch()
    free = backend.settle(backend.clamp(x, y), 0.0, Relaxation(5, 0.0))
    counted = {key: n for key, n in backend.counts if key[2] == "mac"}
    formula = dense_counts(NETWORK, len(x), int(free.steps.sum()), 0, 0)
    assert counted == {key: n for key, n in formula if key[2] == "mac" and key[0] != "learn"}
    assert counted["free", "high", "mac"] == free.steps.sum() * 4 * 5
