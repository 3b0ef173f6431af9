"""Reads of an array: noise of what is driven, converters, and arrays of their own for a phase."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import layered
from engine.model.params import Params, initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from tests.hw_sim.chips.hand_chip import NETWORKS

IDEAL = CrossbarConfig(on_off_ratio=np.inf)


def _spread(x: float, state: float, samples: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Deviations of the input drive, and of what units hear from others, at a given amplitude."""
    network = NETWORKS["looped"]
    params = initial_params(network, np.random.default_rng(0), np.float64)
    chip = CrossbarBackend(network, params, replace(IDEAL, read_noise=0.01))
    clamped = chip.clamp(np.full((samples, 3), x))
    start = np.full((samples, network.units), state)
    moved = chip.settle(clamped, relaxation=Relaxation(1, 0.0), start=start).state
    return clamped.drive[0].std(0), (np.arctanh(moved) - clamped.drive[0]).std(0)


def test_noise_is_as_loud_as_what_drives_the_cells() -> None:
    """A cell without a voltage carries no current, and no noise."""
    drive, heard = _spread(0.0, 0.0)
    assert drive.max() == 0.0
    assert heard.max() < 1e-12
    once, twice = _spread(0.3, 0.4), _spread(0.6, 0.2)
    np.testing.assert_allclose(twice[0], 2.0 * once[0], rtol=0.1)
    np.testing.assert_allclose(twice[1], 0.5 * once[1], rtol=0.1)


def test_more_bits_come_nearer_and_none_is_ideal() -> None:
    """The largest error of a converter halves with every bit, down to none."""
    network, x = NETWORKS["looped"], np.linspace(-4.0, 4.0, 3000).reshape(-1, 3)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    errors = []
    for bits in (3, 4, 5, 6, 0):
        chip = CrossbarBackend(network, params, replace(IDEAL, dac_bits=bits))
        errors.append(np.abs(chip._seen_input(x) - x).max())
    ratios = [finer / coarser for coarser, finer in pairwise(errors)]
    assert ratios[:3] == pytest.approx([3 / 7, 7 / 15, 15 / 31], rel=0.02)
    assert errors[-1] == 0.0


def test_split_arrays_answer_for_their_own_phases() -> None:
    """Positive nudges run on the second set of cells, all else on the first, drive included."""
    network = layered((3, 4, 3, 2))
    params = initial_params(network, np.random.default_rng(0), np.float64)
    apart = replace(IDEAL, split_arrays=True, program_noise=0.1)
    chip, rng = CrossbarBackend(network, params, apart), np.random.default_rng(1)
    x, y, rule = rng.standard_normal((4, 3)), np.eye(2)[[0, 1, 1, 0]], Relaxation(5, 0.0)
    clamped, held = chip.clamp(x, y), [Params(network, chip._theta(k)) for k in (0, 1)]
    assert np.abs(held[0].theta - held[1].theta).max() > 0.1
    np.testing.assert_array_equal(chip.params.theta, held[0].theta)
    for beta, which in ((0.0, 0), (0.5, 1), (-0.5, 0)):
        alone = CrossbarBackend(network, held[which], IDEAL)
        expected = alone.settle(alone.clamp(x, y), beta, rule).state
        np.testing.assert_allclose(chip.settle(clamped, beta, rule).state, expected, atol=1e-9)
    free = chip.settle(clamped, relaxation=rule)
    told = CrossbarBackend(network, held[0], IDEAL).predict(free)
    np.testing.assert_allclose(chip.predict(free), told, atol=1e-9)
