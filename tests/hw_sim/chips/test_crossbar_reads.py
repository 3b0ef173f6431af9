"""Reads of an array: noise column by column, converters, and arrays of their own for a phase."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import layered
from engine.model.network import Network
from engine.model.params import Params, initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from tests.hw_sim.chips.hand_chip import NETWORKS, HandChip

IDEAL = CrossbarConfig(on_off_ratio=np.inf)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_noise_of_a_read_is_the_root_of_the_squares_of_the_cells_of_a_column(
    network: Network,
) -> None:
    """`sigma R sqrt(sum g^2)`: of the input arrays, of the recurrent ones, and both ways out."""
    rng, sigma, off = np.random.default_rng(2), 0.07, 1 / 20
    params = Params(network, rng.normal(0.0, 0.4, network.size))
    for name in {"W_rec", "W_self"} & set(network.blocks):
        params[name][...] = params[name] + params[name].T
    config = CrossbarConfig(on_off_ratio=20.0, weight_range=3.0, read_noise=sigma)
    phase, hand = CrossbarBackend(network, params, config)._phases[0], HandChip(network)

    def power(weight: float) -> float:
        share = weight / 3.0 / (1 - off)
        return sum((off + (1 - off) * level) ** 2 for level in (0.5 + share / 2, 0.5 - share / 2))

    hand.wire(params.theta.tolist())
    units, fed = range(network.units), range(network.inputs)
    into = [
        sum(power(hand.w_in[i][j]) for i in fed) if hand.home[j] in hand.driven else 0.0
        for j in units
    ]
    among = [sum(power(hand.w[i][j]) for i in hand.sources_of(j)) for j in units]
    read, outputs = hand.read_units, range(network.outputs if hand.softmax else 0)
    out = [sum(power(hand.w_out[i][k]) for i in read) for k in outputs]
    back = [sum(power(hand.w_out[i][k]) for k in outputs) for i in read if hand.softmax]
    for found, squares in (
        (phase.noise_in, into), (phase.noise, among),
        (phase.noise_out, out), (phase.noise_back, back),
    ):  # fmt: skip
        np.testing.assert_allclose(found, sigma * 3.0 * np.sqrt(squares), rtol=1e-12)


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


@pytest.mark.parametrize("read", ["noise_in", "noise", "noise_out", "noise_back"])
def test_each_read_adds_the_noise_of_its_own_column(read: str) -> None:
    """Gaussian around the current without noise, for a column of each deviation."""
    network, samples = layered((2, 3, 4, 3)), 1500
    params = Params(network, np.random.default_rng(5).normal(0.0, 0.3, network.size))
    quiet, noisy = (
        CrossbarBackend(network, params, replace(IDEAL, read_noise=sigma)) for sigma in (0.0, 0.1)
    )
    phase = noisy._phases[0]
    for name in ("noise_in", "noise", "noise_out", "noise_back"):
        column = getattr(phase, name)
        column[:] = 0.01 * np.arange(1, len(column) + 1) * (name == read)
    deviation = getattr(phase, read)
    x, y = np.tile([[0.4, -0.7]], (samples, 1)), np.tile([[0.1, 0.2, 0.7]], (samples, 1))
    start, found = np.tile(np.linspace(-0.5, 0.5, network.units), (samples, 1)), []
    for chip in (quiet, noisy):
        clamped = chip.clamp(x, y)
        beta = 0.5 if read == "noise_back" else 0.0
        moved = chip.settle(clamped, beta, Relaxation(1, 0.0), start)
        told = np.log(chip.predict(replace(moved, state=start)))
        found.append(
            {
                "noise_in": clamped.drive[0],
                "noise": np.arctanh(moved.state),
                "noise_out": told - told[:, -1:],
                "noise_back": np.arctanh(moved.state[:, 3:]) / beta if beta else None,
            }[read]
        )
    ideal, seen = found
    expected = np.hypot(deviation, deviation[-1]) if read == "noise_out" else deviation
    expected = expected * (np.arange(len(expected)) != 2) if read == "noise_out" else expected
    if read == "noise_in":  # only the first layer has an input array
        expected = expected * (np.arange(len(expected)) < 3)
    np.testing.assert_allclose(seen.std(0), expected, rtol=0.1, atol=1e-9)
    assert (np.abs(seen.mean(0) - ideal[0]) <= 5 * expected / np.sqrt(samples) + 1e-9).all()
