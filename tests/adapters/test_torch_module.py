"""The backward pass of the module is the estimate, and in the limit the gradient."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from adapters import torch_phase
from adapters.torch_autograd import relax_through
from adapters.torch_backend import TorchBackend
from adapters.torch_module import EqPropModule, LinearCost
from engine.equilibrium import Relaxation
from engine.errors import DivergenceError, EngineError
from engine.learning.estimator import Estimator, centered, estimate, four_point, one_sided
from engine.learning.spectral import NEAR, SpectralCap, recurrent_norm
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params

NETWORKS = {
    "looped": looped_mlp(3, 5, 2),
    "depth-1": layered((3, 4, 2)),
    "depth-3": layered((3, 4, 5, 3, 2)),
    "hard-sigmoid": layered((3, 4, 2), "hard_sigmoid", "squared_error"),
    "convolution": conv_net((4, 3, 2), (3, 2), 2, activation="tanh"),
    "convolution-relu": conv_net((4, 3, 2), (3, 2), 2),
}
SAMPLES = 4
EXACT = Relaxation(2000, 1e-14)


@pytest.fixture(params=NETWORKS.values(), ids=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    return request.param


def draw(network: Network, dtype: type[np.floating] = np.float64) -> Params:
    params = initial_params(network, np.random.default_rng(5), dtype)
    for name, block in params.items():
        if name.startswith("b"):
            block[...] = np.random.default_rng(6).normal(0.3, 0.1, block.shape)
    return params


def build(network: Network, estimator: Estimator, relaxation: Relaxation = EXACT) -> EqPropModule:
    return EqPropModule(draw(network), estimator, relaxation)


def batch(network: Network) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs, and the slope that a loss sends back."""
    rng = np.random.default_rng(7)
    x = torch.tensor(rng.normal(0.0, 0.5, (SAMPLES, network.inputs)), requires_grad=True)
    width = network.sizes[network.readout.layer]
    return x, torch.tensor(rng.standard_normal((SAMPLES, width)))


def gradients(module: EqPropModule, slope: torch.Tensor, x: torch.Tensor) -> np.ndarray:
    """Gradients of the parameters, in the order of the network, then of the input."""
    found = torch.autograd.grad(module(x), [*module.parameters(), x], slope)
    named = dict(zip(module.blocks, found, strict=False))
    parts = [named[name] for name in module.phases.network.blocks]
    return np.concatenate([part.numpy().ravel() for part in [*parts, found[-1]]])


def exact_gradients(module: EqPropModule, slope: torch.Tensor, x: torch.Tensor) -> np.ndarray:
    """The same by backpropagation through 400 steps."""
    network = module.phases.network
    leaves = {name: value.detach().requires_grad_() for name, value in module.blocks.items()}
    read = network.of(network.readout.layer, relax_through(network, leaves, x, 400))
    read = read.reshape(slope.shape)
    found = torch.autograd.grad(read, [*(leaves[name] for name in network.blocks), x], slope)
    return np.concatenate([part.numpy().ravel() for part in found])


