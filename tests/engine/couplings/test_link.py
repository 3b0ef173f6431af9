"""A link is the coupling it comes from, and a coupling that nobody knew runs as its link."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from adapters.nir_export import to_nir
from adapters.torch_autograd import implicit_gradient
from adapters.torch_backend import TorchBackend
from engine.arrays import by_sample
from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.link import INPUT, ONE, Link, Shapes, link_of
from engine.couplings.readout import SoftmaxReadout
from engine.couplings.tokens import Position
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import centered, estimate
from engine.learning.optimizer import Adam
from engine.learning.spectral import (
    SpectralCap,
    recurrent_norm,
    scale_norm,
    starting_vectors,
    uncapped,
)
from engine.learning.training import Training, fit
from engine.model import dynamics
from engine.model.builders import energy_transformer, layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params


@dataclass(frozen=True)
class Patches:
    """Overlapping patches of a line, each seen through the same `W (width, channels)`.

    `Phi = sum_p a[stride p - 1 : stride p - 1 + width]' W b[p]`, with nothing beyond the ends.
    """

    name: str
    source: str
    target: str
    width: int = 4
    stride: int = 2
    gain: float = 0.2
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        return (self.source, self.target)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        return (self.width, shapes[self.target][1])

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> np.ndarray:
        return self.gain * rng.standard_normal(self.shape(shapes))

    def _each(self, a: Any, b: Any) -> list[tuple[Any, Any, slice, slice]]:
        """Each patch with the part of it that lies inside, and the rows of `W` that it meets."""
        found, size = [], a.shape[1]
        for p in range(b.shape[1]):
            first = self.stride * p - 1
            inside = slice(max(0, first), min(size, first + self.width))
            rows = slice(inside.start - first, inside.stop - first)
            found.append((a[:, inside], b[:, p], rows, inside))
        return found

    def potential(self, w: Any, x: Any, *states: Any) -> Any:
        a, b = states
        return sum(((part @ w[rows]) * up).sum(-1) for part, up, rows, _ in self._each(a, b))

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        a, b = states
        to_source, to_target = 0 * a, 0 * b
        for p, (part, up, rows, inside) in enumerate(self._each(a, b)):
            to_source[:, inside] += up @ w[rows].T
            to_target[:, p] += part @ w[rows]
        return to_source, to_target

    def correlate(self, w: Any, x: Any, *states: Any) -> Any:
        a, b = states
        total = 0 * w
        for part, up, rows, _ in self._each(a, b):
            total[rows] += part.T @ up
        return total

    def link(self, shapes: Shapes) -> Link:
        (size,), (positions, channels) = shapes[self.source], shapes[self.target]
        gather = self.stride * np.arange(positions)[:, None] - 1 + np.arange(self.width)
        gather[gather >= size] = -1
        return Link(self.name, self.source, self.target, size, gather, channels)


def patched(activation: str = "tanh") -> Network:
    return Network(
        5,
        (Layer("line", (9,), activation), Layer("map", (5, 3), activation)),
        (
            InputDrive("W_in", "line"),
            Patches("W_p", "line", "map"),
            Lateral("W_self", "map"),
            Bias("b", "map"),
        ),
        SoftmaxReadout("map", 4),
    )


def patched_twice() -> Network:
    """Two shared blocks of different windows: each has its own places in the table of all."""
    plain = patched()
    layers = (*plain.layers, Layer("top", (4, 2)))
    return Network(
        5,
        layers,
        (*plain.couplings, Patches("W_q", "line", "top", width=3, stride=3)),
        SoftmaxReadout("map", 4),
    )


NETWORKS: dict[str, Network] = {
    "looped": looped_mlp(4, 6, 3),
    "layered": layered((4, 6, 5, 3), "hard_sigmoid"),
    "patches": patched(),
    "two patches": patched_twice(),
    "transformer": energy_transformer(4, 3, 4),
}


def _params(network: Network, dtype: type = np.float64) -> Params:
    return initial_params(network, np.random.default_rng(0), dtype)


def _batch(network: Network, samples: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    y = np.eye(network.outputs)[rng.integers(network.outputs, size=samples)]
    return rng.standard_normal((samples, network.inputs)), y


@pytest.mark.parametrize("name", NETWORKS)
def test_a_link_says_what_the_closed_forms_say(name: str) -> None:
    network = NETWORKS[name]
    params, rng = _params(network), np.random.default_rng(2)
    x, state = rng.standard_normal((6, network.inputs)), rng.standard_normal((6, network.units))
    for coupling in network.couplings:
        link = network.links.get(coupling.name)
        if link is None:
            continue
        w, ends = params[coupling.name], network.ends(coupling, state)
        b = by_sample(network.of(link.target, state))
        sources: Mapping[str, np.ndarray] = {INPUT: x, ONE: np.ones((6, 1))}
        a = sources.get(link.source)
        a = by_sample(network.of(link.source, state)) if a is None else a
        half = 0.5 if link.tied else 1.0
        potential = half * (link.forward(w, a) * b).sum(-1)
        np.testing.assert_allclose(potential, coupling.potential(w, x, *ends), atol=1e-12)
        sent = [link.forward(w, a)] if link.tied or link.clamped else []
        sent = sent or [link.backward(w, b), link.forward(w, a)]
        drives = coupling.drive(w, x, *ends)
        for found, expected in zip(sent, drives, strict=True):
            np.testing.assert_allclose(found + 0 * x[:, :1], by_sample(expected), atol=1e-12)
        learned = half * link.correlate(a, b).reshape(w.shape)
        np.testing.assert_allclose(learned, coupling.correlate(w, x, *ends), atol=1e-12)
        np.testing.assert_allclose(link.forward(w, a), a @ link.matrix(w), atol=1e-12)
        np.testing.assert_allclose(link.backward(w, b), b @ link.matrix(w).T, atol=1e-12)


def test_a_dense_link_costs_its_matrix_and_a_shared_one_its_places() -> None:
    links = patched().links
    assert links["W_self"].macs == 15 * 15
    assert links["W_p"].macs == 5 * 4 * 3
    assert links["W_p"].spread == pytest.approx(np.sqrt(2))
    assert {name: link.spread for name, link in links.items() if link.whole} == {
        "W_in": 1.0,
        "W_self": 1.0,
        "b": 1.0,
    }


@pytest.mark.parametrize("activation", ["tanh", "hard_sigmoid", "relu"])
@pytest.mark.parametrize("solver", ["fixed_point", "anderson"])
def test_an_unknown_link_relaxes_and_learns_as_its_formulas_do(
    solver: str, activation: str
) -> None:
    network = patched(activation)
    params, (x, y), way = _params(network), _batch(network), Relaxation(400, 1e-13, solver)
    gradients, states = [], []
    for make in (NumbaBackend, TorchBackend):
        backend = make(network, params)
        clamped, gradient = backend.clamp(x, y), np.zeros(network.size)
        states.append(backend.settle(clamped, 0.1, way).state)
        estimate(backend, clamped, centered(0.05), gradient, way)
        gradients.append(gradient)
    np.testing.assert_allclose(states[0], states[1], atol=1e-12)
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-10)
    if activation != "tanh":
        return  # kinks: the estimate and the slope differ by more than the order of beta says
    exact = implicit_gradient(network, params, x, y, Relaxation(2000, 1e-12))
    error = np.linalg.norm(gradients[0] - exact) / np.linalg.norm(exact)
    assert error < 1e-3


@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("make", [patched, patched_twice])
def test_a_step_over_shared_places_is_that_of_the_formulas(
    make: Callable[[], Network], beta: float
) -> None:
    network = make()
    params, (x, y) = _params(network), _batch(network, 2)
    start = np.random.default_rng(4).uniform(-0.9, 0.9, (2, network.units))
    backend = NumbaBackend(network, params)
    found = backend.settle(backend.clamp(x, y), beta, Relaxation(2, 0.0), start)
    drive, expected = dynamics.clamped_drive(network, params, x), start
    for _ in range(2):
        expected = dynamics.step(network, params, x, y, expected, beta, drive)
    np.testing.assert_allclose(found.state, expected, atol=1e-12)


def test_rows_do_not_depend_on_each_other_through_shared_places() -> None:
    network = patched()
    backend, (x, y) = NumbaBackend(network, _params(network, np.float32)), _batch(network, 40)
    whole = backend.settle(backend.clamp(x, y), 0.1, Relaxation(30, 1e-6))
    for sample in (0, 17, 39):
        rows = slice(sample, sample + 1)
        alone = backend.settle(backend.clamp(x[rows], y[rows]), 0.1, Relaxation(30, 1e-6))
        np.testing.assert_array_equal(alone.state[0], whole.state[sample])
        assert alone.steps[0] == whole.steps[sample]


@pytest.mark.parametrize("cap", [SpectralCap(0.6), SpectralCap(0.6, method="power", iterations=50)])
def test_the_cap_of_a_shared_block_bounds_the_whole_network(cap: SpectralCap) -> None:
    network = patched()
    params, vectors = _params(network), starting_vectors(network)
    params.theta[...] *= 8
    assert recurrent_norm(params) > 1.0
    for step in range(3):
        cap.enforce(network, params, step, vectors)
    assert recurrent_norm(params) <= 0.6 * (1 + 1e-3)


def test_the_norm_of_a_shared_block_is_found_on_the_link_itself() -> None:
    network = patched()
    link, w = network.links["W_p"], _params(network)["W_p"]
    truth = np.linalg.norm(link.matrix(w), 2)
    vector, block = starting_vectors(network)["W_p"], w.copy()
    scale_norm(link, block, 0.5 * truth, vector, iterations=5000)
    np.testing.assert_allclose(np.linalg.norm(link.matrix(block), 2), 0.5 * truth, rtol=1e-6)
    tensor, direction = torch.tensor(w), torch.tensor(starting_vectors(network)["W_p"])
    scale_norm(link, tensor, 0.5 * truth, direction, iterations=5000)
    lowered = np.linalg.norm(link.matrix(tensor.numpy()), 2)
    np.testing.assert_allclose(lowered, 0.5 * truth, rtol=1e-6)
    assert np.linalg.norm(w, 2) < truth <= link.spread * np.linalg.norm(w, 2)


def test_a_network_of_unknown_links_trains_by_default() -> None:
    network = patched()
    rng = np.random.default_rng(3)
    y = rng.integers(4, size=80)
    x = rng.standard_normal((80, 5)) + 2 * np.eye(5)[y]
    backend = NumbaBackend(network, _params(network, np.float32))
    history = fit(backend, x, y, Training(epochs=15, optimizer=Adam(2e-2)))
    assert history[-1].cost < 0.5 * history[0].cost
    assert recurrent_norm(backend.params) <= 0.95 + 1e-5


def test_a_coupling_without_a_norm_is_left_alone_by_default_and_refused_by_a_cap() -> None:
    network = energy_transformer(4, 3, 4)
    assert list(uncapped(network)) == ["attention"]
    rng = np.random.default_rng(0)
    x = rng.integers(4, size=(8, 3))
    y = network.readout.targets(x)  # type: ignore[attr-defined]
    history = fit(NumbaBackend(network, _params(network)), x, y, Training(epochs=2))
    assert len(history) == 2
    with pytest.raises(EngineError, match=r"'attention' \(Attention\) has no spectral cap"):
        fit(NumbaBackend(network, _params(network)), x, y, Training(cap=SpectralCap()))


class Doubled(Dense):
    """Sends twice what its parent sends, without saying that it is another link."""

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        return tuple(2 * part for part in super().drive(w, x, *states))


def test_a_coupling_with_another_form_never_runs_as_its_parent() -> None:
    plain = layered((4, 3, 2, 2))
    couplings = (*plain.couplings[:1], Doubled("W_2", "layer1", "layer2"), *plain.couplings[2:])
    network = Network(4, plain.layers, couplings, plain.readout)
    assert link_of(couplings[1], network.shapes) is None
    assert link_of(Position("b", "layer1"), network.shapes) is not None  # only its start differs
    with pytest.raises(EngineError, match=r"'W_2' \(Doubled\) has no compiled kernel"):
        NumbaBackend(network, _params(network))
    backend, (x, _) = TorchBackend(network, _params(network)), _batch(network)
    settled = backend.settle(backend.clamp(x), relaxation=Relaxation(500, 1e-13))
    drive = dynamics.clamped_drive(network, backend.params, x)
    image = dynamics.step(network, backend.params, x, None, settled.state, 0.0, drive)
    np.testing.assert_allclose(image, settled.state, atol=1e-12)


def test_a_tied_link_joins_a_layer_to_itself() -> None:
    with pytest.raises(EngineError, match="'W' is tied, but does not join a layer to itself"):
        Link("W", "a", "b", 2, np.arange(2)[None], 2, tied=True)
    with pytest.raises(EngineError, match="'W' is tied"):
        Link("W", "a", "a", 3, np.array([[0, 2]]), 3, tied=True)


def test_an_unknown_link_runs_in_brian2_too() -> None:
    brian2_backend = pytest.importorskip("adapters.brian2_backend", reason="needs Brian2")
    network = patched("hard_sigmoid")
    params, (x, y), way = _params(network), _batch(network, 3), Relaxation(30, 1e-9)
    found = []
    for make in (NumbaBackend, brian2_backend.Brian2Backend):
        backend, gradient = make(network, params), np.zeros(network.size)
        states = replace(way, displaced=False)
        report = estimate(backend, backend.clamp(x, y), centered(0.1), gradient, way, states)
        found.append((gradient, report.free_steps))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-9)
    assert found[0][1] == found[1][1]


def test_what_only_knows_matrices_refuses_a_shared_block_by_name() -> None:
    network = patched("hard_sigmoid")
    with pytest.raises(EngineError, match=r"'W_p' \(Patches\) has no NIR node"):
        to_nir(_params(network))
