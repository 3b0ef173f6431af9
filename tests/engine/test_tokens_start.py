"""Where the tables of tokens and positions start."""

import numpy as np
import pytest

from engine.errors import EngineError
from engine.tokens import Embedding, Position, TokenReadout, by_token, width_of


def test_tables_start_at_random_around_their_middle() -> None:
    rng = np.random.default_rng(0)
    table = Embedding("Emb", "tokens", 300, spread=0.25).initial(rng, (300, 200))
    places = Position("Pos", "tokens", 0.75, spread=2.0).initial(rng, (60_000,))
    np.testing.assert_allclose((table.mean(), table.std()), (0.0, 0.25), atol=0.005)
    np.testing.assert_allclose((places.mean(), places.std()), (0.75, 2.0), atol=0.04)
    assert (Embedding("Emb", "t", 3).spread, Position("Pos", "t").spread) == (0.5, 0.5)
    assert Position("Pos", "t").start == 0.0


def test_a_readout_starts_as_that_of_one_token() -> None:
    blocks = TokenReadout("tokens", 3, 200).initial(np.random.default_rng(1), 3 * 400)
    assert blocks["W_out"].shape == (400, 200)
    np.testing.assert_allclose(blocks["W_out"].std(), 0.5 / 20, rtol=0.02)


@pytest.mark.parametrize(("size", "tokens"), [(7, 3), (2, 3), (0, 1)])
def test_tokens_have_whole_widths_of_at_least_one(size: int, tokens: int) -> None:
    with pytest.raises(EngineError, match=f"it reads {tokens} tokens, but its layer has {size}"):
        width_of("it", size, tokens)
    assert width_of("it", 6, 3) == 2


def test_a_layer_is_seen_token_by_token() -> None:
    s = np.arange(12.0).reshape(2, 6)
    np.testing.assert_array_equal(by_token(s, 3)[1], [[6, 7], [8, 9], [10, 11]])
    assert np.shares_memory(by_token(s, 3), s)


def test_counts_are_whole_numbers_above_zero() -> None:
    with pytest.raises(EngineError, match="vocabulary is 0"):
        Embedding("Emb", "tokens", 0)
    with pytest.raises(EngineError, match="tokens is 0"):
        TokenReadout("tokens", 0, 2)
