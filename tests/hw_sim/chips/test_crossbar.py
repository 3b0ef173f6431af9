"""The crossbar: ideal when every knob is at zero, and every knob is felt."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given

from engine import NumbaBackend, evaluate, fit
from engine.couplings.link import INPUT, ONE
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model.params import Params
from experiments.fuzz.strategies import Case, cases, smooth_networks
from hw_sim.chips.cells import CellArray, CrossbarConfig, converter_step
from hw_sim.chips.crossbar import CrossbarBackend
from tests.hw_sim.chips.small_training import (
    LEARNED,
    NETWORK,
    TRAINING,
    first_params,
    held_out_cost,
    three_classes,
)

# A beta that is large for a trained read-out is measured here like everything else.
pytestmark = pytest.mark.filterwarnings("ignore::engine.errors.NudgeWarning")

IDEAL = CrossbarConfig(on_off_ratio=np.inf)


@cache
def _cost(config: CrossbarConfig | None) -> float:
    """Cost on held-out samples after training; of the ideal engine without a config."""
    if config is None:
        return held_out_cost(NumbaBackend)
    return held_out_cost(partial(CrossbarBackend, config=config))


def test_at_zero_a_training_is_that_of_the_ideal_engine() -> None:
    unbounded = replace(IDEAL, weight_range=64.0)
    assert _cost(unbounded) == pytest.approx(_cost(None), abs=1e-6)
    assert _cost(IDEAL) < LEARNED  # it has learned something that can be lost


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
    "input_range": 0.1,
}

PRECONDITIONS = {
    "adc_range": {"adc_bits": 12},  # without a converter nothing clips
    "input_range": {"dac_bits": 12},
    # A pair forgives pulses of unequal strength until its cells reach the end of their range.
    "asymmetry": {"weight_range": 1.0},
}


@pytest.mark.parametrize("knob", WORSE)
def test_every_knob_that_is_turned_up_degrades_learning(knob: str) -> None:
    ideal = replace(IDEAL, **PRECONDITIONS.get(knob, {}))
    assert _cost(replace(ideal, **{knob: WORSE[knob]})) > _cost(ideal) + 0.03


def test_programming_noise_spoils_what_is_loaded() -> None:
    """It acts when weights are written afresh, which training never does."""
    x, y = three_classes()
    trained = NumbaBackend(NETWORK, first_params())
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


STEEPEST_CURVE = 4 / (3 * np.sqrt(3))
"""Largest |tanh''|."""


def _noise_power(chip: CrossbarBackend, x: np.ndarray) -> float:
    """Variance of all currents of a step at most, as no state is beyond one, and of the drive."""
    network, config = chip.network, chip.config
    squares = Params(network, np.zeros(network.size))
    squares.theta[chip._in_array] = (chip.arrays[0].conductances ** 2).sum(0)
    total = 0.0
    for link in network.links.values():
        if link.source == INPUT:
            total += link.forward(squares[link.block], x**2).sum()
        elif link.source != ONE:
            ones = np.ones((1, link.size))
            total += (1 if link.tied else 2) * link.forward(squares[link.block], ones).sum()
    return float((config.read_noise * config.weight_range) ** 2 * total)


@given(cases(smooth_networks(), high=0.8))
def test_reading_noise_leaves_the_mean_in_place(case: Case) -> None:
    """The bias is of second order in the noise, as `docs/hardware.md` derives."""
    repeats, config = 400, replace(IDEAL, weight_range=32.0, read_noise=1e-3)
    noisy = CrossbarBackend(case.network, case.params, config)
    clamped = noisy.clamp(np.repeat(case.x[:1], repeats, axis=0))
    states = noisy.settle(clamped, relaxation=Relaxation(100, 0.0)).state
    ideal = case.backend.settle(case.clamped, relaxation=Relaxation(3000, 1e-13)).state[0]
    power = _noise_power(noisy, case.x[:1])
    assert power > 1e-6
    bias = STEEPEST_CURVE / 2 * power / (1.0 - case.norm) ** 3
    chance = 5 * np.sqrt(states.var(0).sum() / repeats)
    assert states.std(0).max() > 1e-5
    assert np.linalg.norm(states.mean(0) - ideal) < bias + chance


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_converter_has_no_more_codes_than_its_bits_allow(bits: int) -> None:
    backend = CrossbarBackend(NETWORK, first_params(), replace(IDEAL, dac_bits=bits))
    seen = backend._seen_input(np.linspace(-9.0, 9.0, 6000).reshape(-1, 6))
    assert len(np.unique(np.round(seen, 9))) == 2**bits - 1
    assert seen.max() == pytest.approx(IDEAL.input_range)
    assert 0.0 in seen
    assert converter_step(bits, 1.0) == pytest.approx(1.0 / (2 ** (bits - 1) - 1))


def test_a_bias_is_a_digital_word_that_no_converter_rounds() -> None:
    params = first_params()
    params["W_in"][...] = 0.0
    params["b"][...] = 0.123
    backend = CrossbarBackend(NETWORK, params, replace(IDEAL, adc_bits=4))
    assert (backend.clamp(np.ones((1, 6))).drive[0] == 0.123).all()


def test_every_pulse_is_counted() -> None:
    levels = 11
    backend = CrossbarBackend(NETWORK, first_params(), replace(IDEAL, levels=levels))
    update = np.zeros(NETWORK.size)
    update[0] = 3 * 2 * IDEAL.weight_range / (levels - 1)  # three levels, in both cells
    backend.apply(update)
    biases = sum(NETWORK.blocks[name].size for name in ("b", "b_out"))
    assert backend.counts.total("weight_write") == 3 + 3 + biases
    assert backend.most_writes == 1 + 3  # the first programming too


def test_analog_states_are_converted_when_they_are_read() -> None:
    steps, samples, cells = 7, 2, 2 * (6 * 10 + 10 * 10)
    counts = {}
    for each in (True, False):
        config = replace(IDEAL, convert_each_step=each, dac_bits=8, adc_bits=8)
        backend = CrossbarBackend(NETWORK, first_params(), config)
        backend.settle(backend.clamp(np.ones((samples, 6))), relaxation=Relaxation(steps, 0.0))
        counts[each] = backend.counts
    assert counts[True].total("conversion", "free") == samples * steps * (10 + 10)
    assert counts[False].total("conversion", "free") == samples * 10
    assert counts[False].total("state_read", "free") == 0
    # The input cells conduct as long as the state settles.
    assert counts[False].total("cell_read", "free") == samples * steps * cells
    assert counts[True].total("cell_read", "free") == samples * steps * 2 * 10 * 10


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
        assert array.pulse(np.array([0.3, 0.0])) == 2
        moved.append(array.weights[0] - before)
    assert (np.diff(moved) < 0).all()
    assert array.writes.tolist() == [[4, 0], [4, 0]]


def test_a_lateral_array_loses_its_symmetry_and_the_parameters_keep_it() -> None:
    backend = CrossbarBackend(NETWORK, first_params(), replace(IDEAL, program_noise=0.05))
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