@pytest.mark.parametrize("points", [one_sided, centered, four_point])
def test_backward_is_the_estimate_of_the_engine(network: Network, points: object) -> None:
    """Sample by sample, because each is nudged by a force of size one."""
    module, (x, slope) = build(network, points(0.1)), batch(network)
    backend = TorchBackend(module.phases.network, module.params, "cpu")
    expected, part = np.zeros((2, module.params.network.size))
    for row, force in zip(x.detach().numpy(), slope.numpy(), strict=True):
        size = np.abs(force).max()
        clamped = backend.clamp([row], [force / size])
        estimate(backend, clamped, points(0.1), part, EXACT)
        expected += size * part
    found = gradients(module, slope, x)[: len(expected)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


def test_gradcheck_of_torch_passes(network: Network) -> None:
    module, (x, _) = build(network, four_point(0.01)), batch(network)
    names, values = zip(*module.blocks.items(), strict=True)

    def output(x: torch.Tensor, *blocks: torch.Tensor) -> torch.Tensor:
        held = dict(zip((f"blocks.{name}" for name in names), blocks, strict=True))
        return torch.func.functional_call(module, held, (x,))

    few = x[:2].detach().requires_grad_()
    assert torch.autograd.gradcheck(output, (few, *values), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize(("points", "order"), [(one_sided, 1), (centered, 2), (four_point, 4)])
@pytest.mark.parametrize("name", ["looped", "depth-3", "convolution"])
def test_the_bias_falls_with_beta_as_theory_says(name: str, points: object, order: int) -> None:
    x, slope = batch(NETWORKS[name])
    exact = exact_gradients(build(NETWORKS[name], centered(0.1)), slope, x)
    betas = np.array([0.1, 0.2, 0.4])
    errors = [
        np.linalg.norm(gradients(build(NETWORKS[name], points(beta)), slope, x) - exact)
        for beta in betas
    ]
    assert errors[0] < 0.1 ** (order + 1) * 10 * np.linalg.norm(exact)
    measured = np.polyfit(np.log(betas), np.log(errors), 1)[0]
    assert measured == pytest.approx(order, abs=0.15 * order)


def test_only_the_equilibrium_is_kept() -> None:
    module, (x, _) = build(NETWORKS["looped"], centered(0.1)), batch(NETWORKS["looped"])
    output = module(x)
    assert type(output.grad_fn).__name__ == "_SettleBackward"
    kept = sum(tensor.numel() for tensor in output.grad_fn.saved_tensors)
    assert kept == x.numel() + SAMPLES * 5 + sum(p.numel() for p in module.parameters())
    slope = 2.0 * torch.ones_like(output, requires_grad=True)
    (found,) = torch.autograd.grad(output, x, slope, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        found.sum().backward()


def test_memory_does_not_depend_on_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all the states met on the way, hardly any is alive when the next one is made."""
    states: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []
    image: Callable[..., torch.Tensor] = torch_phase.Phase.image

    def watched(phase: torch_phase.Phase, state: torch.Tensor, *more: Any) -> torch.Tensor:
        result = image(phase, state, *more)
        alive.append(sum(reference() is not None for reference in states))
        states.append(weakref.ref(result))
        return result

    monkeypatch.setattr(torch_phase.Phase, "image", watched)
    x, slope = batch(NETWORKS["looped"])
    gradients(build(NETWORKS["looped"], centered(0.1), Relaxation(60, 0.0)), slope, x)
    assert len(states) > 100
    assert max(alive) <= 3


def test_a_parameter_that_is_frozen_gets_no_gradient() -> None:
    module, (x, slope) = build(NETWORKS["looped"], centered(0.1)), batch(NETWORKS["looped"])
    module.blocks["W_in"].requires_grad_(False)
    module(x.detach()).backward(slope)
    assert module.blocks["W_in"].grad is None
    assert x.grad is None
    block = module.blocks["W_rec"].grad
    assert block.abs().max() > 0
    assert torch.equal(block, block.T)


def test_images_are_rows_of_pixels() -> None:
    module, (x, slope) = (
        build(NETWORKS["convolution"], centered(0.1)),
        batch(NETWORKS["convolution"]),
    )
    images = x.detach().reshape(SAMPLES, 4, 3, 2).requires_grad_()
    assert torch.equal(module(images), module(x))
    assert torch.equal(module.relax(images)[0], module.relax(x)[0])
    (found,) = torch.autograd.grad(module(images), images, slope)
    (expected,) = torch.autograd.grad(module(x), x, slope)
    assert found.shape == images.shape
    assert torch.equal(found.flatten(1), expected)
    with pytest.raises(
        EngineError,
        match=r"x has shape \(4, 3, 4, 2\), expected \(samples, 24\) or \(samples, 4, 3, 2\)",
    ):
        module(images.detach().transpose(1, 2))


def test_it_learns_to_see_inside_a_larger_model() -> None:
    """Bars that lie or stand anywhere, which no sum over single pixels tells apart."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    y = torch.arange(80) % 2
    x = torch.zeros(80, 6, 6, 1)
    for image, lies, place in zip(x, y, rng.integers(6, size=80), strict=True):
        image[(place,) if lies else (slice(None), place)] = 1.0
    params = initial_params(conv_net((6, 6, 1), (4, 4), 2), np.random.default_rng(0))
    model = nn.Sequential(EqPropModule(params), nn.Linear(16, 2))
    learner = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(30):
        learner.zero_grad()
        cost = nn.functional.cross_entropy(model(x), y)
        cost.backward()
        learner.step()
        model[0].enforce(SpectralCap(0.9))
    assert cost < 0.5  # chance is 0.69
    assert recurrent_norm(model[0].params) <= 0.9 * (1 + NEAR)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_any_optimizer_trains_it_inside_a_larger_model(optimizer: type) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 2)
    y = (x[:, 0] * x[:, 1] > 0).long()
    params = initial_params(looped_mlp(6, 12, 2), np.random.default_rng(0))
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), EqPropModule(params), nn.Linear(12, 2))
    before = [value.detach().clone() for value in model.parameters()]
    learner = optimizer(model.parameters(), lr=0.3 if optimizer is torch.optim.SGD else 0.02)
    for _ in range(100):
        learner.zero_grad()
        cost = nn.functional.cross_entropy(model(x), y)
        cost.backward()
        learner.step()
        model[2].enforce(SpectralCap(0.9))
    assert cost < 0.5  # chance is 0.69, and no line separates these classes
    assert all((old != new).any() for old, new in zip(before, model.parameters(), strict=True))
    assert recurrent_norm(model[2].params) <= 0.9 + 1e-6


def test_state_dict_and_engine_parameters_hold_the_same() -> None:
    first, second = (EqPropModule(draw(NETWORKS["looped"])) for _ in range(2))
    with torch.no_grad():
        first.blocks["b"] += 1.0
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(second.params.theta, first.params.theta)
    assert second.params.network.readout == LinearCost("hidden")
    state, steps, residual = second.relax(torch.zeros(2, 3, dtype=torch.float64))
    assert state.shape == (2, 5)
    assert (residual <= Relaxation().tolerance).all()
    assert (steps > 1).all()


def test_wrong_input_is_one_sentence() -> None:
    module = EqPropModule(draw(NETWORKS["looped"]))
    with pytest.raises(EngineError, match=r"x has shape \(2, 4\), expected \(samples, 3\)"):
        module(torch.zeros(2, 4, dtype=torch.float64))
    with pytest.raises(EngineError, match=r"x is torch.float32 on cpu, the module torch.float64"):
        module(torch.zeros(2, 3))
    with pytest.raises(EngineError, match="by method 'exact', not 'power'"):
        module.enforce(SpectralCap(method="power"))
    with pytest.raises(EngineError, match="expected 0 and 1"):
        EqPropModule(draw(NETWORKS["looped"]), ((0.0, 1.0),))
    with pytest.raises(DivergenceError, match="stopped being finite"):
        module(torch.full((2, 3), torch.nan, dtype=torch.float64))
    bare = Network(1, (Layer("a", (2,)),), (), LinearCost("a"))
    with pytest.raises(EngineError, match="no coupling that could learn"):
        EqPropModule(Params(bare, np.zeros(0)))
