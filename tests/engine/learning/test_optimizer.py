"""Optimizers against torch, and their locality."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.arrays import FloatArray
from engine.errors import EngineError
from engine.learning.optimizer import SGD, Adam, Optimizer, scheduled
from engine.learning.training import Training

OPTIMIZERS = [SGD(0.1), SGD(0.05, 0.9), Adam(), Adam(0.1, 0.5, 0.9, 1e-3)]


def _descend(optimizer: Optimizer, gradients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum the updates, and return the memory they leave."""
    total = np.zeros(gradients.shape[1], gradients.dtype)
    memory = np.zeros((optimizer.moments, gradients.shape[1]), gradients.dtype)
    for step, gradient in enumerate(gradients):
        total += optimizer.update(gradient.copy(), memory, step, optimizer.lr)
    return total, memory


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_twenty_random_steps_are_those_of_torch(optimizer: Optimizer) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    gradients = rng.standard_normal((20, 30)) * 10.0 ** rng.integers(-6, 3, (1, 30))
    weight = torch.zeros(30, dtype=torch.float64, requires_grad=True)
    if isinstance(optimizer, Adam):
        settings = {"betas": (optimizer.decay1, optimizer.decay2), "eps": optimizer.eps}
        judge = torch.optim.Adam([weight], optimizer.lr, **settings)
    else:
        judge = torch.optim.SGD([weight], optimizer.lr, optimizer.momentum)
    memory = np.zeros((optimizer.moments, 30))
    theta = np.zeros(30)
    for step, gradient in enumerate(gradients):
        weight.grad = torch.tensor(gradient)
        judge.step()
        theta += optimizer.update(gradient.copy(), memory, step, optimizer.lr)
        np.testing.assert_allclose(theta, weight.detach().numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@given(seed=st.integers(0, 99), moved=st.integers(0, 6))
def test_a_parameter_sees_only_its_own_gradient(
    optimizer: Optimizer, seed: int, moved: int
) -> None:
    gradients = np.random.default_rng(seed).standard_normal((10, 7))
    others = np.arange(7) != moved
    altered = gradients.copy()
    altered[:, moved] = np.random.default_rng(seed + 1).standard_normal(10)
    for plain, other in zip(
        _descend(optimizer, gradients), _descend(optimizer, altered), strict=True
    ):
        np.testing.assert_array_equal(plain[..., others], other[..., others])
        assert (plain[..., moved] != other[..., moved]).all()


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_an_update_is_written_over_the_gradient_in_its_precision(optimizer: Optimizer) -> None:
    gradient = np.ones(3, np.float32)
    memory = np.zeros((optimizer.moments, 3), np.float32)
    update = optimizer.update(gradient, memory, 0, optimizer.lr)
    assert update is gradient
    assert update.dtype == memory.dtype == np.float32
    assert (update < 0).all()


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_tensors_are_updated_as_arrays_are(optimizer: Optimizer) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    memory = np.zeros((optimizer.moments, 30))
    other = torch.zeros((optimizer.moments, 30), dtype=torch.float64)
    for step, gradient in enumerate(rng.standard_normal((6, 30))):
        tensor = torch.tensor(gradient)
        moved = optimizer.update(tensor, other, step, optimizer.lr)
        expected = optimizer.update(gradient, memory, step, optimizer.lr)
        assert moved.data_ptr() == tensor.data_ptr()
        np.testing.assert_allclose(moved.numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(other.numpy(), memory, rtol=1e-12)


@pytest.mark.parametrize("optimizer", [SGD(), Adam()], ids=repr)
def test_tensors_that_do_not_fit_are_refused(optimizer: Optimizer) -> None:
    torch = pytest.importorskip("torch")
    gradient, memory = torch.ones(3), torch.zeros((optimizer.moments, 3))
    wrong = [
        (gradient, memory[:, :2], "memory has shape"),
        (gradient, memory.double(), "memory is torch.float64 on cpu, expected torch.float32"),
        (gradient, memory.numpy(), "memory is a ndarray, expected a Tensor"),
        (gradient.numpy(), memory, "memory is a Tensor, expected a numpy array"),
        (torch.ones(6)[::2], memory, "gradient is not a whole, contiguous Tensor"),
        (memory[0], memory, "memory shares memory with gradient"),
        ([1.0], memory, "gradient is .*, expected a numpy array or a Tensor"),
    ]
    for first, second, message in wrong:
        with pytest.raises(EngineError, match=message):
            optimizer.update(first, second, 0, 0.1)
    assert not memory.any()


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_no_gradient_moves_nothing(optimizer: Optimizer) -> None:
    total, memory = _descend(optimizer, np.zeros((5, 4)))
    assert not total.any()
    assert not memory.any()


def test_a_constant_schedule_stays_and_a_cosine_falls_from_one_to_its_last() -> None:
    assert {scheduled("constant", step, 10) for step in range(12)} == {1.0}
    shares = [scheduled("cosine", step, 10) for step in range(14)]
    assert shares[0] == 1.0
    assert abs(shares[5] - 0.505) < 1e-12
    np.testing.assert_allclose(shares[10:], 0.01, rtol=1e-12)
    assert (np.diff(shares[:11]) < 0).all()
    assert abs(scheduled("cosine", 10, 10, last=0.2) - 0.2) < 1e-12
    assert scheduled("cosine", 0, 1) == scheduled("cosine", 0, 0) == 1.0
    assert abs(scheduled("cosine", 1, 1) - 0.01) < 1e-12


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (SGD, {"lr": 0.0}, "SGD has learning rate 0.0"),
        (SGD, {"lr": -1.0}, "SGD has learning rate -1.0"),
        (SGD, {"lr": np.nan}, "SGD has learning rate nan"),
        (SGD, {"lr": np.inf}, "SGD has learning rate inf"),
        (SGD, {"momentum": 1.0}, "SGD has momentum 1.0"),
        (SGD, {"momentum": -0.1}, "SGD has momentum -0.1"),
        (SGD, {"momentum": np.nan}, "SGD has momentum nan"),
        (Adam, {"lr": 0.0}, "Adam has learning rate 0.0"),
        (Adam, {"decay1": 1.0}, "Adam has decay1 1.0"),
        (Adam, {"decay2": -0.5}, "Adam has decay2 -0.5"),
        (Adam, {"eps": 0.0}, "Adam has eps 0.0"),
        (Adam, {"eps": np.nan}, "Adam has eps nan"),
        (Training, {"schedule": "step"}, "unknown schedule 'step'; known: constant, cosine"),
    ],
)
def test_settings_out_of_range_are_refused(make: type, settings: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        make(**settings)


def test_what_an_optimizer_is_without_settings() -> None:
    assert (SGD().lr, SGD().momentum, SGD.moments) == (0.1, 0.0, 1)
    assert (Adam().lr, Adam().decay1, Adam().decay2, Adam().eps) == (2e-3, 0.9, 0.999, 1e-8)
    assert Adam.moments == 2
