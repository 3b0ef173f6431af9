"""Where attention and memories start, what they hold, and what they refuse."""

import re

import numpy as np
import pytest

from engine.couplings.attention import Attention, Hopfield
from engine.errors import EngineError
from engine.model.network import Layer


def test_queries_and_keys_start_small_and_attention_even() -> None:
    attention = Attention("a", "t", heads=4, head_size=50, gain=0.3)
    shapes = {"t": (3, 400)}
    (size,) = attention.shape(shapes)
    assert size == 2 * 4 * 50 * 400 + 4 * 9
    block = attention.initial(np.random.default_rng(0), shapes)
    assert block.shape == (size,)
    heads = attention.split(block, tokens=3)
    assert heads.query.shape == heads.key.shape == (4, 50, 400)
    assert heads.bias.shape == (4, 3, 3)
    for matrix in (heads.query, heads.key):
        np.testing.assert_allclose(matrix.std(), 0.3 / 20, rtol=0.02)
        assert abs(matrix.mean()) < 1e-3
    assert not heads.bias.any()
    np.testing.assert_array_equal(heads.query.ravel()[:5] == heads.key.ravel()[:5], False)


def test_a_split_is_a_view_of_the_block_in_its_order() -> None:
    attention = Attention("a", "t", heads=3, head_size=2)
    block = np.arange(attention.shape({"t": (2, 5)})[0], dtype=float)
    heads = attention.split(block, tokens=2)
    np.testing.assert_array_equal(np.concatenate([part.ravel() for part in heads]), block)
    assert heads.query.shape == (3, 2, 5)
    heads.bias[...] = 7.0
    assert (block[-12:] == 7.0).all()


@pytest.mark.parametrize(
    ("causal", "itself", "expected"),
    [
        (False, False, [[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
        (False, True, [[1, 1, 1], [1, 1, 1], [1, 1, 1]]),
        (True, False, [[0, 0, 0], [1, 0, 0], [1, 1, 0]]),
        (True, True, [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
    ],
)
def test_a_mask_says_who_sees_whom(causal: bool, itself: bool, expected: list[list[int]]) -> None:
    attention = Attention("a", "t", causal=causal, sees_itself=itself)
    np.testing.assert_array_equal(attention.allowed(3), expected)


def test_the_defaults_are_those_of_the_documents() -> None:
    attention, memory = Attention("a", "t"), Hopfield("m", "t", 5)
    assert (attention.heads, attention.head_size, attention.sharpness) == (2, 32, 1.0)
    assert (attention.sees_itself, attention.causal, attention.gain) == (False, False, 0.2)
    assert (memory.sharpness, memory.gain) == (1.0, 0.2)
    assert not attention.clamped
    assert not memory.clamped


def test_memories_start_small() -> None:
    memory, shapes = Hopfield("m", "t", memories=200, gain=0.3), {"t": (3, 400)}
    assert memory.shape(shapes) == (200, 400)
    start = memory.initial(np.random.default_rng(1), shapes)
    assert start.shape == (200, 400)
    np.testing.assert_allclose(start.std(), 0.3 / 20, rtol=0.02)
    assert abs(start.mean()) < 1e-3


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
def test_potentials_are_soft_maxima_of_their_scores(sharpness: float) -> None:
    """`max <= ln sum exp(l x) / l <= max + ln n / l`, and equal scores meet the upper end."""
    memory = Hopfield("m", "t", memories=4, sharpness=sharpness)
    w, s = np.random.default_rng(2).standard_normal((4, 3)), np.array([[[0.3, -0.8, 0.5]]])
    peak = (w @ s[0, 0]).max()
    phi = memory.potential(w, s, s)[0]
    assert peak < phi < peak + np.log(4) / sharpness
    np.testing.assert_allclose(memory.potential(0 * w, s, s), np.log(4) / sharpness, rtol=1e-14)
    attention = Attention("a", "t", heads=2, head_size=2, sharpness=sharpness)
    block, state = np.zeros(attention.shape({"t": (3, 2)})), np.ones((1, 3, 2))
    even = 2 * 3 * np.log(2) / sharpness  # each of two heads: three tokens that see two
    np.testing.assert_allclose(attention.potential(block, state, state), even, rtol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_large_scores_neither_overflow_nor_vanish(scale: float) -> None:
    memory = Hopfield("m", "t", memories=3)
    w, s = scale * np.eye(3), np.array([[[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]]])
    exact = [np.log(np.exp(v - v.max()).sum()) + v.max() for v in (w @ s[0, 0], w @ s[0, 1])]
    np.testing.assert_allclose(memory.potential(w, s, s), sum(exact), rtol=1e-13)
    (drive,) = memory.drive(w, s, s)
    assert np.isfinite(drive).all()


@pytest.mark.parametrize("sharpness", [0.0, -1.0, np.inf, np.nan])
def test_a_sharpness_is_a_positive_number(sharpness: float) -> None:
    message = f"sharpness is {sharpness}, expected a positive number"
    with pytest.raises(EngineError, match=message):
        Attention("a", "t", sharpness=sharpness)
    with pytest.raises(EngineError, match=message):
        Hopfield("m", "t", 2, sharpness=sharpness)


@pytest.mark.parametrize("field", ["heads", "head_size"])
def test_counts_of_heads_are_whole_numbers_above_zero(field: str) -> None:
    with pytest.raises(EngineError, match=f"{field} is 0"):
        Attention(**{"name": "a", "layer": "t", field: 0})
    with pytest.raises(EngineError, match=rf"{field} is 1\.5"):
        Attention(**{"name": "a", "layer": "t", field: 1.5})


def test_counts_of_memories_are_whole_numbers_above_zero() -> None:
    with pytest.raises(EngineError, match="memories is 0"):
        Hopfield("m", "t", 0)
    with pytest.raises(EngineError, match=r"memories is 1\.5"):
        Hopfield("m", "t", 1.5)


@pytest.mark.parametrize("shape", [(0, 2), (3, 0)])
def test_a_layer_of_no_tokens_or_of_no_width_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(EngineError, match="layer 't' has size 0"):
        Layer("t", shape)


def test_attention_that_sees_nothing_is_refused() -> None:
    with pytest.raises(EngineError, match="attention 'a' lets no token see another"):
        Attention("a", "t").shape({"t": (1, 4)})
    seeing = Attention("a", "t", heads=1, head_size=1, sees_itself=True)
    assert seeing.allowed(1).all()
    assert seeing.shape({"t": (1, 4)}) == (9,)


@pytest.mark.parametrize("shape", [(7,), (3, 2, 2)])
def test_a_layer_that_is_no_list_of_tokens_is_refused(shape: tuple[int, ...]) -> None:
    message = re.escape(f"reads tokens, but its layer has shape {shape}.")
    for coupling in (Attention("a", "t"), Hopfield("m", "t", 2)):
        with pytest.raises(EngineError, match=message):
            coupling.shape({"t": shape})
