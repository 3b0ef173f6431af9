import importlib
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from adapters import torch_phase
from adapters.torch_arrays import pick_device, present_devices
from adapters.torch_backend import TorchBackend
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model import dynamics
from engine.model.builders import energy_transformer, layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import initial_params

LOOPED = looped_mlp(4, 8, 3)


def build(
    network: Network = LOOPED,
    dtype: type[np.floating] = np.float64,
    gain: float = 1.0,
    **options: Any,
) -> TorchBackend:
    params = initial_params(network, np.random.default_rng(3), dtype)
    if "W_rec" in params:
        params["W_rec"][...] *= gain
    return TorchBackend(network, params, "cpu", **options)


def inputs(samples: int = 12) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(samples, 4))


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The states at which `T` is evaluated, in order."""
    seen: list[torch.Tensor] = []
    image: Callable[..., torch.Tensor] = torch_phase.Phase.image

    def watched(phase: torch_phase.Phase, state: torch.Tensor, still: bool) -> torch.Tensor:
        seen.append(state.clone())
        return image(phase, state, still)

    monkeypatch.setattr(torch_phase.Phase, "image", watched)
    return seen


def test_missing_torch_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "adapters.torch_arrays")
    with pytest.raises(ImportError, match=r'pip install "settle\[torch\]"'):
        importlib.import_module("adapters.torch_arrays")


def test_unknown_device_is_named() -> None:
    with pytest.raises(EngineError, match="unknown device 'tpu'; known: auto, cpu, cuda, mps"):
        pick_device("tpu", np.float32)


@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_absent_device_is_named_with_those_present(name: str) -> None:
    if name in present_devices():
        pytest.skip(f"this machine has {name}")
    with pytest.raises(EngineError, match=f"device '{name}' is not on this machine; it has .*cpu"):
        TorchBackend(LOOPED, build().params, name)


def test_mps_computes_in_single_precision_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto", np.float32).type == "mps"
    assert pick_device("auto", np.float64).type == "cpu"
    with pytest.raises(EngineError, match="device 'mps' has no float64"):
        pick_device("mps", np.float64)
    backend = build(dtype=np.float32)
    backend.device = torch.device("mps")
    with pytest.raises(EngineError, match="device 'mps' has no float64"):
        backend.load(backend.params.astype(np.float64))


@pytest.mark.parametrize("name", present_devices())
def test_every_present_device_finds_the_same_equilibrium(name: str) -> None:
    reference = build(dtype=np.float32)
    backend = TorchBackend(LOOPED, reference.params, name)
    relaxation = Relaxation(100, 1e-5)
    expected = reference.settle(reference.clamp(inputs()), relaxation=relaxation)
    found = backend.settle(backend.clamp(inputs()), relaxation=relaxation)
    np.testing.assert_allclose(found.state, expected.state, atol=1e-4)


def test_precision_follows_the_parameters() -> None:
    backend = build(dtype=np.float32)
    assert backend.settle(backend.clamp(inputs())).state.dtype == np.float32
    backend.load(backend.params.astype(np.float64))
    assert backend.settle(backend.clamp(inputs())).state.dtype == np.float64


def test_parameters_come_out_as_a_copy_that_refuses_writes() -> None:
    backend = build()
    before = backend.params
    with pytest.raises(ValueError, match="read-only"):
        before["b"][0] = 1.0
    backend.apply(np.ones(LOOPED.size))
    np.testing.assert_allclose(backend.params.theta, before.theta + 1.0)


def test_read_only_inputs_are_welcome(recwarn: pytest.WarningsRecorder) -> None:
    backend, x = build(), inputs()
    x.flags.writeable = False
    backend.settle(backend.clamp(x))
    assert not recwarn.list


def test_no_graph_is_kept_even_where_gradients_are_on() -> None:
    backend = build()
    with torch.enable_grad():
        batch = backend.clamp(inputs())
        backend.settle(batch)
    assert batch.drive.grad_fn is None
    assert batch.drive.is_inference()


@pytest.mark.parametrize("solver", ["fixed_point", "alternating", "anderson"])
def test_memory_does_not_grow_with_the_steps(monkeypatch: pytest.MonkeyPatch, solver: str) -> None:
    images: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []
    image: Callable[..., torch.Tensor] = torch_phase.Phase.image

    def watched(phase: torch_phase.Phase, state: torch.Tensor, still: bool) -> torch.Tensor:
        result = image(phase, state, still)
        alive.append(sum(reference() is not None for reference in images))
        images.append(weakref.ref(result))
        return result

    monkeypatch.setattr(torch_phase.Phase, "image", watched)
    backend = build(layered((4, 6, 5, 3)))
    backend.settle(backend.clamp(inputs()), relaxation=Relaxation(100, 0.0, solver))
    assert len(images) >= 15
    assert max(alive) <= 2


def test_settled_samples_leave_the_computation(evaluations: list[torch.Tensor]) -> None:
    backend = build(check_every=1)
    found = backend.settle(backend.clamp(inputs()), relaxation=Relaxation(100, 1e-6))
    assert len(set(found.steps)) > 1
    assert sum(len(state) for state in evaluations) == found.steps.sum()


def test_anderson_needs_fewer_steps() -> None:
    backend = build(gain=1.8)
    batch = backend.clamp(inputs())
    plain, mixed = (
        backend.settle(batch, relaxation=Relaxation(300, 1e-9, solver))
        for solver in ("fixed_point", "anderson")
    )
    assert plain.converged.all()
    assert mixed.converged.all()
    assert mixed.steps.mean() < 0.7 * plain.steps.mean()


def test_memory_of_one_is_the_plain_step() -> None:
    backend = build()
    batch = backend.clamp(inputs())
    plain = backend.settle(batch, relaxation=Relaxation(50, 1e-8))
    mixed = backend.settle(batch, relaxation=Relaxation(50, 1e-8, "anderson", memory=1))
    np.testing.assert_array_equal(mixed.steps, plain.steps)
    np.testing.assert_array_equal(mixed.state, plain.state)


def test_anderson_goes_back_where_a_mixture_made_things_worse(
    evaluations: list[torch.Tensor],
) -> None:
    backend, returns = build(gain=6.0), 0
    for x in inputs(8):
        batch = backend.clamp(x[None])
        evaluations.clear()
        backend.settle(batch, relaxation=Relaxation(60, 1e-9, "anderson"))
        states = [state.numpy() for state in evaluations]
        images = [image_of(backend, x, state) for state in states]
        residuals = [np.abs(i - s).max() for i, s in zip(images, states, strict=True)]
        assert all(np.abs(state).max() <= 1.0 for state in states)
        returned = False
        for k in range(1, len(states) - 1):
            plain = returned or np.allclose(states[k], images[k - 1], rtol=0, atol=1e-12)
            returned = not plain and residuals[k] > residuals[k - 1]
            if returned:
                np.testing.assert_allclose(states[k + 1], images[k - 1], rtol=0, atol=1e-12)
                returns += 1
    assert returns > 0


def test_anderson_keeps_the_histories_of_a_batch_apart() -> None:
    backend, x = build(gain=6.0), inputs(40)
    relaxation = Relaxation(25, 1e-2, "anderson")
    together = backend.settle(backend.clamp(x), relaxation=relaxation)
    assert len(set(together.steps)) > 2
    for k, row in enumerate(x):
        alone = backend.settle(backend.clamp(row[None]), relaxation=relaxation)
        assert alone.steps == together.steps[k]
        np.testing.assert_allclose(alone.state[0], together.state[k], atol=1e-6)


def image_of(backend: TorchBackend, x: np.ndarray, state: np.ndarray) -> np.ndarray:
    params = backend.params
    return np.tanh(x @ params["W_in"] + params["b"] + state @ params["W_rec"])


def test_a_nan_in_the_very_last_update_is_seen() -> None:
    """The first half turns to one, which sends infinity to a layer held at minus infinity."""
    network = layered((1, 1, 3, 2))
    params = initial_params(network, np.random.default_rng(0), np.float64)
    params["W_1"][...], params["W_2"][...], params["b_2"][...] = -1e200, 1e308, 1.2e308
    backend = TorchBackend(network, params, "cpu")
    batch, start = backend.clamp([[1e200]]), [[-1.0, 0.0, 0.0, 0.0]]
    with pytest.raises(EngineError, match="sample 0 stopped being finite"):
        backend.settle(batch, 0.0, Relaxation(1, 1e-3, "alternating"), start)


def mixed() -> Network:
    """Two layers with different activations, the read-out on the first."""
    layers = (Layer("a", (5,), "tanh"), Layer("b", (4,), "hard_sigmoid"))
    couplings = (InputDrive("W_in", "b"), Bias("b", "b"), Dense("W", "a", "b"), Lateral("V", "b"))
    return Network(4, layers, couplings, SoftmaxReadout("a", 3))


NETWORKS = {
    "looped": LOOPED,
    "layered": layered((4, 6, 5, 3)),
    "mixed": mixed(),
    "transformer": energy_transformer(5, 4, width=6, memories=2),
}


def batch_of(network: Network) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(5).integers(5, size=(12, 4)).astype(float)
    y = np.random.default_rng(6).dirichlet(np.ones(3), 12)
    return x, y if network.vocabulary is None else np.tile(np.eye(5)[:4].ravel(), (12, 1))


@pytest.mark.parametrize("beta", [0.0, 0.4, -0.4])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_is_the_one_of_the_formulas(name: str, beta: float) -> None:
    network, (x, y) = NETWORKS[name], batch_of(NETWORKS[name])
    backend = build(network)
    params, start = backend.params, np.random.default_rng(7).uniform(0, 1, (12, network.units))
    found = backend.settle(backend.clamp(x, y), beta, Relaxation(1, 0.0), start)
    drive = dynamics.clamped_drive(network, params, x)
    expected = dynamics.step(network, params, x, y, start, beta, drive)
    np.testing.assert_allclose(found.state, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_steps_are_the_plain_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the trace is replayed without a compiler, which takes seconds for every shape."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager", fullgraph=True))
    network, (x, y) = NETWORKS[name], batch_of(NETWORKS[name])
    plain, compiled = build(network), build(network, compiled=True)
    way = Relaxation(40, 1e-6, damping=0.8)
    plan = (((0.0,), way), ((0.3, -0.3), way))
    found, expected = (b.relax(b.clamp(x, y), plan) for b in (compiled, plain))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.steps, other.steps)
        np.testing.assert_allclose(one.state, other.state, rtol=0, atol=1e-12)


def test_a_compiler_that_fails_is_told_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no C++ compiler found\nand much more")

    monkeypatch.setattr(torch, "compile", fail)
    with pytest.raises(EngineError, match=r"^torch.compile does not work here: no C\+\+ compiler"):
        build(compiled=True)
