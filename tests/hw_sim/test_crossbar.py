"""The crossbar: ideal when every knob is at zero, and every knob is felt."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from engine import SGD, NumbaBackend, Training, evaluate, fit
from engine.backend import Relaxation
from engine.errors import EngineError
from engine.network import looped_mlp
from engine.params import Params, initial_params
from hw_sim.crossbar import CrossbarBackend
from hw_sim.devices import CellArray, CrossbarConfig

# A beta that is large for a trained read-out is measured here like everything else.
pytestmark = pytest.mark.filterwarnings("ignore::engine.errors.NudgeWarning")

IDEAL = CrossbarConfig(on_off_ratio=np.inf)
NETWORK = looped_mlp(6, 10, 3)
TRAINING = Training(
    epochs=8, batch_size=16, beta=0.1, optimizer=SGD(0.3, 0.8), cap=None, schedule="constant",
    free=Relaxation(12, 1e-4), nudged=Relaxation(8, 1e-4),
)  # fmt: skip


def _data() -> tuple[np.ndarray, np.ndarray]:
    """Three classes by the largest of three directions."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((240, 6))
    return x, (x @ rng.standard_normal((6, 3))).argmax(1)


@cache
def _cost(config: CrossbarConfig | None) -> float:
    """Cost on held-out samples after training; of the ideal engine without a config."""
    x, y = _data()
    params = initial_params(NETWORK, np.random.default_rng(0), np.float64)
    backend = (
        NumbaBackend(NETWORK, params)
        if config is None
        else CrossbarBackend(NETWORK, params, config)
    )
    fit(backend, x[:160], y[:160], TRAINING)
    return evaluate(backend, x[160:], y[160:], Relaxation(30, 1e-4)).cost


def test_at_zero_a_training_is_that_of_the_ideal_engine() -> None:
    unbounded = replace(IDEAL, weight_range=64.0)
    assert _cost(unbounded) == pytest.approx(_cost(None), abs=1e-6)
    assert _cost(IDEAL) < 0.5 * np.log(3)  # it has learned something that can be lost


WORSE = {
    "on_off_ratio": 1.05,
    "levels": 3,
    "nonlinearity": 8.0,
    "asymmetry": 1.0,
    "device_variation": 8.0,
    "cycle_variation": 10.0,
    "stuck": 0.5,
    "read_noise": 1.0,
    "wire_resistance": 0.5,
    "drift": 0.05,
    "dac_bits": 2,
    "adc_bits": 2,
    "adc_range": 0.05,
}

PRECONDITIONS = {
    "adc_range": {"adc_bits": 12},  # without a converter nothing clips
    # A pair forgives pulses of unequal strength until its cells reach the end of their range.
    "asymmetry": {"weight_range": 1.0},
}


@pytest.mark.parametrize("knob", WORSE)
def test_every_knob_that_is_turned_up_degrades_learning(knob: str) -> None:
    ideal = replace(IDEAL, **PRECONDITIONS.get(knob, {}))
    assert _cost(replace(ideal, **{knob: WORSE[knob]})) > _cost(ideal) + 0.03


def test_programming_noise_spoils_what_is_loaded() -> None:
    """It acts when weights are written afresh, which training never does."""
    x, y = _data()
    trained = NumbaBackend(NETWORK, initial_params(NETWORK, np.random.default_rng(0), np.float64))
    fit(trained, x[:160], y[:160], TRAINING)
    costs = [
        evaluate(
            CrossbarBackend(NETWORK, trained.params, replace(IDEAL, program_noise=noise)), x, y
        ).cost
        for noise in (0.0, 0.1, 0.3)
    ]
    assert costs[0] < costs[1] < costs[2]


def test_split_arrays_turn_defects_into_a_false_nudge() -> None:
    shared, split = (
        _cost(replace(IDEAL, stuck=0.1, split_arrays=apart)) for apart in (False, True)
    )
    assert split > shared + 0.05
    assert _cost(replace(IDEAL, split_arrays=True)) == pytest.approx(_cost(IDEAL), abs=1e-6)


def test_reading_noise_leaves_the_mean_in_place() -> None:
    rng, sigma, repeats = np.random.default_rng(2), 0.02, 800
    params = initial_params(NETWORK, rng, np.float64)
    x = rng.standard_normal((1, 6))
    ideal = CrossbarBackend(NETWORK, params, IDEAL)
    expected = ideal.relax(ideal.clamp(x), relaxation=Relaxation(200, 1e-12)).state[0]
    noisy = CrossbarBackend(NETWORK, params, replace(IDEAL, read_noise=sigma))
    found = noisy.relax(noisy.clamp(np.repeat(x, repeats, axis=0)), relaxation=Relaxation(40, 0.0))
    spread = found.state.std(0)
    assert spread.min() > 1e-3
    # Standard error of the mean, and the curvature of tanh: a bias of the order of the variance.
    allowed = 5 * spread / np.sqrt(repeats) + 3 * spread.max() ** 2
    assert (np.abs(found.state.mean(0) - expected) < allowed).all()
    few = np.abs(found.state[:8].mean(0) - expected).mean()
    assert np.abs(found.state.mean(0) - expected).mean() < few


def test_a_pair_cannot_hold_more_than_its_range() -> None:
    config = CrossbarConfig(on_off_ratio=4.0, weight_range=2.0)
    array = CellArray(config, 3, np.random.default_rng(0))
    array.program(np.array([9.0, -9.0, 0.3]))
    np.testing.assert_allclose(array.weights, [1.5, -1.5, 0.3])
    assert array.conductances.min() == 0.25
    assert array.conductances.max() == 1.0


def test_pulses_are_counted_and_weaken_towards_the_end() -> None:
    config = replace(IDEAL, nonlinearity=3.0)
    array = CellArray(config, 2, np.random.default_rng(0))
    moved = []
    for _ in range(4):
        before = array.weights[0]
        assert array.pulse(np.array([0.3, 0.0])).tolist() == [2, 0]
        moved.append(array.weights[0] - before)
    assert (np.diff(moved) < 0).all()
    assert array.writes.tolist() == [[4, 0], [4, 0]]


def test_a_lateral_array_loses_its_symmetry_and_the_parameters_keep_it() -> None:
    params = initial_params(NETWORK, np.random.default_rng(0), np.float64)
    backend = CrossbarBackend(NETWORK, params, replace(IDEAL, program_noise=0.05))
    raw = Params(NETWORK, backend._theta(0))["W_rec"]
    assert np.abs(raw - raw.T).max() > 0.01
    backend.params.check()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"read_noise": -0.1}, "read_noise -0.1, expected from 0 to 10"),
        ({"on_off_ratio": 1.0}, "on_off_ratio 1.0, expected more than 1"),
        ({"levels": 1}, "levels 1, expected 0 or at least 2"),
        ({"stuck": 1.5}, "stuck 1.5, expected from 0 to 1"),
        ({"adc_bits": 1}, "adc_bits 1, expected 2 to 24 whole bits"),
    ],
)
def test_bad_settings_get_one_sentence(setting: dict[str, float], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        CrossbarConfig(**setting)  # type: ignore[arg-type]
