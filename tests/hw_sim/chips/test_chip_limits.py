"""Limits and symmetries of the chips: the error of a table, settings at their ends, who is who."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model import dynamics
from engine.model.builders import energy_transformer, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.counts import OpCounts
from hw_sim.rivals.backprop import Rival
from tests.hw_sim.chips.hand_chip import NETWORKS, strong_params

STEPS = Relaxation(5, 0.0)
CHIPS = {
    "digital": partial(DigitalBackend, config=DigitalConfig(20, 20, 50, None, 20)),
    "crossbar": partial(CrossbarBackend, config=CrossbarConfig(adc_bits=12, dac_bits=12)),
    "spiking": partial(SpikingBackend, config=SpikingConfig(1e-3)),
}
each_chip = pytest.mark.parametrize("make", CHIPS.values(), ids=CHIPS)


@pytest.mark.parametrize("activation", ["tanh", "hard_sigmoid"])
@pytest.mark.parametrize("bits", [(8, 8, 6, 4.0), (12, 6, 10, 4.0), (8, 10, 9, 2.0)])
def test_a_table_is_as_far_off_as_it_may_be_and_no_further(
    bits: tuple[int, int, int, float], activation: str
) -> None:
    """Over all drives from -8 to 8; the bound is that of `docs/hardware.md`."""
    weight_bits, state_bits, table_bits, table_range = bits
    config = DigitalConfig(
        weight_bits, state_bits, 40, None, table_bits, input_range=8.0, table_range=table_range
    )
    network = looped_mlp(1, 1, 2, activation)
    params = Params(network, np.zeros(network.size))
    params["W_in"][...] = 1.0
    drives = np.arange(-8.0, 8.0, 2.0**-9)[1:, None]
    chip = DigitalBackend(network, params, config)
    seen = chip._seen_input(drives)
    found = chip.settle(chip.clamp(drives), relaxation=Relaxation(1, 2.0)).state
    ideal = np.tanh(seen) if activation == "tanh" else np.clip(seen, 0.0, 1.0)
    error = np.abs(found - ideal).max()
    t = min(table_bits - 1 - np.log2(table_range), config.weight_fraction + state_bits - 1)
    tail = 1.0 - np.tanh(table_range - 2.0**-t)
    assert config.map_error == pytest.approx(0.5 * 2.0**-t + 2.0 ** (1 - state_bits) + tail)
    assert error <= config.map_error
    if activation == "tanh":  # a hard sigmoid has no tail
        assert error > 0.3 * config.map_error


@pytest.mark.parametrize("bits", [5, 12])
def test_the_odds_of_a_softmax_are_exp_to_24_bits(bits: int) -> None:
    config = DigitalConfig(table_bits=bits, table_range=2.0)
    network = looped_mlp(1, 1, 2)
    odds = DigitalBackend(network, Params(network, np.zeros(network.size)), config)._words.odds
    depth = np.arange(2 * 2**bits) * 2.0**-config.table_fraction
    assert depth.max() == 8.0 - depth[1]
    off = odds * 2.0**-24 - np.exp(-depth)
    assert 2.0**-27 < np.abs(off).max() <= 2.0**-25
    assert odds.tolist() == sorted(odds.tolist(), reverse=True)
    assert odds[0] == 2**24


def _at_rest() -> tuple[Network, Params]:
    network = looped_mlp(2, 3, 2)
    return network, Params(network, np.zeros(network.size))


@each_chip
def test_a_chip_at_rest_has_converged_at_no_tolerance(make: Any) -> None:
    """At once where the drive is the fixed point, and where words leave it no room to move."""
    for network, params in (_at_rest(), (NETWORKS["looped"], strong_params(NETWORKS["looped"]))):
        chip = make(network, params)
        found = chip.settle(
            chip.clamp(np.zeros((2, network.inputs))), relaxation=Relaxation(2, 0.0)
        )
        np.testing.assert_array_equal(found.converged, found.residual == 0.0)
        resting = not params.theta.any()
        assert (found.steps == (1 if resting else 2)).all()
        assert (found.residual == 0.0).all() == resting


@each_chip
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_relaxation_starts_where_it_is_told_to(make: Any, network: Network) -> None:
    """One step from a given state is `T` of it, by the formulas of the engine."""
    rng, params = np.random.default_rng(7), strong_params(network)
    start = rng.uniform(0.0, 0.9, (2, network.units))
    x, y = rng.uniform(-1.0, 1.0, (2, network.inputs)), rng.random((2, network.outputs))
    y /= y.sum(1, keepdims=True)
    chip = make(network, params)
    clamped = chip.clamp(x, y)
    for beta in (0.0, 0.5):
        found = chip.settle(clamped, beta, Relaxation(1, 0.0), start).state
        drive = dynamics.clamped_drive(network, params, x)
        ideal = dynamics.step(network, params, x, y, start, beta, drive)
        np.testing.assert_allclose(found, ideal, atol=0.01)


def test_an_event_is_a_change_and_nothing_less() -> None:
    network, params = _at_rest()
    chip = SpikingBackend(network, params, SpikingConfig(0.0))
    clamped = chip.clamp(np.zeros((2, 2)), np.full((2, 2), 0.5))  # what a softmax of nothing says
    before = chip.counts.copy()
    free = chip.settle(clamped, relaxation=Relaxation(3, 0.0))
    chip.settle(clamped, 0.5, Relaxation(3, 0.0), free.state)
    chip.predict(free)
    done = chip.counts - before
    assert done.total("activation") > 0
    assert done.total("message") == done.total("weight_read") == 0


@pytest.mark.parametrize("largest", [0, 1, 2])
def test_a_softmax_of_large_logits_is_a_choice(largest: int) -> None:
    """No exponential overflows, whichever output it is, on chips of real numbers."""
    network = looped_mlp(1, 1, 3)
    params = Params(network, np.zeros(network.size))
    params["b"][...], params["W_out"][0, largest] = 2.0, 1000.0
    roomy = CrossbarConfig(on_off_ratio=np.inf, weight_range=2000.0)
    for chip in (SpikingBackend(network, params), CrossbarBackend(network, params, roomy)):
        settled = chip.settle(chip.clamp([[0.0]]), relaxation=Relaxation(5, 0.0))
        assert chip.predict(settled).tolist() == [np.eye(3)[largest].tolist()]
        assert Rival(1).predict(chip, np.zeros((1, 1))).tolist() == [np.eye(3)[largest].tolist()]


def test_a_start_at_the_edge_is_the_last_word_of_a_state() -> None:
    network, params = _at_rest()
    chip = DigitalBackend(network, params)
    clamped, word = chip.clamp(np.zeros((1, 2))), 2.0**-chip.config.state_fraction
    for edge in (-1.0, 1.0):
        found = chip.settle(clamped, 0.0, Relaxation(1, 0.0), np.full((1, 3), edge))
        assert found.residual.tolist() == [1.0 - word]  # it moves to zero
        assert (found.state == 0.0).all()


def test_the_finest_nudge_is_a_word_and_half_of_it_is_rounded_up() -> None:
    network, params = _at_rest()
    chip = DigitalBackend(network, params)
    clamped = chip.clamp(np.zeros((1, 2)), [[0.0, 1.0]])
    for beta in (2.0**-12, -(2.0**-12), 2.0**-13):
        assert chip.settle(clamped, beta).beta == beta
    with pytest.raises(EngineError, match=r"is below the finest nudge, 2\^-12"):
        chip.settle(clamped, 2.0**-13 * 0.99)


@pytest.mark.parametrize(
    ("knob", "low", "high"),
    [
        ("weight_bits", 2, 24), ("state_bits", 2, 24), ("accumulator_bits", 4, 60),
        ("table_bits", 2, 20), ("readout_bits", 2, 10), ("seed", 1, 2**32 - 1),
    ],
)  # fmt: skip
def test_both_ends_of_a_width_are_taken_and_nothing_beyond(knob: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(DigitalConfig(**{knob: value}), knob) == value  # type: ignore[arg-type]
    for bad in (low - 1, high + 1):
        with pytest.raises(EngineError, match=f"the digital substrate has {knob} {bad}"):
            DigitalConfig(**{knob: bad})  # type: ignore[arg-type]
    for bad in (low + 0.5, True):
        with pytest.raises(EngineError, match=f"DigitalConfig: {knob} is {bad}, expected a whole"):
            DigitalConfig(**{knob: bad})  # type: ignore[arg-type]


@pytest.mark.parametrize("knob", ["weight_range", "input_range", "table_range"])
def test_ranges_are_powers_of_two(knob: str) -> None:
    for value in (0.25, 1.0, 2.0, 16.0):
        assert getattr(DigitalConfig(**{knob: value}), knob) == value  # type: ignore[arg-type]
    for bad in (0.0, -2.0, 3.0, 0.3, float("nan")):
        with pytest.raises(EngineError, match=f"{knob} {bad}, expected a power of two"):
            DigitalConfig(**{knob: bad})  # type: ignore[arg-type]
    assert DigitalConfig(weight_bits=4, weight_range=8.0).weight_fraction == 0
    with pytest.raises(EngineError, match="weight_bits 4, too few for weight_range 16"):
        DigitalConfig(weight_bits=4, weight_range=16.0)


def test_a_threshold_is_at_least_nothing_and_below_the_whole_range() -> None:
    assert SpikingConfig(0.0, 1).neurons_per_core == 1
    for threshold, cores in ((-1e-9, 1), (1.0, 1), (0.1, 0), (0.1, -3)):
        with pytest.raises(EngineError, match=r"threshold|neurons_per_core"):
            SpikingConfig(threshold, cores)


def test_only_event_driven_chips_have_cores() -> None:
    network = looped_mlp(2, 3, 2)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    assert SpikingBackend(network, params, SpikingConfig(0.1, 7)).neurons_per_core == 7
    for other in (DigitalBackend, CrossbarBackend):
        assert other(network, params).neurons_per_core == 0


def _permuted(network: Network, params: Params, order: np.ndarray) -> Params:
    """The same network with its hidden units in another order."""
    other = params.copy()
    other["W_in"][...] = params["W_in"][:, order]
    other["b"][...] = params["b"][order]
    other["W_rec"][...] = params["W_rec"][order][:, order]
    other["W_out"][...] = params["W_out"][order]
    return other


def _run(chip: Any, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
    clamped, gradient = chip.clamp(x, y), np.zeros(chip.network.size)
    free = chip.settle(clamped, relaxation=STEPS)
    nudged = chip.settle(clamped, 0.5, STEPS, free.state)
    chip.accumulate(clamped, nudged, gradient, energy=1.0)
    chip.accumulate(clamped, free, gradient, cost=1.0)
    chip.predict(free)
    return nudged.state, gradient, chip.counts


@each_chip
def test_it_does_not_matter_which_unit_and_which_sample_comes_first(make: Any) -> None:
    network, rng = NETWORKS["looped"], np.random.default_rng(3)
    params = initial_params(network, rng, np.float64)
    x, y = rng.standard_normal((4, 3)), np.eye(2)[[0, 1, 1, 0]]
    units, samples = np.array([2, 0, 3, 1]), np.array([3, 1, 0, 2])
    state, gradient, counts = _run(make(network, params), x, y)
    turned, slopes, more = _run(
        make(network, _permuted(network, params, units)), x[samples], y[samples]
    )
    np.testing.assert_allclose(turned, state[samples][:, units], atol=1e-9)
    expected = _permuted(network, Params(network, gradient), units)
    np.testing.assert_allclose(slopes, expected.theta, atol=1e-9)
    assert more == counts


@each_chip
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_batch_is_its_samples_one_by_one(make: Any, network: Network) -> None:
    """Gradients, counts and saturations add up; nothing is left from one sample to the next."""
    rng = np.random.default_rng(4)
    params = initial_params(network, rng, np.float64)
    x, y = rng.standard_normal((3, network.inputs)), rng.random((3, network.outputs))
    y /= y.sum(1, keepdims=True)
    states, gradient, counts = _run(make(network, params), x, y)
    alone = [_run(make(network, params), x[k : k + 1], y[k : k + 1]) for k in range(3)]
    np.testing.assert_array_equal(states, np.concatenate([state for state, _, _ in alone]))
    np.testing.assert_allclose(gradient, sum(slopes for _, slopes, _ in alone), atol=1e-12)
    assert counts == alone[0][2] + alone[1][2] + alone[2][2]


@each_chip
def test_events_of_a_relaxation_are_linear_in_its_steps(make: Any) -> None:
    """Where all units work in every step; an event-driven chip still activates all of them."""
    network = NETWORKS["mixed"]
    params = strong_params(network)
    x, y, counts = np.ones((1, 2)), np.array([[0.2, 0.5, 0.3]]), []
    for steps in (1, 2, 3):
        chip = make(network, params)
        clamped = chip.clamp(x, y)
        before = chip.counts.copy()
        chip.settle(clamped, 0.5, Relaxation(steps, 0.0))
        counts.append(chip.counts - before)
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    if make is CHIPS["spiking"]:
        first, second = (
            OpCounts.from_rows([(*key, n) for key, n in part if key[2] == "activation"])
            for part in (first, second)
        )
    assert first == second
    assert first.total("activation") == network.units + network.outputs


def test_damping_has_no_chip() -> None:
    network = NETWORKS["looped"]
    for make in CHIPS.values():
        chip: Any = make(network, initial_params(network, np.random.default_rng(0), np.float64))
        with pytest.raises(EngineError, match="has no damping; it takes whole steps"):
            chip.settle(chip.clamp(np.ones((1, 3))), relaxation=Relaxation(damping=0.5))


def test_what_has_no_model_is_named() -> None:
    tokens = energy_transformer(
        vocabulary=3, length=2, width=2, heads=1, head_size=2, outputs=2, memories=0
    )
    params = initial_params(tokens, np.random.default_rng(0), np.float64)
    with pytest.raises(
        EngineError, match=r"coupling '.*' \(Embedding\) has no model in hw_sim: it is no link"
    ):
        DigitalBackend(tokens, params)

    class Sharper(SoftmaxReadout):
        """Predicts otherwise than its parent, without saying what it is to a chip."""

        def predict(self, blocks: Mapping[str, Any], s: Any) -> Any:
            return super().predict(blocks, 2 * s)

    plain = NETWORKS["looped"]
    strange = replace(plain, readout=Sharper("hidden", 2))
    with pytest.raises(EngineError, match="the read-out Sharper has no model in hw_sim"):
        DigitalBackend(strange, Params(strange, np.zeros(strange.size)))
