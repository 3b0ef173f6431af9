"""Where the tables of tokens and positions start."""

import re

import numpy as np
import pytest

from engine.couplings.tokens import Embedding, Position, TokenReadout, token_shape
from engine.errors import EngineError
from engine.model.network import Layer, Network


def test_tables_start_at_random_around_their_middle() -> None:
    rng = np.random.default_rng(0)
    shapes = {"input": (300,), "tokens": (300, 200)}
    table = Embedding("Emb", "tokens", 300, spread=0.25).initial(rng, shapes)
    places = Position("Pos", "tokens", 0.75, spread=2.0).initial(rng, shapes)
    assert (table.shape, places.shape) == ((300, 200), (60_000,))
    np.testing.assert_allclose((table.mean(), table.std()), (0.0, 0.25), atol=0.005)
    np.testing.assert_allclose((places.mean(), places.std()), (0.75, 2.0), atol=0.04)
    assert (Embedding("Emb", "t", 3).spread, Position("Pos", "t").spread) == (0.5, 0.5)
    assert Position("Pos", "t").start == 0.0


def test_a_readout_starts_as_that_of_one_token() -> None:
    readout = TokenReadout("tokens", 200)
    blocks = readout.initial(np.random.default_rng(1), (3, 400))
    assert {name: block.shape for name, block in blocks.items()} == readout.shapes((3, 400))
    assert blocks["W_out"].shape == (400, 200)
    np.testing.assert_allclose(blocks["W_out"].std(), 0.5 / 20, rtol=0.02)


@pytest.mark.parametrize("shape", [(7,), (3, 2, 2), ()])
def test_tokens_have_a_number_and_a_width(shape: tuple[int, ...]) -> None:
    message = re.escape(f"it reads tokens, but its layer has shape {shape}.")
    with pytest.raises(EngineError, match=message):
        token_shape("it", shape)
    assert token_shape("it", (3, 2)) == (3, 2)


def test_a_layer_is_seen_token_by_token() -> None:
    network = Network(3, (Layer("tokens", (3, 2)),), (), TokenReadout("tokens", 2))
    s = np.arange(12.0).reshape(2, 6)
    seen = network.of("tokens", s)
    np.testing.assert_array_equal(seen[1], [[6, 7], [8, 9], [10, 11]])
    assert np.shares_memory(seen, s)


def test_counts_are_whole_numbers_above_zero() -> None:
    with pytest.raises(EngineError, match="vocabulary is 0"):
        Embedding("Emb", "tokens", 0)
    with pytest.raises(EngineError, match="the read-out has size 0"):
        Network(3, (Layer("tokens", (3, 2)),), (), TokenReadout("tokens", 0))
    with pytest.raises(EngineError, match="layer 'tokens' has size 0"):
        Layer("tokens", (0, 2))
