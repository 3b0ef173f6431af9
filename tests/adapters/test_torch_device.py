"""Training on torch stays on the device: what is read from it, when, and what is answered."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from adapters import torch_phase
from adapters.torch_backend import TorchBackend
from adapters.torch_solvers import Pace
from engine.compiled.backend import NumbaBackend
from engine.couplings.readout import SquaredError
from engine.equilibrium import Relaxation
from engine.errors import DivergenceError, EngineError
from engine.learning.estimator import centered, estimate
from engine.learning.optimizer import SGD, Adam, Optimizer
from engine.learning.run import Run
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training, fit, train_step
from engine.model.builders import energy_transformer, layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import initial_params

LOOPED = looped_mlp(4, 8, 3)
NETWORKS = {
    "looped": LOOPED,
    "layered": layered((4, 6, 5, 3)),
    "squared": layered((4, 6, 3), "hard_sigmoid", "squared_error"),
    "transformer": energy_transformer(5, 3, width=6, memories=2, causal=True),
}
NEVER = 1000
"""More steps than any relaxation has: the loop asks nothing."""
META = torch.device("meta")
READING = ("_local_scalar_dense", "item", "is_nonzero", "nonzero", "masked_select", "equal")


class Reads(TorchDispatchMode):
    """Counts the operations that bring a number from the device, or wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        with self:  # an operation that is made of others is seen as those
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        name = func._schema.name.removeprefix("aten::")
        chosen = args[1] if name in ("index", "index_put", "index_put_") else ()
        if name in READING or any(part is not None and part.dtype == torch.bool for part in chosen):
            self.found[name] += 1
        result = func(*args, **kwargs)
        devices = {part.device for part in (*args, result) if isinstance(part, torch.Tensor)}
        if name in ("_to_copy", "copy_") and len(devices) > 1:
            self.found[name] += 1
        return result


@contextmanager
def watched() -> Iterator[Counter[str]]:
    """Count all reads, those that are no operation of torch too."""
    reads = Reads()
    with pytest.MonkeyPatch.context() as patch, reads:
        for name in ("numpy", "__array__", "tolist", "cpu"):
            plain: Callable[..., Any] = getattr(torch.Tensor, name)

            def counted(
                *args: Any, _name: str = name, _plain: Callable[..., Any] = plain, **named: Any
            ) -> Any:
                reads.found[_name] += 1
                return _plain(*args, **named)

            patch.setattr(torch.Tensor, name, counted)
        yield reads.found


def build(network: Network = LOOPED, dtype: type = np.float64, **options: Any) -> TorchBackend:
    return TorchBackend(
        network, initial_params(network, np.random.default_rng(3), dtype), **options
    )


