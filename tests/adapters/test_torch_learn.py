"""Torch goes from a batch to its gradient in one piece as it does step by step."""

from typing import Any

import numpy as np
import pytest

from adapters.torch_backend import TorchBackend
from engine.equilibrium import Plan, Relaxation
from engine.errors import DivergenceError
from engine.learning.estimator import estimate, estimate_anew, one_sided
from engine.model.builders import conv_net, layered, looped_mlp, resistive
from engine.model.params import initial_params

NETWORKS = {
    "looped": looped_mlp(5, 8, 3),
    "relu": looped_mlp(5, 8, 3, "relu"),
    "layered": layered((5, 7, 6, 3)),
    "squared error": layered((5, 7, 3), readout="squared_error"),
    "convolution": conv_net((5, 5, 1), (2, 3), 3),
}
WAYS = Relaxation(20, 1e-3), Relaxation(15, 1e-2)


class Stepwise(TorchBackend):
    """Goes through every part of a step by itself."""

    def _learns(self, plan: Plan) -> bool:
        return False


def _given(network: Any) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    params = initial_params(network, rng)
    x = rng.normal(size=(6, network.inputs)).astype(np.float32)
    return params, x, np.eye(network.outputs, dtype=np.float32)[np.arange(6) % network.outputs]


def _learnt(kind: type[TorchBackend], network: Any, inside: bool, start: Any = None) -> Any:
    """Return the gradient and the report of a batch, in numpy's arrays."""
    params, x, y = _given(network)
    backend, gradient = kind(network, params, "cpu"), np.full(network.size, 7.0, np.float32)
    given = [x, y, one_sided(1e-3), gradient]
    if inside:
        given = [part if isinstance(part, tuple) else backend.own(part) for part in given]
    begin = backend.own(start) if inside and start is not None else start
    report = estimate_anew(backend, *given, *WAYS, begin)
    backend.check_finite()
    return backend.host(given[3]), [float(part) for part in vars(report).values()]


@pytest.mark.parametrize("inside", [False, True], ids=["numpy", "tensors"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_piece_is_the_sum_of_its_parts(name: str, inside: bool) -> None:
    network = NETWORKS[name]
    found, report = _learnt(TorchBackend, network, inside)
    expected, parts = _learnt(Stepwise, network, inside)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    np.testing.assert_allclose(report, parts, rtol=1e-6)
    assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("inside", [False, True], ids=["numpy", "tensors"])
def test_it_begins_where_it_is_told_to(inside: bool) -> None:
    network = NETWORKS["looped"]
    start = np.linspace(-0.9, 0.9, 6 * network.units, dtype=np.float32).reshape(6, -1)
    found, report = _learnt(TorchBackend, network, inside, start)
    expected, parts = _learnt(Stepwise, network, inside, start)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    assert report == pytest.approx(parts, rel=1e-6)
    assert report != pytest.approx(_learnt(TorchBackend, network, inside)[1], rel=1e-6)


@pytest.mark.parametrize("inside", [False, True], ids=["numpy", "tensors"])
def test_a_state_that_is_not_finite_is_named_as_step_by_step(inside: bool) -> None:
    network = NETWORKS["relu"]
    params, x, y = _given(network)
    params["W_rec"][...] = 1e30
    said = []
    for kind in (TorchBackend, Stepwise):
        backend, gradient = kind(network, params, "cpu"), np.zeros(network.size, np.float32)
        given = [backend.own(part) if inside else part for part in (x, y)]
        into = backend.own(gradient) if inside else gradient
        said.append(_refusal(backend, *given, one_sided(1e-3), into))
    assert said[0] == said[1]
    assert "stopped being finite" in said[0]


def _refusal(backend: TorchBackend, *given: Any) -> str:
    """Return what is said of a batch, at once or when it is asked for."""
    try:
        estimate_anew(backend, *given, *WAYS)
        backend.check_finite()
    except DivergenceError as error:
        return str(error)
    return ""


def test_other_plans_go_step_by_step() -> None:
    backend = TorchBackend(NETWORKS["looped"], _given(NETWORKS["looped"])[0], "cpu")
    free, moved = Relaxation(), Relaxation(displaced=True)
    assert backend._learns((((0.0,), free), ((1e-3,), moved)))
    assert not backend._learns((((0.0,), free), ((1e-3,), Relaxation(displaced=False))))
    assert not backend._learns((((0.0,), free), ((1e-3, -1e-3), moved)))
    assert not backend._learns((((0.0,), free),))
    assert not backend._learns((((1e-3,), free), ((1e-3,), moved)))
    network = resistive((5, 4, 3))
    other = TorchBackend(network, initial_params(network, np.random.default_rng(0)), "cpu")
    assert other._learns((((0.0,), free), ((1e-3,), moved))) == other.displaces


def test_a_batch_that_may_not_be_written_into_is_read_all_the_same() -> None:
    network = NETWORKS["looped"]
    params, x, y = _given(network)
    x.flags.writeable = y.flags.writeable = False
    backend, gradients = TorchBackend(network, params, "cpu"), np.zeros((2, network.size), "f4")
    estimate_anew(backend, x, y, one_sided(1e-3), gradients[0], *WAYS)
    estimate(backend, backend.clamp(x, y), one_sided(1e-3), gradients[1], *WAYS)
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=0, atol=2e-6)


def test_blocks_are_read_where_they_lie() -> None:
    network = NETWORKS["looped"]
    params, *_ = _given(network)
    backend = TorchBackend(network, params, "cpu")
    update = np.ones(network.size, np.float32)
    here, there = backend.blocks_as(update), backend.blocks_as(backend.own(update))
    for name, block in backend.blocks.items():
        np.testing.assert_array_equal(here[name], params[name])
        assert np.shares_memory(here[name], block.numpy())
        assert not here[name].flags.writeable
        assert there[name] is block
