"""Cells: each law of a device alone, with its constants, over thousands of pairs."""

from dataclasses import replace

import numpy as np
import pytest

from engine.errors import EngineError
from engine.model.params import Params, initial_params
from hw_sim.chips.cells import STREAM, CellArray, CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from tests.hw_sim.chips.hand_chip import NETWORKS

PAIRS = 20_000
IDEAL = CrossbarConfig(on_off_ratio=np.inf)
WEIGHTS = np.linspace(-1.5, 1.5, PAIRS)


def cells(config: CrossbarConfig, weights: np.ndarray = WEIGHTS, seed: int = 0) -> CellArray:
    array = CellArray(config, len(weights), np.random.default_rng(seed))
    array.program(weights)
    return array


@pytest.mark.parametrize("ratio", [4.0, 100.0, np.inf])
def test_a_pair_holds_its_weight_as_a_difference_of_conductances(ratio: float) -> None:
    config = CrossbarConfig(on_off_ratio=ratio, weight_range=2.0)
    array = cells(config)
    kept = np.clip(WEIGHTS, -2.0 * (1 - 1 / ratio), 2.0 * (1 - 1 / ratio))
    np.testing.assert_allclose(array.weights, kept, atol=1e-12)
    up, down = array.conductances
    np.testing.assert_allclose(2.0 * (up - down), kept, atol=1e-12)
    np.testing.assert_allclose(up + down, 1.0 + 1 / ratio, atol=1e-12)  # around the middle
    assert min(up.min(), down.min()) >= 1 / ratio - 1e-12
    assert (array.writes == 1).all()


def test_a_blank_pair_holds_nothing_and_can_move_both_ways() -> None:
    for change in (0.5, -0.5):
        array = CellArray(IDEAL, 3, np.random.default_rng(0))
        assert (array.weights == 0.0).all()
        array.pulse(np.full(3, change))
        np.testing.assert_allclose(array.weights, change)


def test_drift_is_felt_once_for_each_update() -> None:
    """Of levels, which shrink together: so weights shrink by the same share."""
    drift = 0.1
    array = cells(replace(IDEAL, drift=drift))
    before = array.level.copy()
    for updates in range(1, 4):
        array.drift()
        assert array.pulse(np.zeros(PAIRS)) == 0
        np.testing.assert_allclose(array.level, (1 - drift) ** updates * before, rtol=1e-12)
    assert (array.writes == 1).all()


@pytest.mark.parametrize("split", [False, True])
def test_a_chip_drifts_once_for_each_update_in_all_its_arrays(split: bool) -> None:
    network = NETWORKS["looped"]
    params = initial_params(network, np.random.default_rng(0), np.float64)
    params["b"][...] = params["b_out"][...] = 0.3
    chip = CrossbarBackend(network, params, replace(IDEAL, drift=0.2, split_arrays=split))
    for updates in range(1, 4):
        chip.apply(np.zeros(network.size))
        for k in range(len(chip.arrays)):
            held = Params(network, chip._theta(k))
            for name, block in held.items():
                kept = 1.0 if name in ("b", "b_out") else 0.8**updates
                np.testing.assert_allclose(block, kept * params[name], atol=1e-12)
    assert len(chip.arrays) == 1 + split


def test_without_drift_a_cell_keeps_what_it_holds() -> None:
    array = cells(IDEAL)
    for _ in range(5):
        array.pulse(np.zeros(PAIRS))
    np.testing.assert_array_equal(array.weights, cells(IDEAL).weights)


def test_an_ideal_update_is_exact_until_the_range_ends() -> None:
    array, update = cells(IDEAL), np.full(PAIRS, 0.7)
    pulses = array.pulse(update)
    np.testing.assert_allclose(array.weights, np.minimum(WEIGHTS + 0.7, 2.0), atol=1e-12)
    assert (array.writes == 2).all()  # one of them when it was loaded
    assert pulses == 2 * PAIRS


@pytest.mark.parametrize("change", [0.01, -0.01])
@pytest.mark.parametrize(("curve", "lean"), [(3.0, 0.0), (0.0, 0.3), (2.0, 0.5)])
def test_pulses_follow_curve_and_lean(change: float, curve: float, lean: float) -> None:
    """Up by `(1 + a) e^(-v u)`, down by `(1 - a) e^(-v (1 - u))`, of each cell at its own level."""
    array = cells(replace(IDEAL, nonlinearity=curve, asymmetry=lean))
    before = array.level.copy()
    array.pulse(np.full(PAIRS, change))
    wanted = change / 2 / 2.0
    for cell, sign in ((0, 1), (1, -1)):
        asked, level = sign * wanted, before[cell]
        if asked > 0:
            moved = asked * (1 + lean) * np.exp(-curve * level)
        else:
            moved = asked * (1 - lean) * np.exp(-curve * (1 - level))
        np.testing.assert_allclose(array.level[cell] - level, moved, atol=1e-14)