def data(network: Network, samples: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(samples, network.inputs))
    if network.vocabulary is not None:
        x = rng.integers(network.vocabulary, size=x.shape).astype(float)
    classes = network.outputs // (3 if network.vocabulary else 1)
    y = np.eye(classes)[rng.integers(classes, size=samples * network.outputs // classes)]
    return x, y.reshape(samples, -1)


def settings(network: Network, **changes: Any) -> Training:
    block = network.couplings[0].name
    decay = {"W_out": 0.1} if "W_out" in network.blocks else {}
    cap = SpectralCap(0.9, every=50, partial=True)
    return Training(beta=0.1, cap=cap, frozen=(block,), decay=decay, **changes)


def started(backend: TorchBackend, training: Training) -> Run:
    run = Run.start(backend.network, training.optimizer.moments, backend.dtype, 0)
    return run.on(backend)


WAYS = [
    *(("fixed_point", 1.0, name) for name in NETWORKS),
    ("fixed_point", 0.5, "transformer"),
    ("alternating", 1.0, "layered"),
    ("anderson", 1.0, "looped"),
]


@pytest.mark.parametrize(("solver", "damping", "name"), WAYS)
@pytest.mark.parametrize("optimizer", [Adam(), SGD(0.1, 0.9)], ids=["adam", "sgd"])
def test_a_training_step_reads_nothing(
    solver: Any, damping: float, name: str, optimizer: Optimizer
) -> None:
    network, way = NETWORKS[name], Relaxation(6, 1e-3, solver, damping)
    backend = build(network, device="cpu", check_every=NEVER)
    training = settings(network, free=way, nudged=way, optimizer=optimizer)
    x, y = map(backend.own, data(network))
    run, before = started(backend, training), backend.params
    train_step(backend, x, y, training, run, 10)  # its cap is exact, which is done in numpy
    with watched() as reads:
        train_step(backend, x, y, training, run, 10)
    assert not reads
    assert (backend.params.theta != before.theta).mean() > 0.5


def test_the_watch_sees_a_read_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, training = build(device="cpu", check_every=NEVER), settings(LOOPED)
    x, y = map(backend.own, data(LOOPED))
    run = started(backend, training)
    train_step(backend, x, y, training, run, 10)
    image: Callable[..., torch.Tensor] = torch_phase.Phase.image
    reads_of = (lambda s: s.item(), float, bool, lambda s: s.numpy(), lambda s: s.tolist())
    for read in (*reads_of, np.asarray, lambda s: s.nonzero(), lambda s: s[None][s[None] > 0]):

        def reading(phase: Any, state: torch.Tensor, still: bool, read: Any = read) -> torch.Tensor:
            read(state.sum())
            return image(phase, state, still)

        monkeypatch.setattr(torch_phase.Phase, "image", reading)
        with watched() as reads:
            train_step(backend, x, y, training, run, 10)
        assert sum(reads.values()) >= training.settled.max_steps


@pytest.mark.parametrize(("solver", "damping", "name"), WAYS)
def test_a_training_step_runs_on_a_device_without_values(
    solver: Any, damping: float, name: str
) -> None:
    """Tensors of `meta` have shapes and no values: to read one, or to mix it with one of the CPU,
    is an error. So a step that passes reads nothing and leaves nothing behind on the CPU."""
    network, way = NETWORKS[name], Relaxation(6, 1e-3, solver, damping)
    backend = build(network, np.float32, device="cpu", check_every=NEVER)
    training = settings(network, free=way, nudged=way)
    x, y = (backend.own(part).to(META) for part in data(network))
    params, backend.device = backend.params, META
    backend.load(params)
    run = started(backend, training)
    run.step = 1
    report = train_step(backend, x, y, training, run, 10)
    assert {run.gradient.device, run.memory.device, report.cost.device} == {META}
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        backend.check_finite()


@pytest.mark.parametrize("beta", [0.1, "auto"])
def test_the_reads_of_an_epoch_do_not_grow_with_its_batches(beta: Any) -> None:
    x, y = data(LOOPED, 64)
    rates = np.full(LOOPED.blocks["W_in"].shape, 0.1)
    found = []
    for batch_size in (32, 8):
        training = replace(
            settings(LOOPED), epochs=2, batch_size=batch_size, beta=beta, decay={"W_in": rates}
        )
        with watched() as reads:
            fit(build(device="cpu", check_every=NEVER), x, y, training)
        found.append(sum(reads.values()))
    assert 0 < found[0] == found[1]


@pytest.mark.parametrize("every", [1, 2, 3, 7, NEVER])
@pytest.mark.parametrize("gathers", [True, False])
def test_a_relaxation_asks_as_often_as_it_is_told(every: int, gathers: bool) -> None:
    backend = build(device="cpu")
    backend.pace = Pace(every, gathers)
    batch = backend.clamp(backend.own(data(LOOPED)[0]))
    with watched() as reads:
        backend.settle(batch, relaxation=Relaxation(20, 0.0))
    assert sum(reads.values()) == 19 // every


@pytest.mark.parametrize("every", [0, -1])
def test_a_pace_that_never_comes_is_refused(every: int) -> None:
    with pytest.raises(EngineError, match=f"check_every is {every}"):
        build(device="cpu", check_every=every)


@pytest.mark.parametrize(("solver", "damping", "name"), WAYS)
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_no_answer_depends_on_the_pace(solver: Any, damping: float, name: str, beta: float) -> None:
    network = NETWORKS[name]
    backend = build(network, device="cpu")
    x, y = data(network, 20)
    way, batch = Relaxation(60, 1e-5, solver, damping), backend.clamp(x, y)
    found = []
    for pace in (Pace(1), Pace(1, False), Pace(3), Pace(4, False), Pace(NEVER)):
        backend.pace = pace
        start = backend.own(0.3 * np.ones((20, network.units)))
        kept = start.clone()
        found.append(backend.settle(batch, beta, way, start))
        assert (start == kept).all()
    expected = found[0]
    assert len(set(expected.steps)) > 1
    for other in found[1:]:
        np.testing.assert_array_equal(other.steps, expected.steps)
        np.testing.assert_array_equal(other.converged, expected.converged)
        np.testing.assert_allclose(other.state, expected.state, rtol=0, atol=1e-9)
        np.testing.assert_allclose(other.residual, expected.residual, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_backend_answers_in_the_arrays_it_is_asked_with(name: str) -> None:
    network, way = NETWORKS[name], Relaxation(50, 1e-9, damping=0.7)
    backend = build(network, device="cpu")
    answers = []
    for move, kind in ((np.asarray, np.ndarray), (backend.own, torch.Tensor)):
        x, y = map(move, data(network))
        batch, gradient = backend.clamp(x, y), move(np.zeros(network.size))
        free, up, down = backend.relax(batch, (((0.0,), way), ((0.1, -0.1), way)))
        costs = backend.accumulate(batch, free, gradient, cost=0.5)
        assert backend.accumulate(batch, up.against(down), gradient, energy=2.0) is None
        again = move(np.ones(network.size))
        report = estimate(backend, batch, centered(0.1), again, way)
        answer = [free.state, free.steps, free.residual, free.converged, up.state, costs, gradient]
        answer += [backend.cost(batch, up), backend.predict(free), again]
        assert {type(part) for part in answer} == {kind}
        numbers = [report.cost, report.free_steps, report.nudged_steps, report.unsettled]
        answers.append([*map(np.asarray, answer), *map(float, numbers)])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-7 * isinstance(one, float), atol=1e-12)


def test_weights_count_for_own_arrays_too() -> None:
    backend = build(device="cpu")
    (x, y), weights = data(LOOPED), np.arange(12.0) % 3
    found = []
    for move in (np.asarray, backend.own):
        batch, gradient = backend.clamp(move(x), move(y), weights), move(np.zeros(LOOPED.size))
        report = estimate(backend, batch, centered(0.1), gradient, Relaxation(50, 1e-9))
        found.append((np.asarray(gradient), float(report.cost)))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=0, atol=1e-12)
    assert abs(found[1][1] - found[0][1]) < 1e-12


def test_own_arrays_of_another_kind_are_refused_by_name() -> None:
    backend = build(device="cpu")
    x, y = map(backend.own, data(LOOPED))
    batch, size = backend.clamp(x, y), LOOPED.size
    settled = backend.settle(batch)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: backend.clamp(x.float()), "x is torch.float32 on cpu, expected torch.float64"),
        (lambda: backend.clamp(x.to(META)), "x is torch.float64 on meta, expected .* on cpu"),
        (lambda: backend.clamp(x[:, :3]), r"x has shape \(12, 3\), expected \(12, 4\)"),
        (lambda: backend.clamp(x[:0]), "x holds no samples"),
        (lambda: backend.clamp(x[0, 0]), r"x has shape \(\), expected \(0, 4\)"),
        (lambda: backend.clamp(x.T.contiguous().T), "x is not a whole, contiguous Tensor"),
        (lambda: backend.clamp(x, y.numpy()), "y is a ndarray, expected a Tensor"),
        (lambda: backend.clamp(x, y[:3]), "y has 3 samples, x has 12"),
        (lambda: backend.settle(batch, start=x), r"start has shape \(12, 4\), expected \(12, 8\)"),
        (lambda: backend.apply(torch.zeros(size)), "update is torch.float32 on cpu"),
        (lambda: backend.check_gradient(torch.zeros(3)), r"gradient has shape \(3,\)"),
        (
            lambda: backend.accumulate(batch, settled, settled.state.view(-1)[:size], cost=1.0),
            "gradient (has shape|shares memory with a state)",
        ),
    ]
    for call, message in calls:
        with pytest.raises(EngineError, match=message):
            call()


