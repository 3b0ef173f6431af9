"""The digital substrate: integers of a stated width, and a fixed point within its bound."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import NumbaBackend
from engine.arrays import FloatArray
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.spectral import recurrent_norm
from engine.model import dynamics
from engine.model.builders import looped_mlp
from engine.model.params import Params, initial_params
from experiments.fuzz.strategies import Case, cases, quadratic_networks, random_params
from hw_sim.audit.training_step import audit_substrate
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import RANDOM_BITS, DigitalConfig
from hw_sim.chips.spiking import SpikingBackend
from hw_sim.chips.substrate import Substrate
from tests.hw_sim.chips.small_training import LEARNED, held_out_cost

FINE = DigitalConfig(20, 16, 60, None, 20, weight_range=8.0)


@cache
def _cost(config: DigitalConfig) -> float:
    return held_out_cost(partial(DigitalBackend, config=config))


@pytest.mark.filterwarnings("ignore::engine.errors.NudgeWarning")
def test_wide_words_learn_like_the_ideal_engine() -> None:
    assert _cost(FINE) == pytest.approx(held_out_cost(NumbaBackend), abs=0.02)
    assert _cost(FINE) < LEARNED


WORSE = {
    "weight_bits": 4,
    "state_bits": 3,
    "accumulator_bits": 32,  # products have 31 bits after the point
    "readout_bits": 2,
    "table_bits": 4,
    "table_range": 0.25,
    "input_range": 0.125,
    "weight_range": 0.125,
}


@pytest.mark.filterwarnings("ignore::engine.errors.NudgeWarning")
@pytest.mark.parametrize("width", WORSE)
def test_every_width_that_is_cut_degrades_learning(width: str) -> None:
    assert _cost(replace(FINE, **{width: WORSE[width]})) > _cost(FINE) + 0.03


def _ideal(params: Params, x: FloatArray, y: FloatArray | None = None, beta: float = 0.0):  # type: ignore[no-untyped-def]
    """The equilibrium of the formulas, by plain iteration."""
    drive = dynamics.clamped_drive(params.network, params, x)
    state = dynamics.activate(params.network, drive)
    for _ in range(2000):
        state = dynamics.step(params.network, params, x, y, state, beta, drive)
    return state


@given(cases(quadratic_networks(), high=0.8), st.integers(4, 10))
def test_the_end_lies_within_the_quantisation_bound(case: Case, bits: int) -> None:
    """A fixed point or a cycle: every state on it is near the ideal one for the same words."""
    config = DigitalConfig(14, bits, 48, None, bits + 3, weight_range=8.0, input_range=8.0)
    backend = DigitalBackend(case.network, case.params, config)
    held, x = backend.params, backend._seen_input(case.x)
    bound = np.sqrt(case.network.units) * config.map_error / (1.0 - recurrent_norm(held))
    ideal = _ideal(held, x)
    clamped = backend.clamp(case.x)
    start = 400  # the initial distance has died out, whatever the rate
    for more in range(3):
        found = backend.settle(clamped, relaxation=Relaxation(start + more, 0.0))
        distance = np.linalg.norm(found.state - ideal, axis=1)
        assert (distance <= bound + 2 * 0.8**start).all()
    assert backend.saturations.accumulator == 0


def test_the_distance_shrinks_with_every_added_bit() -> None:
    rng, distances = np.random.default_rng(0), []
    network = looped_mlp(6, 12, 3)
    params, x = random_params(network, rng, 0.7), rng.standard_normal((40, 6))
    for bits in range(4, 12):
        config = DigitalConfig(16, bits, 48, None, bits + 3)
        backend = DigitalBackend(network, params, config)
        ideal = _ideal(backend.params, backend._seen_input(x))
        found = backend.settle(backend.clamp(x), relaxation=Relaxation(60, 0.0))
        distances.append(np.abs(found.state - ideal).mean())
    ratios = np.array(distances[1:]) / distances[:-1]
    assert (ratios < 0.75).all()
    assert 0.4 < np.exp(np.log(ratios).mean()) < 0.6  # half for each bit


def test_bits_are_reproducible_and_the_seed_only_rounds() -> None:
    network = looped_mlp(4, 6, 3)
    params = initial_params(network, np.random.default_rng(0))
    update = np.full(network.size, 0.3e-3)
    words = []
    for seed in (1, 1, 2):
        backend = DigitalBackend(network, params, DigitalConfig(seed=seed))
        for _ in range(20):
            backend.apply(update)
        words.append(backend.words.copy())
        assert np.array_equal(*(backend.params["W_rec"], backend.params["W_rec"].T))
    np.testing.assert_array_equal(words[0], words[1])
    assert (words[0] != words[2]).any()
    assert np.abs(words[0] - words[2]).max() <= 20


def test_stochastic_rounding_is_right_in_the_mean() -> None:
    network = looped_mlp(4, 20, 3)
    backend = DigitalBackend(network, Params(network, np.zeros(network.size)))
    word = 2.0**-backend.config.weight_fraction
    for _ in range(400):
        backend.apply(np.full(network.size, 0.11 * word))
    moved = backend.params.theta / word
    assert abs(moved.mean() - 44.0) < 5 * np.sqrt(400 * 0.11 * 0.89 / network.size * 2)
    assert moved.std() > 1.0


def test_one_neuron_by_hand() -> None:
    """The integers that a hardware description of the same neuron has to produce."""
    network = looped_mlp(1, 1, 2)
    config = DigitalConfig(8, 8, 20, None, 8, weight_range=2.0, table_range=4.0)
    params = Params(network, np.zeros(network.size))
    params["W_in"][...], params["b"][...], params["W_rec"][...] = 0.5, 0.25, -0.5
    backend = DigitalBackend(network, params, config)
    assert backend.words[:3].tolist() == [32, 16, -32]  # in 1/64
    clamped = backend.clamp([[0.75]])
    assert clamped.drive.tolist() == [[(16 << 7) + 96 * 32]]  # in 1/8192
    # The table is addressed in 1/32: round(5120 / 256) = 20, tanh(20/32) = 0.5546 = 71/128.
    first = backend.settle(clamped, relaxation=Relaxation(1, 1.0))
    assert first.state.tolist() == [[71 / 128]]
    # Next: 5120 - 32 * 71 = 2848, round(2848 / 256) = 11, tanh(11/32) = 0.3308 = 42/128.
    second = backend.settle(clamped, relaxation=Relaxation(1, 0.0))
    assert second.state.tolist() == [[42 / 128]]
    # Then: 5120 - 32 * 42 = 3776, 14.75 of 256 is rounded to 15, tanh(15/32) = 0.4371 = 56/128.
    third = backend.settle(clamped, relaxation=Relaxation(2, 0.0))
    assert third.state.tolist() == [[56 / 128]]
    update = Params(network, np.zeros(network.size))
    update["b"][...] = 3 / 64
    backend.apply(update.theta)
    assert backend.words[:3].tolist() == [32, 19, -32]
    assert RANDOM_BITS == 16


def test_saturation_is_counted() -> None:
    network = looped_mlp(3, 4, 2)
    params = initial_params(network, np.random.default_rng(0))
    backend = DigitalBackend(network, params, DigitalConfig(accumulator_bits=14))
    backend.clamp(np.full((1, 3), 100.0))
    assert backend.saturations.input == 3
    backend.settle(backend.clamp(np.full((1, 3), 3.9)))
    assert backend.saturations.accumulator > 0
    backend.apply(np.full(network.size, 50.0))
    assert backend.saturations.weight == network.size
    assert backend.params.theta.max() < backend.config.weight_range
    params.theta[0] = 7.0
    backend.load(params)
    assert backend.saturations.load == 1


def test_a_narrow_read_out_is_what_synapses_see() -> None:
    network = looped_mlp(3, 4, 2)
    params = initial_params(network, np.random.default_rng(0))
    backend = DigitalBackend(network, params, DigitalConfig(readout_bits=4))
    clamped = backend.clamp(np.ones((2, 3)), np.eye(2))
    settled = backend.settle(clamped)
    gradient = Params(network, np.zeros(network.size))
    backend.accumulate(clamped, settled, gradient.theta, energy=-1.0)
    seen = backend.read(settled.state)
    assert (seen * 8 == np.round(seen * 8)).all()
    np.testing.assert_allclose(gradient["b"], seen.sum(0))
    assert (seen != settled.state).any()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"weight_bits": 0}, "weight_bits 0, expected 2 to 24 whole bits"),
        ({"state_bits": 2.5}, "state_bits is 2.5, expected a whole number"),
        ({"state_bits": 8, "readout_bits": 9}, "readout_bits 9, expected 2 to 8"),
        ({"weight_range": 3.0}, "weight_range 3.0, expected a power of two"),
        ({"weight_bits": 2, "weight_range": 8.0}, "weight_bits 2, too few for weight_range 8"),
        ({"seed": 0}, "seed 0, expected 1 to"),
    ],
)
def test_bad_settings_get_one_sentence(setting: dict[str, float], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        DigitalConfig(**setting)  # type: ignore[arg-type]


def test_a_nudge_below_its_word_is_refused() -> None:
    network = looped_mlp(3, 4, 2)
    backend = DigitalBackend(network, initial_params(network, np.random.default_rng(0)))
    with pytest.raises(EngineError, match="below the finest nudge"):
        backend.settle(backend.clamp(np.ones((1, 3)), [[0.0, 1.0]]), 1e-5)


@pytest.mark.parametrize("make", [DigitalBackend, CrossbarBackend, SpikingBackend])
def test_an_activation_without_a_model_is_held_but_not_relaxed(make: type[Substrate]) -> None:
    """Its weights are words or cells like any other, for those who relax nothing."""
    network = looped_mlp(2, 3, 2, "relu")
    chip = make(network, initial_params(network, np.random.default_rng(0)))
    message = "activation 'relu' has no model in hw_sim: no chip relaxes it"
    with pytest.raises(EngineError, match=message):
        chip.settle(chip.clamp(np.ones((1, 2)), [[0.0, 1.0]]))
    with pytest.raises(EngineError, match=message):
        audit_substrate(chip, np.ones((1, 2)), np.eye(2)[:1])


def test_a_bias_that_no_accumulator_holds_is_clipped_and_counted() -> None:
    """It starts there, and is never wider than it is: what is added next does not bring it back."""
    network = looped_mlp(1, 2, 2)
    params = Params(network, np.zeros(network.size))
    params["b"][...], params["W_in"][...] = [1.5, -0.125], -1.0
    backend = DigitalBackend(network, params, DigitalConfig(accumulator_bits=20))
    limit = 2**19 - 1  # in 2^-19: just below one
    assert backend.clamp([[1.0]]).drive.tolist() == [[limit - 2**19, -limit]]
    assert backend.saturations.accumulator == 2
