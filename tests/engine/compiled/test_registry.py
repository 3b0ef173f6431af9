"""A coupling that nobody knew and that is no link: its kernels run it, nothing else is touched."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from adapters.torch_autograd import implicit_gradient
from adapters.torch_backend import TorchBackend
from engine.backend import Backend
from engine.compiled import registry
from engine.compiled.backend import NumbaBackend
from engine.compiled.registry import Kernels, kernels_of, register
from engine.couplings.attention import Attention
from engine.couplings.dense import Bias, Dense, InputDrive
from engine.couplings.effort import Effort
from engine.couplings.link import Shapes
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import CheckpointError, EngineError
from engine.learning import checkpoint
from engine.learning.estimator import centered, estimate
from engine.learning.spectral import uncapped
from engine.learning.training import Training, fit
from engine.model import dynamics
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from golden import scalar
from golden.compare import compare_steps
from golden.couplings import check_network
from golden.reference import ReferenceBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.formula import dense_counts


@dataclass(frozen=True)
class Gate:
    """`Phi = sum_u w_u (a_u b_u)^2 / 2`: two units that excite each other where both are active."""

    name: str
    first: str
    second: str
    gain: float = 0.3
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        return (self.first, self.second)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        return shapes[self.first]

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> np.ndarray:
        return self.gain * rng.standard_normal(self.shape(shapes))

    def potential(self, w: Any, x: Any, *states: Any) -> Any:
        a, b = states
        return (w * (a * b) ** 2).sum(-1) / 2

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        a, b = states
        return w * a * b**2, w * a**2 * b

    def correlate(self, w: Any, x: Any, *states: Any) -> Any:
        a, b = states
        return ((a * b) ** 2).sum(0) / 2

    def effort(self, shapes: Shapes) -> Effort:
        units = shapes[self.first][0]
        return Effort(drive={"mac": 4 * units}, correlate={"mac": 2 * units})


def _drive(state, starts, rows, sizes, constants, scratch, into):  # type: ignore[no-untyped-def]
    units = sizes[0]
    for j in range(rows * units):
        a, b, w = state[starts[0] + j], state[starts[1] + j], constants[j % units]
        into[starts[0] + j] += w * a * b * b
        into[starts[1] + j] += w * a * a * b


def _correlate(state, starts, rows, sizes, constants, scratch, into):  # type: ignore[no-untyped-def]
    units = sizes[0]
    for j in range(rows * units):
        product = state[starts[0] + j] * state[starts[1] + j]
        into[j % units] += product * product / 2


KERNELS = Kernels(
    _drive,
    _correlate,
    sizes=lambda gate, shapes: shapes[gate.first],
    constants=lambda gate, shapes, w: w,
    scratch=lambda sizes, rows, itemsize: 0,
    macs=lambda sizes: 4 * sizes[0],
)
TWIN = scalar.Twin(
    lambda c, w, x, ends, shape: (
        [w_u * a * b * b for w_u, a, b in zip(w, *ends, strict=True)],
        [w_u * a * a * b for w_u, a, b in zip(w, *ends, strict=True)],
    ),
    lambda c, w, x, ends, shape: [(a * b) ** 2 / 2 for a, b in zip(*ends, strict=True)],
)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates are registered while a test runs."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.setattr(scalar, "_TWINS", dict(scalar._TWINS))
    monkeypatch.setattr(checkpoint, "_KINDS", dict(checkpoint._KINDS))
    register(Gate, KERNELS)
    scalar.register(Gate, TWIN)
    checkpoint.register(Gate)


def _network() -> Network:
    """Two layers with a gate and a matrix between them: they have halves."""
    return Network(
        4,
        (Layer("low", (6,)), Layer("high", (6,), "hard_sigmoid")),
        (
            InputDrive("W_in", "low"),
            Dense("W", "low", "high"),
            Gate("G", "low", "high"),
            Bias("b", "high", 0.4),
        ),
        SoftmaxReadout("high", 3),
    )


def _case(dtype: type = np.float64) -> tuple[Params, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    params = initial_params(_network(), rng, dtype)
    x, labels = rng.standard_normal((9, 4)), rng.integers(3, size=9)
    return params, x.astype(dtype), np.eye(3, dtype=dtype)[labels]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["fixed_point", "alternating", "anderson"])
def test_every_solver_settles_where_the_formulas_do(solver: Any, dtype: type) -> None:
    params, x, y = _case(dtype)
    exact = 1e-5 if dtype is np.float32 else 1e-10
    backend = NumbaBackend(params.network, params)
    found = backend.settle(backend.clamp(x, y), 0.3, Relaxation(500, exact / 100, solver))
    blocks = params.astype(np.float64)
    drive = dynamics.clamped_drive(params.network, blocks, x)
    image = dynamics.step(params.network, blocks, x, y, np.float64(found.state), 0.3, drive)
    np.testing.assert_allclose(image, found.state, rtol=0, atol=exact)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("build", [ReferenceBackend, TorchBackend])
def test_it_takes_the_steps_of_the_other_backends(build: Callable[..., Backend]) -> None:
    params, x, y = _case()
    other = build(params.network, params)
    comparison = compare_steps(
        other, NumbaBackend(params.network, params), x, y, beta=0.2, steps=15
    )
    assert comparison.passed, comparison.first


@pytest.mark.usefixtures("known")
def test_its_gradient_is_the_implicit_one() -> None:
    params, x, y = _case()
    backend, way = NumbaBackend(params.network, params), Relaxation(2000, 1e-13)
    gradient = np.zeros(params.network.size)
    estimate(backend, backend.clamp(x, y), centered(1e-3), gradient, way, way)
    exact = implicit_gradient(params.network, params, x, y, way)
    np.testing.assert_allclose(gradient, exact, rtol=0, atol=1e-6 * np.abs(exact).max())
    assert np.abs(Params(params.network, exact)["G"]).max() > 1e-5  # or nothing was tested


@pytest.mark.usefixtures("known")
def test_golden_judges_it_and_it_trains_by_default_and_is_saved(tmp_path: Path) -> None:
    params, x, y = _case(np.float32)
    network = params.network
    assert all(m.passed for m in check_network(network, np.random.default_rng(2)))
    assert "G" in uncapped(network)
    backend = NumbaBackend(network, params)
    history = fit(backend, x, y, Training(epochs=20, batch_size=3))
    assert history[-1].cost < history[0].cost
    checkpoint.save(tmp_path / "gate.npz", backend.params)
    again, _, _ = checkpoint.load(tmp_path / "gate.npz")
    assert again.network == network
    np.testing.assert_array_equal(again.theta, backend.params.theta)


@pytest.mark.usefixtures("known")
def test_what_has_no_model_of_it_says_so() -> None:
    params, _, _ = _case()
    with pytest.raises(EngineError, match=r"coupling 'G' \(Gate\) has no model in hw_sim"):
        DigitalBackend(params.network, params)


def test_it_is_counted_by_what_it_says_it_costs() -> None:
    counts = dict(dense_counts(_network(), 3, 7, 5, 2))  # samples, evaluations, phases
    plain = [c for c in _network().couplings if c.name != "G"]
    without = replace(_network(), couplings=tuple(plain))
    base = dict(dense_counts(without, 3, 7, 5, 2))
    extra = {key: n - base.get(key, 0) for key, n in counts.items() if n != base.get(key, 0)}
    assert sum(n for (phase, _, _), n in extra.items() if phase == "free") == 7 * 4 * 6
    assert sum(n for (phase, _, _), n in extra.items() if phase == "nudged") == 5 * 4 * 6
    assert sum(n for (phase, _, _), n in extra.items() if phase == "learn") == 3 * 2 * 2 * 6


@pytest.mark.usefixtures("known")
def test_a_subclass_is_not_taken_for_what_is_registered(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Louder(Gate):
        def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
            low, high = super().drive(w, x, *states)
            return 2 * low, 2 * high

    plain = _network()
    gates = tuple(Louder("G", "low", "high") if c.name == "G" else c for c in plain.couplings)
    network = Network(plain.inputs, plain.layers, gates, plain.readout)
    params = initial_params(network, np.random.default_rng(0))
    with pytest.raises(EngineError, match=r"coupling 'G' \(Louder\) has no compiled kernel"):
        NumbaBackend(network, params)
    reference = ReferenceBackend(network, params)
    with pytest.raises(EngineError, match=r"does not know coupling 'G' \(Louder\)"):
        reference.settle(reference.clamp(np.zeros((1, 4))))
    with pytest.raises(CheckpointError, match="cannot hold a Louder"):
        checkpoint.save(tmp_path / "louder.npz", params)


def test_what_makes_no_sense_is_not_registered() -> None:
    with pytest.raises(EngineError, match="register: kind is 3, expected"):
        register(3, KERNELS)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="register: kernels is None, expected"):
        register(Gate, None)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="is no dataclass"):
        checkpoint.register(str)
    stranger = dataclass(type("Attention", (), {}))
    with pytest.raises(CheckpointError, match="another class is known to files as 'Attention'"):
        checkpoint.register(stranger)
    assert kernels_of(Attention("a", "t")) is not None
