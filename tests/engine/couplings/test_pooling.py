"""Pools and groups: against torch's own, their norm, their price, and what they refuse."""

import warnings
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import avg_pool2d, conv2d, max_pool2d

from adapters.torch_autograd import implicit_gradient
from adapters.torch_backend import TorchBackend
from engine.compiled.backend import NumbaBackend
from engine.compiled.registry import kernels_of
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.coupling import Coupling
from engine.couplings.effort import effort_of
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import EngineError, PoolingWarning
from engine.learning.estimator import centered, estimate
from engine.learning.spectral import (
    SpectralCap,
    has_cap,
    recurrent_matrix,
    recurrent_norm,
    starting_vectors,
)
from engine.learning.training import Training, fit
from engine.model import dynamics
from engine.model.builders import conv_net
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from golden.compare import compare_steps
from golden.couplings import check_network
from golden.reference import ReferenceBackend
from hw_sim.formula import dense_counts

IMAGE, CHANNELS, SAMPLES = (7, 6, 4), 6, 5
TORCH_POOLS: Mapping[str, Any] = {
    "none": lambda z: z,
    "mean": lambda z: avg_pool2d(z, 2),
    "max": lambda z: max_pool2d(z, 2),
}
variants = pytest.mark.parametrize(
    ("pooling", "groups", "stride"), list(product(TORCH_POOLS, (1, 2), (1, 2)))
)
ignore_warning = pytest.mark.filterwarnings("ignore::engine.errors.PoolingWarning")


def _coupling(pooling: Any, groups: int, stride: int) -> Convolution:
    return Convolution("W", "a", "b", 3, stride, 1, pooling=pooling, groups=groups)


def _shapes(coupling: Convolution) -> dict[str, tuple[int, ...]]:
    return {"a": IMAGE, "b": (*coupling.filter.reached("it", IMAGE), CHANNELS)}


def _network(*couplings: Coupling, activation: str = "hard_sigmoid") -> Network:
    """A layer that the input drives, and what a convolution makes of it."""
    (see,) = (c for c in couplings if isinstance(c, Convolution))
    shapes = _shapes(see)
    layers = tuple(Layer(name, shape, activation) for name, shape in shapes.items())
    pixels = int(np.prod(shapes["b"][:2]))
    read = InputConvolution("W_in", "a", (7, 6, 2))
    parts = (read, *couplings, ChannelBias("b_b", "b", 0.3, pixels))
    return Network(84, layers, parts, SoftmaxReadout("b", 3))


def _case(network: Network, dtype: Any = np.float64) -> tuple[Params, Any, Any]:
    rng = np.random.default_rng(3)
    params = initial_params(network, rng, dtype)
    x = rng.standard_normal((SAMPLES, network.inputs)).astype(dtype)
    return params, x, np.eye(3, dtype=dtype)[[0, 1, 2, 0, 1]]


