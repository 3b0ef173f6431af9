import numpy as np
import pytest
import torch

from adapters.torch_arrays import unpack
from adapters.torch_autograd import bptt_gradient, implicit_gradient, loss, relax_through
from adapters.torch_backend import TorchBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import centered, estimate
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params

NETWORKS = {
    "looped": looped_mlp(3, 5, 3),
    "depth-1": layered((3, 5, 3)),
    "depth-2": layered((3, 5, 4, 3)),
    "depth-3": layered((3, 4, 5, 4, 3)),
    "depth-4": layered((3, 4, 5, 4, 3, 3)),
    "squared-error": layered((3, 5, 4, 3), "tanh", "squared_error"),
    "hard-sigmoid": layered((3, 5, 4, 3), "hard_sigmoid", "squared_error"),
}
SAMPLES = 5


@pytest.fixture(params=NETWORKS.values(), ids=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    return request.param


def draw(network: Network, dtype: type[np.floating] = np.float64) -> Params:
    """Biases away from zero: a hard sigmoid on its edge has no gradient."""
    rng = np.random.default_rng(11)
    params = initial_params(network, rng, dtype)
    for name, block in params.items():
        if name.startswith("b"):
            block[...] = rng.normal(0.3, 0.1, block.shape)
    return params


def batch(network: Network) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(12)
    x = rng.normal(size=(SAMPLES, network.inputs))
    return x, np.eye(network.outputs)[rng.integers(network.outputs, size=SAMPLES)]


def eqprop_gradient(network: Network, params: Params, beta: float) -> np.ndarray:
    backend, gradient = TorchBackend(network, params, "cpu"), np.empty(network.size)
    settling = Relaxation(1000, 1e-14)
    estimate(backend, backend.clamp(*batch(network)), centered(beta), gradient, settling)
    return gradient


def test_three_ways_to_the_same_gradient(network: Network) -> None:
    params, (x, y) = draw(network), batch(network)
    unrolled = bptt_gradient(network, params, x, y, steps=200)
    implicit = implicit_gradient(network, params, x, y)
    scale = np.abs(implicit).max()
    np.testing.assert_allclose(unrolled, implicit, rtol=0, atol=1e-12 * scale)
    eqprop = eqprop_gradient(network, params, 1e-4)
    np.testing.assert_allclose(eqprop, implicit, rtol=0, atol=1e-7 * scale)


def test_gradient_is_that_of_the_mean_cost_by_differences(network: Network) -> None:
    params, (x, y) = draw(network), batch(network)
    direction = Params(network, np.random.default_rng(13).normal(size=network.size))
    if "W_rec" in direction:
        direction["W_rec"][...] += direction["W_rec"].T.copy()
    slope = implicit_gradient(network, params, x, y) @ direction.theta
    ends = []
    for sign in (1, -1):
        theta = torch.tensor(params.theta + sign * 1e-6 * direction.theta)
        blocks = unpack(network, theta)
        state = relax_through(network, blocks, torch.tensor(x), 200)
        ends.append(float(loss(network, blocks, state, torch.tensor(y))))
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope, rel=1e-6)


def test_lateral_gradient_is_symmetric() -> None:
    network = NETWORKS["looped"]
    for gradient in (bptt_gradient, implicit_gradient):
        block = Params(network, gradient(network, draw(network), *batch(network)))["W_rec"]
        np.testing.assert_array_equal(block, block.T)
        assert np.abs(block).max() > 0.0


def test_precision_follows_the_parameters(network: Network) -> None:
    exact = implicit_gradient(network, draw(network), *batch(network))
    for gradient in (bptt_gradient, implicit_gradient):
        single = gradient(network, draw(network, np.float32), *batch(network))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, exact, rtol=0, atol=1e-4)


def test_few_steps_from_a_start_are_what_they_say() -> None:
    network = NETWORKS["looped"]
    params, (x, y) = draw(network), batch(network)
    still = bptt_gradient(network, params, x, y, steps=0, start=np.zeros((SAMPLES, 5)))
    gradient = Params(network, still)
    assert np.abs(gradient["b_out"]).max() > 0.0
    assert all(not gradient[name].any() for name in ("W_in", "b", "W_rec", "W_out"))
    settled = TorchBackend(network, params, "cpu")
    free = settled.settle(settled.clamp(x), relaxation=Relaxation(500, 1e-14))
    unrolled = bptt_gradient(network, params, x, y, steps=100, start=free.state)
    np.testing.assert_allclose(unrolled, implicit_gradient(network, params, x, y), atol=1e-12)


def test_threads_of_torch_change_no_gradient() -> None:
    network = looped_mlp(4, 266, 3)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    x, y = np.random.default_rng(1).standard_normal((8, 4)), np.eye(3)[np.arange(8) % 3]
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(implicit_gradient(network, params, x, y))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-14)


def test_a_solution_that_is_none_is_no_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = torch.linalg.solve
    monkeypatch.setattr(torch.linalg, "solve", lambda a, b: solve(a, b) * (1 + 1e-6))
    network = looped_mlp(4, 6, 3)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    with pytest.raises(EngineError, match="exact gradient of 6 units"):
        implicit_gradient(network, params, np.ones((2, 4)), np.eye(3)[:2])


def test_no_equilibrium_is_an_error() -> None:
    network = NETWORKS["looped"]
    with pytest.raises(EngineError, match="no equilibrium to differentiate: 0 of 5 samples"):
        implicit_gradient(network, draw(network), *batch(network), Relaxation(2, 1e-12))


def test_wrong_batches_and_parameters_are_refused() -> None:
    network = NETWORKS["looped"]
    x, y = batch(network)
    with pytest.raises(EngineError, match="y has 4 samples, x has 5"):
        bptt_gradient(network, draw(network), x, y[1:])
    with pytest.raises(EngineError, match="x has shape"):
        implicit_gradient(network, draw(network), x[:, 1:], y)
    with pytest.raises(EngineError, match="another network"):
        bptt_gradient(network, draw(NETWORKS["depth-1"]), x, y)
    lopsided = draw(network)
    lopsided["W_rec"][0, 1] += 1.0
    with pytest.raises(EngineError, match="'W_rec' is not symmetric"):
        bptt_gradient(network, lopsided, x, y)


def test_a_baseline_learns_through_the_relaxation(network: Network) -> None:
    x, y = (torch.tensor(array) for array in batch(network))
    theta = torch.tensor(draw(network).theta, requires_grad=True)
    costs = []
    for _ in range(15):
        blocks = unpack(network, theta)
        cost = loss(network, blocks, relax_through(network, blocks, x, 20), y)
        theta.data -= 0.3 * torch.autograd.grad(cost, theta)[0]
        costs.append(cost.item())
    assert costs[-1] < 0.95 * costs[0]
