"""Cells that know a few levels: what is programmed is the nearest of them."""

import numpy as np
import pytest

from hw_sim.chips.cells import CellArray, CrossbarConfig


@pytest.mark.parametrize("levels", [2, 3, 9])
def test_a_programmed_cell_is_at_the_level_nearest_to_what_was_wanted(levels: int) -> None:
    config = CrossbarConfig(on_off_ratio=np.inf, weight_range=2.0, levels=levels)
    array = CellArray(config, 101, np.random.default_rng(0))
    weights = np.linspace(-2.0, 2.0, 101)
    array.program(weights)
    wanted = 0.5 + 0.25 * np.stack([weights, -weights])
    steps = array.level * (levels - 1)
    np.testing.assert_allclose(steps, np.round(steps), rtol=0, atol=1e-12)
    assert np.abs(array.level - wanted).max() <= 0.5 / (levels - 1) + 1e-12