def test_a_chip_drifts_before_it_is_pulsed() -> None:
    """Cells lose a share of their level, and then the update moves them."""
    network = NETWORKS["looped"]
    params = initial_params(network, np.random.default_rng(0), np.float64)
    chip = CrossbarBackend(network, params, replace(IDEAL, drift=0.25))
    chip.apply(np.full(network.size, 0.1))
    np.testing.assert_allclose(chip.params["W_rec"], 0.75 * params["W_rec"] + 0.1, atol=1e-12)


@pytest.mark.parametrize("levels", [0, 41])
def test_pulses_from_a_cell_on_leave_the_others_alone(levels: int) -> None:
    few = STREAM + 20
    array = cells(replace(IDEAL, levels=levels), np.zeros(few + 20))
    before = array.level.copy()
    array.pulse(np.full(few, 0.5), 7)
    moved = (array.level != before).all(0)
    assert moved[7 : 7 + few].all()
    assert not moved[:7].any()
    assert not moved[7 + few :].any()


def test_a_device_has_one_gain_for_life_and_a_cycle_one_for_a_pulse() -> None:
    for knob, lasting in (("device_variation", True), ("cycle_variation", False)):
        array, gains = cells(replace(IDEAL, **{knob: 0.2}), np.zeros(PAIRS)), []
        for _ in range(2):
            before = array.level.copy()
            array.pulse(np.full(PAIRS, 0.01))
            gains.append((array.level - before) / np.array([[0.0025], [-0.0025]]))
        for gain in gains:
            assert gain.mean() == pytest.approx(1.0, abs=0.01)
            assert gain.std() == pytest.approx(0.2, rel=0.03)
        apart = np.corrcoef(gains[0].ravel(), gains[1].ravel())[0, 1]
        assert apart == pytest.approx(1.0 if lasting else 0.0, abs=0.03)
        cells_apart = np.corrcoef(gains[0])[0, 1]
        assert cells_apart == pytest.approx(0.0, abs=0.03)


def test_no_device_moves_backwards() -> None:
    """A gain that is drawn below zero is none: so many cells stand still."""
    array = cells(replace(IDEAL, device_variation=1.0), np.zeros(PAIRS))
    before = array.level.copy()
    array.pulse(np.full(PAIRS, 0.01))
    moved = (array.level - before) * [[1], [-1]]
    assert moved.min() == 0.0
    assert (moved == 0.0).mean() == pytest.approx(0.1587, abs=0.01)  # a Gaussian below -1


def test_half_of_the_stuck_cells_are_on_and_half_off() -> None:
    array = cells(replace(IDEAL, stuck=0.3), np.full(PAIRS, 0.4))
    for _ in range(2):
        assert (array.level == 1.0).mean() == pytest.approx(0.15, abs=0.01)
        assert (array.level == 0.0).mean() == pytest.approx(0.15, abs=0.01)
        moving = (array.level > 0.0) & (array.level < 1.0)
        held = array.level.copy()
        array.pulse(np.full(PAIRS, 0.1))
        np.testing.assert_array_equal(array.level != held, moving)


def test_programming_noise_is_that_share_of_the_range() -> None:
    array = cells(replace(IDEAL, program_noise=0.03), np.zeros(PAIRS))
    off = array.level - 0.5
    assert off.std() == pytest.approx(0.03, rel=0.03)
    assert off.mean() == pytest.approx(0.0, abs=1e-3)
    assert np.corrcoef(off)[0, 1] == pytest.approx(0.0, abs=0.03)


def test_levels_round_what_is_loaded_to_the_nearest() -> None:
    array = cells(replace(IDEAL, levels=9))
    assert np.unique(array.level).tolist() == [k / 8 for k in range(1, 8)]
    for cell, sign in ((0, 1), (1, -1)):
        off = array.level[cell] - (0.5 + sign * WEIGHTS / 4)
        assert np.abs(off).max() <= 1 / 16 + 1e-12
    span = 2 * 2.0 / 8  # of a pair: two cells, a level each
    assert np.abs(array.weights - WEIGHTS).max() <= span / 2 + 1e-12
    assert np.abs(array.weights - WEIGHTS).max() > 0.45 * span