def test_a_gradient_apart_from_what_is_read() -> None:
    backend = build(device="cpu")
    x, y = map(backend.own, data(LOOPED, 100))
    batch = backend.clamp(x, y)
    with pytest.raises(EngineError, match="gradient shares memory with x"):
        backend.accumulate(batch, backend.settle(batch), x.view(-1)[: LOOPED.size], cost=1.0)


def diverging() -> TorchBackend:
    """A network in which samples of a positive input meet infinity minus infinity."""
    network = layered((1, 1, 3, 2))
    params = initial_params(network, np.random.default_rng(0), np.float64)
    params["W_1"][...], params["W_2"][...], params["b_2"][...] = -1e200, 1e308, 1.2e308
    return TorchBackend(network, params, "cpu")


def test_a_divergence_in_own_arrays_is_told_when_asked_in_the_same_words() -> None:
    backend = diverging()
    x, y, start = [[-1.0], [1e200]], np.eye(2), [[-1.0, 0.0, 0.0, 0.0]] * 2
    plan = (((0.1, -0.3), Relaxation(4, 1e-3, "alternating")),)
    with pytest.raises(DivergenceError) as told:
        backend.relax(backend.clamp(x, y), plan, start)
    own = backend.clamp(backend.own(np.array(x)), backend.own(y))
    before = backend.params.theta
    backend.relax(own, plan, backend.own(np.array(start)))
    backend.apply(backend.own(np.ones(len(before))))
    np.testing.assert_array_equal(backend.params.theta, before)  # from the fault on, no update
    with pytest.raises(DivergenceError) as later:
        backend.check_finite()
    assert str(later.value) == str(told.value)
    assert "sample 1 " in str(told.value)
    backend.check_finite()  # told once
    backend.apply(backend.own(np.ones(len(before))))
    assert (backend.params.theta != before).any()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e308])
