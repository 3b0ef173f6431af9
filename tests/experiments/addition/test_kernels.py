"""The compiled pass against scipy, against autograd, and against the torch model's answers."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from adapters.torch_arrays import torch
from experiments.addition import transformer
from experiments.addition.config import ModelConfig
from experiments.addition.data import encode, prompts
from experiments.addition.fast_model import FastModel, in_lanes, runs_compiled
from experiments.addition.kernels import LANES, exp, normal
from tests.experiments.addition.addition_cases import (
    PUBLISHED,
    all_models,
    name_of,
    random_model,
    random_pairs,
    tensors,
)

FLOAT32 = float(np.finfo(np.float32).eps)


@njit
def exp_of(x):
    return np.array([exp(v) for v in x])


@njit
def normal_of(x):
    return np.array([normal(v)[0] for v in x]), np.array([normal(v)[1] for v in x])


def test_exp_is_right_to_the_rounding_of_float32():
    x = np.linspace(-86, 20, 20_001).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(exp_of(x) / exact - 1).max() < 3 * FLOAT32
    assert np.abs(exp_of(x.astype(np.float64)) / exact - 1).max() < 1e-7


def test_exp_ends_at_the_smallest_normal_number():
    low = exp_of(np.array([-87.0, -1e3, -1e30], np.float32))
    assert (low == low[0]).all()
    assert 0 < low[0] < 2e-38


def test_the_normal_distribution_is_right_to_the_rounding_of_float32():
    x = np.linspace(-12, 12, 20_001)
    for dtype, bound in ((np.float32, 1.5 * FLOAT32), (np.float64, 6e-8)):
        below, density = normal_of(x.astype(dtype))
        assert np.abs(below - stats.norm.cdf(x.astype(dtype))).max() < bound
        assert np.abs(density - stats.norm.pdf(x.astype(dtype))).max() < bound


def autograd(model, flat, frozen, rows):
    leaf = torch.from_numpy(flat.copy()).requires_grad_()
    loss = transformer.loss(model, tensors(model, leaf, frozen), torch.from_numpy(rows))
    loss.backward()
    return loss.item(), leaf.grad.numpy()


@pytest.mark.parametrize("model", all_models(), ids=name_of)
def test_loss_and_gradient_are_those_of_autograd(model):
    flat, frozen = random_model(model, seed=1)
    rows = encode(random_pairs(LANES + 3))  # the second group of lanes is nearly empty
    loss, gradient = FastModel(model, frozen).loss_and_gradient(flat, rows)
    expected_loss, expected = autograd(model, flat, frozen, rows)
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    for name, block in FastModel(model, frozen).layout.views(expected).items():
        assert np.abs(block).max() > 0, f"{name} is not exercised"


@pytest.mark.parametrize("rms", [True, False])
def test_float32_is_as_near_as_its_rounding_allows(rms):
    model = ModelConfig(d_model=8, d_ff=28, ffn_rank=3, frozen_residual=1.0, use_rmsnorm=rms)
    flat, frozen = random_model(model, seed=2, dtype=np.float32)
    rows = encode(random_pairs(200))
    loss, gradient = FastModel(model, frozen).loss_and_gradient(flat, rows)
    assert gradient.dtype == np.float32
    wide = {name: block.astype(np.float64) for name, block in frozen.items()}
    expected_loss, expected = autograd(model, flat.astype(np.float64), wide, rows)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=3e-5 * np.abs(expected).max())


@pytest.mark.parametrize("model", [PUBLISHED, *all_models()[::5]], ids=name_of)
def test_answers_are_those_of_the_torch_model(model):
    flat, frozen = random_model(model, seed=3)
    flat *= 3  # so that the model has opinions
    asked = prompts(random_pairs(LANES + 5))
    expected = transformer.answer(model, tensors(model, flat, frozen), torch.from_numpy(asked))
    assert np.array_equal(FastModel(model, frozen).answer(flat, asked), expected.numpy())
    assert len(np.unique(expected.numpy())) > 1  # the model does not repeat one token


def test_a_row_does_not_depend_on_its_lane_or_its_neighbours():
    flat, frozen = random_model(PUBLISHED, dtype=np.float32)
    model, asked = FastModel(PUBLISHED, frozen), prompts(random_pairs(LANES + 7))
    together = model.answer(flat, asked)
    assert np.array_equal(model.answer(flat, asked[::-1])[::-1], together)
    assert np.array_equal(model.answer(flat, asked[5:6]), together[5:6])


def test_lanes_hold_the_rows_and_fill_up_with_the_last():
    rows = np.arange(3 * (LANES + 1)).reshape(-1, 3)
    lanes = in_lanes(rows)
    assert lanes.shape == (2, 3, LANES)
    back = lanes.transpose(0, 2, 1).reshape(-1, 3)
    assert np.array_equal(back[: len(rows)], rows)
    assert (back[len(rows) :] == rows[-1]).all()


def test_the_kernels_know_one_layer_and_one_head():
    assert runs_compiled(PUBLISHED)
    assert not runs_compiled(ModelConfig(n_layer=2))
    assert not runs_compiled(ModelConfig(d_model=8, n_head=2))
