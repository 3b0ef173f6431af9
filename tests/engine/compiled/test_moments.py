"""An update is applied whole or not at all."""

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.compiled.moments import add_finite
from engine.errors import DivergenceError
from engine.model.builders import looped_mlp
from engine.model.params import initial_params


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("place", [0, 7, 20])
def test_a_sum_that_is_no_number_leaves_everything_as_it_was(dtype: type, place: int) -> None:
    largest = np.finfo(dtype).max
    for bad in (np.nan, np.inf, -np.inf, largest):
        theta, update = np.full(21, largest / 2, dtype), np.full(21, -1, dtype)
        update[place] = bad
        before = theta.copy()
        with np.errstate(over="ignore", invalid="ignore"):  # where nothing is compiled
            assert not add_finite(theta, update, largest)
        np.testing.assert_array_equal(theta, before)
    update[place] = -largest  # the smallest number there is
    theta[place] = 0
    assert add_finite(theta, update, largest)
    np.testing.assert_array_equal(theta, np.where(np.arange(21) == place, -largest, before - 1))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.nan, "update holds nan at place 3"),
        (-np.inf, "update holds -inf at place 3"),
        (np.finfo(np.float32).max, "the update makes a parameter overflow; nothing was applied"),
    ],
)
def test_an_update_that_cannot_be_applied_is_named(bad: float, message: str) -> None:
    network = looped_mlp(3, 4, 2)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    backend.params.theta[3] = abs(np.float32(bad)) if np.isfinite(bad) else 1
    before, update = backend.params.theta.copy(), np.ones(network.size, np.float32)
    update[3] = bad
    with pytest.raises(DivergenceError, match=message):
        backend.apply(update)
    np.testing.assert_array_equal(backend.params.theta, before)
    backend.apply(np.full(network.size, 0.25))  # of another precision
    np.testing.assert_array_equal(backend.params.theta, before + np.float32(0.25))