def test_an_update_beyond_all_bounds_is_not_applied(wrong: float) -> None:
    backend = build(device="cpu")
    backend.apply(np.full(LOOPED.size, 1e308))
    before, update = backend.params.theta, np.zeros(LOOPED.size)
    update[5] = wrong
    backend.apply(backend.own(update))
    np.testing.assert_array_equal(backend.params.theta, before)
    with pytest.raises(DivergenceError, match="a parameter overflow; nothing was applied"):
        backend.check_finite()
    if np.isfinite(wrong):
        with pytest.raises(DivergenceError, match="a parameter overflow; nothing was applied"):
            backend.apply(update)
        np.testing.assert_array_equal(backend.params.theta, before)


def test_a_training_that_diverges_says_so_at_the_end_of_the_epoch() -> None:
    backend, (x, y) = build(dtype=np.float32, device="cpu"), data(LOOPED)
    training = Training(epochs=3, optimizer=SGD(1e38), beta=0.1, batch_size=4, cap=None)
    seen: list[object] = []
    with pytest.raises(DivergenceError):
        fit(backend, x, y, training, on_epoch=seen.append)
    assert len(seen) < 3
    assert np.isfinite(backend.params.theta).all()


@pytest.mark.parametrize("name", ["looped", "layered", "squared"])
def test_training_is_that_of_the_compiled_backend(name: str) -> None:
    network = NETWORKS[name]
    x, y = data(network, 40)
    training = replace(settings(network), epochs=3, batch_size=8)
    training = replace(training, free=Relaxation(200, 1e-12), nudged=Relaxation(200, 1e-12))
    trained = []
    for make in (NumbaBackend, TorchBackend):
        backend = make(network, initial_params(network, np.random.default_rng(3), np.float64))
        history = fit(backend, x, y, training, validation=(x, y))
        trained.append((backend.params.theta, history[-1]))
    (theta, epoch), (other, last) = trained
    np.testing.assert_allclose(other, theta, rtol=0, atol=1e-7)
    assert abs(epoch.cost - last.cost) < 1e-7
    assert abs(epoch.valid_cost - last.valid_cost) < 1e-7
    assert epoch.valid_accuracy == last.valid_accuracy
    assert epoch.unsettled == last.unsettled == 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_resumed_training_ends_with_the_same_bits(dtype: type, tmp_path: Path) -> None:
    x, y = data(LOOPED, 40)
    training = replace(settings(LOOPED), epochs=4, batch_size=8, cap=SpectralCap(0.3, every=50))

    def interrupt(epoch: Any) -> None:
        if epoch.number == 2:
            raise KeyboardInterrupt

    whole, broken, resumed = (build(dtype=dtype, device="cpu") for _ in range(3))
    fit(whole, x, y, training)
    path = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        fit(broken, x, y, training, checkpoint=path, on_epoch=interrupt)
    fit(resumed, x, y, training, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.params.theta, whole.params.theta)


def test_a_run_comes_back_from_a_backend_as_it_went() -> None:
    backend, rng = build(dtype=np.float32, device="cpu"), np.random.default_rng(0)
    run = Run.start(LOOPED, 2, np.float32, 0)
    run.memory[...] = rng.standard_normal(run.memory.shape)
    back = run.on(backend).off(backend)
    np.testing.assert_array_equal(back.memory, run.memory)
    assert back.vectors.keys() == run.vectors.keys()
    for name, vector in run.vectors.items():
        assert back.vectors[name].dtype == vector.dtype
        np.testing.assert_allclose(back.vectors[name], vector, rtol=1e-7)
    assert back.history is run.history


def test_a_network_without_parameters_has_nothing_to_read() -> None:
    network = Network(2, (Layer("a", (3,)),), (), SquaredError("a"))
    backend = build(network, device="cpu")
    found = backend.settle(backend.clamp(backend.own(np.ones((4, 2)))))
    assert not backend.host(found.state).any()
    for update in (np.empty(0), backend.own(np.empty(0))):
        backend.apply(update)
    backend.check_finite()


def test_an_automatic_beta_is_that_of_the_beginning_of_the_epoch() -> None:
    backend, (x, y) = build(device="cpu"), data(LOOPED, 40)
    asked: list[float] = []
    relax = backend.relax

    def recorded(clamped: Any, plan: Any, start: Any = None) -> Any:
        asked.extend(abs(beta) for betas, _ in plan for beta in betas if beta != 0.0)
        return relax(clamped, plan, start)

    backend.relax = recorded  # type: ignore[method-assign]
    states = Relaxation(15, displaced=False)
    fit(backend, x, y, Training(epochs=3, batch_size=8, nudged=states, optimizer=SGD(2.0)))
    betas = np.reshape(asked, (3, -1))
    assert (betas == betas[:, :1]).all()
    assert len(set(betas[:, 0])) > 1