def test_pulses_are_whole_levels_and_right_in_the_mean() -> None:
    array, step = cells(replace(IDEAL, levels=41), np.zeros(PAIRS)), 1 / 40
    before = array.level.copy()
    pulses = array.pulse(np.full(PAIRS, 2 * 2.0 * 2.3 * step))
    moved = (array.level - before) / step * [[1], [-1]]
    np.testing.assert_allclose(moved, np.round(moved), atol=1e-9)
    assert set(np.unique(np.round(moved))) == {2.0, 3.0}
    assert moved.mean() == pytest.approx(2.3, abs=0.01)
    assert pulses == np.round(moved).sum()
    np.testing.assert_array_equal(array.writes - 1, np.round(moved))
    assert np.corrcoef(moved)[0, 1] == pytest.approx(0.0, abs=0.03)  # each rounds for itself


def test_the_words_of_a_stream_round_the_pulses_of_its_pairs() -> None:
    """Every pulse by hand: the halves of a word round both cells, and few cells get any."""
    pairs, config = STREAM + 5000, replace(IDEAL, levels=41)
    array = CellArray(config, pairs, np.random.default_rng(3))
    array.program(np.zeros(pairs))
    update = 0.005 * np.random.default_rng(4).standard_normal(pairs)
    before, given = array.level.copy(), array.pulse(update)
    words = [
        stream.bit_generator.random_raw(count)
        for stream, count in zip(
            np.random.default_rng(3).spawn(2), (STREAM, pairs - STREAM), strict=True
        )
    ]
    low, high = (np.concatenate(words) & 0xFFFFFFFF), np.concatenate(words) >> np.uint64(32)
    asked = 40 / (2 * config.largest_weight) * update
    pulses = np.floor([asked + low / 2**32, high / 2**32 - asked])
    assert 0.01 < (pulses != 0.0).mean() < 0.1
    np.testing.assert_array_equal(array.writes - 1, np.abs(pulses))
    np.testing.assert_allclose(array.level, before + pulses / 40, atol=1e-12)
    assert given == np.abs(pulses).sum()


def test_the_seed_decides_the_devices() -> None:
    noisy = replace(IDEAL, program_noise=0.1, stuck=0.1, device_variation=0.3)
    first, again, other = (cells(noisy, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.level, again.level)
    assert (first.level != other.level).mean() > 0.9


LIMITS = {
    "stuck": (0.0, 1.0), "asymmetry": (0.0, 1.0), "drift": (0.0, 1.0),
    "program_noise": (0.0, 10.0), "device_variation": (0.0, 10.0),
    "cycle_variation": (0.0, 10.0), "read_noise": (0.0, 10.0), "nonlinearity": (0.0, 20.0),
    "wire_resistance": (0.0, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("knob", LIMITS)
def test_both_ends_of_a_setting_are_taken_and_nothing_beyond(knob: str) -> None:
    low, high = LIMITS[knob]
    for value in (low, high):
        assert getattr(CrossbarConfig(**{knob: value}), knob) == value  # type: ignore[arg-type]
    for value in (low - 1e-9, high + 1e-9, float("nan")):
        with pytest.raises(EngineError, match=f"has {knob} .*, expected from {low:g} to {high:g}"):
            CrossbarConfig(**{knob: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("knob", "good", "bad"),
    [
        ("dac_bits", (0, 2, 24), (-1, 1, 25, 2.5)),
        ("adc_bits", (0, 2, 24), (-1, 1, 25, True)),
        ("levels", (0, 2, 500), (-1, 1, 2.5)),
        ("seed", (0, 5), (-1, 0.5)),
        ("weight_range", (1e-9, 3.0), (0.0, -1.0, float("nan"))),
        ("input_range", (1e-9, 3.0), (0.0, -1.0)),
        ("adc_range", (1e-9, 3.0), (0.0, -1.0)),
        ("on_off_ratio", (1.0001, np.inf), (1.0, 0.5, float("nan"))),
    ],
)
def test_settings_that_are_no_device_are_refused(knob: str, good: tuple, bad: tuple) -> None:  # type: ignore[type-arg]
    for value in good:
        assert getattr(CrossbarConfig(**{knob: value}), knob) == value
    for value in bad:
        with pytest.raises(EngineError, match=rf"{knob} (is )?{value}\b"):
            CrossbarConfig(**{knob: value})


def test_the_busiest_cell_of_all_arrays_wears_first() -> None:
    network = NETWORKS["looped"]
    params = initial_params(network, np.random.default_rng(0), np.float64)
    for busy in (0, 1):
        chip = CrossbarBackend(network, params, replace(IDEAL, split_arrays=True))
        assert chip.most_writes == 1
        chip.arrays[busy].writes[1, 3] += 5
        assert chip.most_writes == 6
