"""Tokens at the border: what is accepted, what is refused, and what a row of the table learns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compiled.backend import NumbaBackend
from engine.couplings.readout import SoftmaxReadout
from engine.couplings.tokens import Embedding, TokenReadout
from engine.errors import EngineError
from engine.model.builders import energy_transformer
from engine.model.params import initial_params

NETWORK = energy_transformer(vocabulary=5, length=3, width=4)


def _backend() -> NumbaBackend:
    return NumbaBackend(NETWORK, initial_params(NETWORK, np.random.default_rng(0), np.float64))


@pytest.mark.parametrize(
    ("value", "said"), [(5, "5"), (-1, "-1"), (1.5, r"1\.5"), (1e9, r"1e\+09")]
)
def test_what_is_no_token_is_named_with_its_place(value: float, said: str) -> None:
    x = np.zeros((4, 3))
    x[2, 1] = value
    expected = f"x holds {said} at sample 2, position 1, expected a token from 0 to 4"
    with pytest.raises(EngineError, match=expected):
        _backend().clamp(x)


def test_a_token_drives_its_position_through_its_row() -> None:
    backend = _backend()
    drive = backend.clamp([[4, 0, 2]]).drive.reshape(3, 4)
    table, places = backend.params["Emb"], backend.params["Pos"].reshape(3, 4)
    np.testing.assert_allclose(drive, table[[4, 0, 2]] + places, rtol=0, atol=1e-15)


@given(st.integers(0, 2**32 - 1))
def test_a_row_learns_only_from_the_positions_of_its_token(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, s = rng.integers(5, size=(6, 3)), rng.normal(size=(6, 12))
    found = Embedding("Emb", "tokens", 5).correlate(np.zeros((5, 4)), x.astype(float), s)
    by_place = s.reshape(6, 3, 4)
    for token in range(5):
        np.testing.assert_allclose(found[token], by_place[x == token].sum(0), atol=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_costs_of_positions_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    readout, each = TokenReadout("tokens", 5), SoftmaxReadout("tokens", 5)
    blocks = {"W_out": rng.normal(size=(4, 5)), "b_out": rng.normal(size=5)}
    s, y = rng.normal(size=(6, 3, 4)), readout.targets(rng.integers(5, size=(6, 3)), np.float64)
    parts = [each.cost(blocks, s[:, i], y[:, 5 * i : 5 * i + 5]) for i in range(3)]
    np.testing.assert_allclose(readout.cost(blocks, s, y), sum(parts), rtol=1e-12)
    p = readout.predict(blocks, s)
    np.testing.assert_allclose(p.reshape(6, 3, 5).sum(-1), 1.0, rtol=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_targets_are_read_back_as_the_tokens_they_were(seed: int) -> None:
    tokens = np.random.default_rng(seed).integers(5, size=(6, 3))
    readout = TokenReadout("tokens", 5)
    np.testing.assert_array_equal(readout.read(readout.targets(tokens)), tokens)


def test_targets_that_make_no_sense_are_refused() -> None:
    readout = TokenReadout("tokens", 5)
    for tokens, message in (
        (np.zeros(3, int), r"expected whole numbers \(samples, tokens\)"),
        (np.zeros((2, 3)), "target tokens are float64"),
        (np.full((2, 3), 5), "target 5 is outside the 5 outputs"),
        (np.full((2, 3), -1), "target -1 is outside the 5 outputs"),
    ):
        with pytest.raises(EngineError, match=message):
            readout.targets(tokens)
    bad = readout.targets(np.zeros((2, 3), int), np.float64)
    bad[1, 5] = 0.0
    with pytest.raises(EngineError, match="at position 1, target 1 is"):
        _backend().clamp(np.zeros((2, 3)), bad)
