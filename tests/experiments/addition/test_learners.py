import numpy as np
import pytest

from adapters.torch_arrays import torch
from experiments.addition.config import ModelConfig, TrainConfig
from experiments.addition.data import encode, prompts
from experiments.addition.learners import CompiledLearner, StackLearner, adamw, make_learner
from experiments.addition.parameters import start_values
from tests.experiments.addition.addition_cases import PUBLISHED, random_pairs

TRAIN = TrainConfig(train_steps=100, warmup_steps=5, weight_decay=0.1, grad_clip=0.5)
FROZEN = ModelConfig(d_model=6, d_ff=8, ffn_rank=2, qkv_rank=2, frozen_residual=1.0)


@pytest.mark.parametrize("scale", [0.01, 10.0])  # below and above the norm that is clipped
def test_adamw_is_that_of_torch(scale):
    rng = np.random.default_rng(0)
    flat, moments = rng.standard_normal((1, 9)), np.zeros((2, 1, 9))
    leaf = torch.tensor(flat[0], requires_grad=True)
    optimizer = torch.optim.AdamW([leaf], weight_decay=TRAIN.weight_decay)
    for step in range(20):
        gradient = scale * rng.standard_normal((1, 9))
        leaf.grad = torch.tensor(gradient[0])
        torch.nn.utils.clip_grad_norm_([leaf], TRAIN.grad_clip)
        optimizer.param_groups[0]["lr"] = TRAIN.rate(step)
        optimizer.step()
        adamw(flat, gradient, moments, step, TRAIN)
        np.testing.assert_allclose(flat[0], leaf.detach().numpy(), rtol=1e-9)


def stack(model, seeds):
    starts = [start_values(model, TrainConfig(seed=seed)) for seed in seeds]
    flat = np.stack([start for start, _ in starts])
    moments = np.zeros((2, *flat.shape), np.float32)
    return flat, [frozen for _, frozen in starts], moments


def batches(seeds, step, count=40):
    return np.stack([encode(random_pairs(count, 1000 * seed + step)) for seed in seeds])


@pytest.mark.parametrize("model", [PUBLISHED, FROZEN], ids=["published", "frozen"])
def test_the_torch_stack_learns_what_the_kernels_learn(model):
    seeds = (1, 2)
    held = stack(model, seeds)
    learners = CompiledLearner(model, TRAIN, *held), StackLearner(model, TRAIN, *held, "cpu")
    for step in range(4):
        rows = batches(seeds, step)
        first, second = (learner.learn(rows, step) for learner in learners)
        np.testing.assert_allclose(first, second, rtol=2e-5)
    (flat, _), (other, _) = (learner.state() for learner in learners)
    # As a whole: Adam turns the rounding of a slope that is all but zero into a whole step.
    assert np.linalg.norm(flat - other) < 0.02 * np.linalg.norm(flat - held[0])
    asked = np.stack([prompts(random_pairs(30, seed)) for seed in seeds])
    answers = [learner.answer(asked) for learner in learners]
    assert answers[0].shape == (2, 30, 12)
    assert (answers[0] == answers[1]).mean() > 0.98


def test_a_stack_clips_and_learns_each_seed_by_itself():
    held = stack(PUBLISHED, (1, 2))
    both = StackLearner(PUBLISHED, TRAIN, *held, "cpu")
    alone = StackLearner(PUBLISHED, TRAIN, held[0][1:], held[1][1:], held[2][:, 1:], "cpu")
    for step in range(3):
        rows = batches((1, 2), step)
        both.learn(rows, step)
        alone.learn(rows[1:], step)
    np.testing.assert_allclose(both.state()[0][1], alone.state()[0][0], rtol=1e-3, atol=1e-5)


def test_learning_lowers_the_loss():
    held = stack(PUBLISHED, (5,))
    learner = CompiledLearner(PUBLISHED, TRAIN, *held)
    losses = [learner.learn(batches((5,), step, 128), step)[0] for step in range(60)]
    assert losses[0] == pytest.approx(np.log(14), abs=0.2)  # it starts by guessing
    assert np.mean(losses[-5:]) < 0.9 * losses[0]


def test_a_learner_does_not_change_what_it_was_given():
    held = stack(PUBLISHED, (5,))
    before = held[0].copy()
    learner = make_learner(PUBLISHED, TRAIN, *held, "cpu")
    learner.learn(batches((5,), 0), 0)
    assert np.array_equal(held[0], before)
    assert not np.array_equal(learner.state()[0], before)


def test_a_model_beyond_the_kernels_trains_on_torch():
    model = ModelConfig(d_model=4, d_ff=4, n_layer=2)
    assert isinstance(make_learner(model, TRAIN, *stack(model, (1,)), "cpu"), StackLearner)
    assert isinstance(make_learner(FROZEN, TRAIN, *stack(FROZEN, (1,)), "cpu"), CompiledLearner)
