"""Weights start so that a unit of order one drives the next by the gain, whatever the sizes."""

import numpy as np
import pytest

from engine.couplings.attention import Attention, Hopfield
from engine.errors import EngineError

WIDTHS = (16, 64, 400)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("head_size", [3, 50])
def test_queries_and_keys_of_a_state_of_order_one_are_of_order_one(
    width: int, head_size: int
) -> None:
    attention = Attention("a", "tokens", 4, head_size)
    block = attention.initial(np.random.default_rng(0), {"tokens": (2, width)})
    heads = attention.split(block, tokens=2)
    state = np.random.default_rng(1).standard_normal(width)
    for projected in (heads.query @ state, heads.key @ state):
        size = np.sqrt((projected**2).mean()) / np.linalg.norm(state) * np.sqrt(width)
        assert size == pytest.approx(attention.gain, rel=0.6)
    assert not heads.bias.any()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_state_of_order_one_fits_a_memory_to_order_one(width: int) -> None:
    memory = Hopfield("m", "tokens", 100)
    block = memory.initial(np.random.default_rng(0), {"tokens": (2, width)})
    fits = block @ np.random.default_rng(1).standard_normal(width)
    assert np.sqrt((fits**2).mean()) == pytest.approx(memory.gain, rel=0.5)


@pytest.mark.parametrize("sharpness", [0.0, -1.0, np.nan, np.inf])
def test_a_memory_needs_a_positive_sharpness(sharpness: float) -> None:
    with pytest.raises(EngineError, match="expected a positive number"):
        Hopfield("m", "tokens", 3, sharpness)
