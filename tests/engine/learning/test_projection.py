"""The exact cap is a projection: of all matrices within it, the nearest one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.learning.spectral import clip_norm, recurrent_norm
from engine.model.builders import energy_transformer
from engine.model.params import initial_params

SIZES = st.integers(1, 8)


@given(SIZES, SIZES, st.floats(0.1, 3.0), st.integers(0, 1000))
def test_singular_values_above_the_limit_move_to_it_and_no_others(
    rows: int, columns: int, limit: float, seed: int
) -> None:
    block = np.random.default_rng(seed).standard_normal((rows, columns))
    left, values, right = np.linalg.svd(block, full_matrices=False)
    expected = (left * np.minimum(values, limit)) @ right
    clip_norm(block, limit, symmetric=False)
    np.testing.assert_allclose(block, expected, rtol=0, atol=1e-9)


@given(SIZES, st.floats(0.1, 3.0), st.integers(0, 1000))
def test_eigenvalues_outside_the_limit_move_to_it_and_no_others(
    size: int, limit: float, seed: int
) -> None:
    block = np.random.default_rng(seed).standard_normal((size, size))
    block += block.T
    values, vectors = np.linalg.eigh(block)
    expected = (vectors * np.clip(values, -limit, limit)) @ vectors.T
    clip_norm(block, limit, symmetric=True)
    np.testing.assert_allclose(block, expected, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(block, block.T)


def test_attention_has_no_matrix_whose_norm_could_be_told() -> None:
    network = energy_transformer(3, 2, width=4)
    params = initial_params(network, np.random.default_rng(0))
    with pytest.raises(EngineError, match=r"coupling 'attention' .* has no spectral cap"):
        recurrent_norm(params)