@variants
def test_forms_are_those_of_torch(pooling: str, groups: int, stride: int) -> None:
    coupling = _coupling(pooling, groups, stride)
    rng, shapes = np.random.default_rng(0), _shapes(coupling)
    w = rng.standard_normal(coupling.shape(shapes))
    a, b = (rng.standard_normal((SAMPLES, *shapes[name])) for name in ("a", "b"))
    own = CHANNELS // groups
    kernel = w.reshape(groups, 3, 3, IMAGE[2] // groups, own).transpose(0, 4, 3, 1, 2)
    weights = torch.tensor(kernel.reshape(CHANNELS, -1, 3, 3), requires_grad=True)
    source = torch.tensor(a.transpose(0, 3, 1, 2), requires_grad=True)
    z = conv2d(source, weights, stride=stride, padding=1, groups=groups)
    arrived = TORCH_POOLS[pooling](z)
    (arrived * torch.tensor(b.transpose(0, 3, 1, 2))).sum().backward()
    to_source, to_target = coupling.drive(w, a, a, b)
    assert weights.grad is not None
    assert source.grad is not None
    found = weights.grad.numpy().reshape(groups, own, -1, 3, 3).transpose(0, 3, 4, 2, 1)
    np.testing.assert_allclose(to_target.transpose(0, 3, 1, 2), arrived.detach(), atol=1e-12)
    np.testing.assert_allclose(to_source.transpose(0, 3, 1, 2), source.grad, atol=1e-12)
    np.testing.assert_allclose(coupling.correlate(w, a, a, b), found.reshape(w.shape), atol=1e-11)


@ignore_warning
@variants
def test_every_backend_takes_the_steps_of_the_reference(
    pooling: str, groups: int, stride: int
) -> None:
    network = _network(_coupling(pooling, groups, stride))
    assert all(metric.passed for metric in check_network(network, np.random.default_rng(1)))
    params, x, y = _case(network)
    reference = ReferenceBackend(network, params)
    for build in (NumbaBackend, TorchBackend):
        found = compare_steps(reference, build(network, params), x, y, beta=0.2, steps=4)
        assert found.passed, found.first


@variants
def test_an_image_is_seen_through_pools_and_groups_likewise(
    pooling: Any, groups: int, stride: int
) -> None:
    seen = InputConvolution("W", "b", IMAGE, 3, stride, 1, pooling, groups)
    layer = Layer("b", (*seen.filter.reached("it", IMAGE), CHANNELS))
    network = Network(168, (layer,), (seen,), SoftmaxReadout("b", 3))
    assert all(metric.passed for metric in check_network(network, np.random.default_rng(1)))
    params, x, y = _case(network)
    reference = ReferenceBackend(network, params)
    found = compare_steps(reference, NumbaBackend(network, params), x, y, beta=0.2, steps=2)
    assert found.passed, found.first
    coupling = _coupling(pooling, groups, stride)
    arrived = coupling.drive(params["W"], x, x.reshape(-1, *IMAGE), np.zeros((5, *layer.shape)))[1]
    np.testing.assert_allclose(seen.drive(params["W"], x)[0], arrived, atol=1e-15)


@ignore_warning
def test_a_winner_that_hears_no_less_than_nothing_stays_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And one that is pushed down makes room for the next, for ever: so tanh is refused."""
    monkeypatch.setattr(Convolution, "check_activations", lambda *_: None)
    settled = {}
    for activation in ("tanh", "relu", "hard_sigmoid"):
        network = conv_net((8, 8, 1), (6, 6), 3, pooling="max", activation=activation)
        rng = np.random.default_rng(0)
        params = initial_params(network, rng, np.float64)
        params["W_2"][...] *= 3.0
        cap = SpectralCap(0.95, method="power", iterations=50)
        cap.enforce(network, params, 0, starting_vectors(network))
        backend = NumbaBackend(network, params)
        clamped = backend.clamp(rng.standard_normal((20, 64)))
        settled[activation] = backend.settle(clamped, relaxation=Relaxation(500, 1e-9)).converged
    assert settled["relu"].all()
    assert settled["hard_sigmoid"].all()
    assert not settled["tanh"].all()


@ignore_warning
@variants
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernels_are_the_formulas(pooling: str, groups: int, stride: int, dtype: Any) -> None:
    coupling = _coupling(pooling, groups, stride)
    rng, shapes, kernels = np.random.default_rng(2), _shapes(coupling), kernels_of(coupling)
    assert kernels is not None
    w = rng.standard_normal(coupling.shape(shapes)).astype(dtype)
    ends = [rng.standard_normal((SAMPLES, *shapes[name])).astype(dtype) for name in ("a", "b")]
    state = np.concatenate([end.ravel() for end in ends])
    starts, (sizes, constants) = np.array([0, ends[0].size]), kernels.told(coupling, shapes, w)
    room = kernels.scratch(tuple(sizes.tolist()), SAMPLES, w.itemsize)
    scratch = np.full(room, np.nan, dtype)  # nothing that lies in it may be used
    sent, learned = np.ones_like(state), np.ones(w.size, dtype)  # they add to what is there
    told = (state, starts, SAMPLES, sizes, constants)
    kernels.drive(*told, scratch, sent)
    kernels.correlate(*told, np.full(room, np.nan, dtype), learned)
    w, *ends = (np.float64(array) for array in (w, *ends))
    drives = np.concatenate([drive.ravel() for drive in coupling.drive(w, w, *ends)])
    error = 1e-4 if dtype is np.float32 else 1e-11
    np.testing.assert_allclose(sent - 1, drives, rtol=0, atol=error)
    expected = coupling.correlate(w, w, *ends).ravel()
    np.testing.assert_allclose(learned - 1, expected, rtol=0, atol=error)


@ignore_warning
def test_of_equal_pixels_the_first_wins() -> None:
    coupling = Convolution("W", "a", "b", 1, 1, 0, pooling="max")
    shapes = {"a": (2, 3, 1), "b": (1, 1, 1)}
    layers = tuple(Layer(name, shape, "relu") for name, shape in shapes.items())
    bias = ChannelBias("b_a", "a", 0.7, 6)
    network = Network(1, layers, (bias, coupling), SoftmaxReadout("b", 2))
    a, b = np.full((1, 2, 3, 1), 0.7), np.full((1, 1, 1, 1), 2.0)
    to_source, to_target = coupling.drive(np.full((1, 1), 3.0), a, a, b)
    np.testing.assert_allclose(to_source[0, :, :, 0], [[6.0, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(to_target, np.full_like(to_target, 2.1))
    for build in (NumbaBackend, TorchBackend, ReferenceBackend):
        params = Params(network, np.zeros(network.size))
        params["b_a"][...], params["W"][...] = 0.7, 0.5
        backend = build(network, params)
        settled = backend.settle(backend.clamp(np.zeros((1, 1))), relaxation=Relaxation(2, 0.0))
        first, *others = np.asarray(settled.state)[0, :6]
        assert first > 0.7, build
        np.testing.assert_allclose(others, 0.7)


@pytest.mark.parametrize("groups", [1, 2])
def test_the_gradient_through_mean_pools_is_the_implicit_one(groups: int) -> None:
    network = _network(_coupling("mean", groups, 1), activation="tanh")
    params, x, y = _case(network)
    backend, way = NumbaBackend(network, params), Relaxation(2000, 1e-14)
    gradient = np.zeros(network.size)
    estimate(backend, backend.clamp(x, y), centered(1e-4), gradient, way, way)
    exact = implicit_gradient(network, params, x, y, way)
    assert np.abs(Params(network, exact)["W"]).max() > 1e-4
    np.testing.assert_allclose(gradient, exact, rtol=0, atol=1e-7 * np.abs(exact).max())


@ignore_warning
@variants
def test_the_bound_is_one(pooling: str, groups: int, stride: int) -> None:
    """The norm of the slope of the drive, at a state, is at most that of the bound."""
    network = _network(_coupling(pooling, groups, stride))
    params, _, _ = _case(network)
    bound, w = network.bounds["W"], params["W"]
    parts = [bound.link.matrix(bound.part(w, k)) for k in range(bound.parts)]
    limit = bound.factor * max(np.linalg.norm(part, 2) for part in parts)
    a = np.random.default_rng(4).standard_normal((1, *IMAGE))
    b = np.zeros((1, *network.shapes["b"]))
    shift = 1e-6 * np.eye(a.size).reshape(-1, *IMAGE)
    here, there = (network.couplings[1].drive(w, a, state, b)[1] for state in (a, a + shift))
    slope = (there - here).reshape(a.size, -1) / 1e-6
    norm = np.linalg.norm(slope, 2)
    assert 0.3 * limit < norm <= limit * (1 + 1e-6)
    if pooling == "none":
        assert norm == pytest.approx(limit, rel=1e-6)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("method", ["exact", "power"])
def test_the_cap_holds_the_operator(groups: int, method: Any) -> None:
    network = _network(_coupling("mean", groups, 1), activation="tanh")
    params, _, _ = _case(network)
    params["W"][...] *= 50.0
    assert recurrent_norm(params) > 1.5
    cap, vectors = SpectralCap(0.9, method=method, iterations=20), starting_vectors(network)
    for step in range(3):
        cap.enforce(network, params, step, vectors)
    assert 0.2 < recurrent_norm(params) <= 0.9 * (1 + 1e-3)


@pytest.mark.parametrize(("pooling", "groups"), [("mean", 1), ("mean", 2), ("none", 2)])
def test_the_recurrent_matrix_is_the_slope_of_the_drive(pooling: str, groups: int) -> None:
    network = _network(_coupling(pooling, groups, 1))
    params, _, _ = _case(network)
    nothing = np.zeros((network.units, network.inputs))
    slope = dynamics.recurrent_drive(network, params, nothing, np.eye(network.units))
    np.testing.assert_allclose(recurrent_matrix(params), slope, atol=1e-15)
    assert has_cap(network)


@ignore_warning
def test_a_largest_pixel_has_no_matrix() -> None:
    params, _, _ = _case(_network(_coupling("max", 1, 1)))
    with pytest.raises(EngineError, match=r"'W' \(Convolution\) has no matrix"):
        recurrent_matrix(params)


@pytest.mark.parametrize("layer", ["a", "b"])
def test_a_largest_pixel_is_refused_at_a_layer_with_tanh(layer: str) -> None:
    kinds = {"a": "relu", "b": "relu"} | {layer: "tanh"}
    coupling = _coupling("max", 1, 1)
    layers = tuple(Layer(n, shape, kinds[n]) for n, shape in _shapes(coupling).items())
    with pytest.raises(EngineError, match=f"max pooling at layer '{layer}' with tanh"):
        Network(84, layers, (coupling,), SoftmaxReadout("b", 3))


def test_a_largest_pixel_is_warned_of_once_where_the_network_is_built() -> None:
    with pytest.warns(PoolingWarning, match="'W' has max pooling: .* may not settle") as caught:
        network = _network(_coupling("max", 1, 1))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NumbaBackend(network, _case(network)[0])
        conv_net((8, 8, 1), (2,), 3, pooling="max", activation="tanh")  # the input does not move


@ignore_warning
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_pooled_network_learns_under_its_cap(pooling: Any) -> None:
    network = conv_net((8, 8, 1), (4, 6), 2, pooling=pooling, activation="hard_sigmoid")
    assert [layer.shape for layer in network.layers] == [(4, 4, 4), (2, 2, 6)]
    rng = np.random.default_rng(5)
    y = rng.integers(2, size=60)
    x = rng.standard_normal((60, 8, 8)) + 2.0 * y[:, None, None] * (np.arange(8) < 4)
    backend = NumbaBackend(network, initial_params(network, rng))
    history = fit(backend, x.reshape(60, 64), y, Training(epochs=40, batch_size=10))
    assert history[-1].cost < 0.7 * history[0].cost


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": 3}, "has 3 groups, which do not divide the 4 channels of its source"),
        ({"groups": 4}, "has 4 groups, which do not divide the 6 channels of its target"),
        ({"groups": 0}, "groups of convolution 'W' is 0"),
        ({"pooling": "median"}, "unknown pooling 'median'; known: none, mean, max"),
        ({"pooling": "mean"}, "makes 3 x 3 pixels of 7 x 6, but its target has 7 x 6"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    shapes = {"a": IMAGE, "b": (7, 6, CHANNELS), "input": (168,)}
    with pytest.raises(EngineError, match=message):
        Convolution("W", "a", "b", **settings).shape(shapes)
    with pytest.raises(EngineError, match=message):
        InputConvolution("W", "b", IMAGE, **settings).shape(shapes)


def test_a_convolution_that_is_a_link_costs_what_its_link_does() -> None:
    """Without pools and groups the two ways to count are of the same events."""
    coupling = _coupling("none", 1, 2)
    network = _network(coupling)
    effort, link = effort_of(coupling, network.shapes), network.links["W"]
    assert effort is not None
    reads = int((link.gather >= 0).sum())
    units = network.sizes["b"]
    assert effort.drive == {
        "mac": 2 * link.macs,
        "weight_read": 2 * link.macs,
        "state_read": reads + units,
    }
    assert effort.correlate == {
        "mac": link.macs,
        "trace_read": link.macs,
        "trace_write": link.macs,
        "state_read": reads + units,
    }
    assert effort.words == 0


@ignore_warning
def test_pools_and_groups_cost_what_they_do() -> None:
    macs = {}
    for pooling, groups in product(TORCH_POOLS, (1, 2)):
        coupling = _coupling(pooling, groups, 1)
        effort = effort_of(coupling, _shapes(coupling))
        assert effort is not None
        macs[pooling, groups] = effort.drive["mac"]
        assert effort.words == (6 * 6 * CHANNELS if pooling == "max" else 0)
        dense_counts(_network(coupling), 2, 3, 4, 2)  # so that every kind is one it knows
    pooled, units = 2 * (6 * 6) * (9 * 4) * CHANNELS, 3 * 3 * CHANNELS  # a row is never computed
    assert macs["none", 1] == 2 * (7 * 6) * (9 * 4) * CHANNELS
    assert macs["none", 2] == macs["none", 1] / 2
    assert macs["max", 1] == pooled
    assert macs["mean", 1] == pooled + 2 * units


@pytest.mark.parametrize(("groups", "fan_in"), [(1, 9 * 4), (2, 9 * 2)])
def test_the_kernel_counts_its_work_there_and_back(groups: int, fan_in: int) -> None:
    """Which says how many samples a core takes at once: 6 x 6 positions of 8 filters."""
    coupling = Convolution("W", "a", "b", 3, 1, 1, pooling="max", groups=groups)
    sizes = kernels_of(coupling).sizes(coupling, {"a": (6, 6, 4), "b": (3, 3, 8)})
    assert kernels_of(coupling).macs(sizes) == 2 * 36 * fan_in * 8
