"""Every event of a training step, entered once more by hand: on every chip, to the last one."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from engine.equilibrium import Equilibrium, Relaxation
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.chips.substrate import Substrate
from tests.hw_sim.chips.hand_chip import NETWORKS, HandChip, Settled, strong_params
from tests.hw_sim.chips.hand_crossbar import HandCrossbar
from tests.hw_sim.chips.hand_digital import HandDigital
from tests.hw_sim.chips.hand_events import HandEvents

SAMPLES = 3
FREE, NUDGED = Relaxation(6, 0.02), Relaxation(4, 0.005)
BETA = 0.7
"""No multiple of the finest nudge."""
each_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def batch(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, one of them zero and one beyond each end of its range, and targets."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(0.0, 1.0, (SAMPLES, network.inputs)), rng.random((SAMPLES, network.outputs))
    x[0, 0], x[1, 1], x[2, 0] = 0.0, 5.0, -9.0
    return x, y / y.sum(1, keepdims=True)


def updates(network: Network) -> list[np.ndarray]:
    """Symmetric updates: small, none for some weights, and one beyond every range."""
    found = []
    for scale in (0.002, 0.3):
        update = Params(network, np.random.default_rng(6).normal(0.0, scale, network.size))
        for name in ("W_rec", "W_self"):
            if name in update:
                update[name][...] = update[name] + update[name].T
        update.theta[2] = 0.0
        found.append(update.theta)
    found[1][0] = 50.0
    return found


CHIPS: dict[str, tuple[Any, Any, Any]] = {
    "wide words": (DigitalBackend, HandDigital, DigitalConfig(12, 10, 40, 3, 12)),
    "narrow words": (
        DigitalBackend, HandDigital,
        DigitalConfig(8, 7, 13, 4, 9, table_range=4.0, input_range=2.0, seed=77),
    ),
    "few words": (
        DigitalBackend, HandDigital,
        DigitalConfig(6, 5, 10, None, 20, weight_range=1.0, table_range=2.0),
    ),
    "short tables": (
        DigitalBackend, HandDigital,
        DigitalConfig(10, 8, 40, None, 5, weight_range=4.0, table_range=0.25),
    ),
    "cells": (CrossbarBackend, HandCrossbar, CrossbarConfig(on_off_ratio=20.0, weight_range=3.0)),
    "converters": (
        CrossbarBackend, HandCrossbar,
        CrossbarConfig(weight_range=4.0, dac_bits=6, adc_bits=5, input_range=2.0, adc_range=1.5),
    ),
    "analog states": (
        CrossbarBackend, HandCrossbar,
        CrossbarConfig(dac_bits=4, adc_bits=5, adc_range=1.5, convert_each_step=False),
    ),
    "noisy reads": (
        CrossbarBackend, HandCrossbar,
        CrossbarConfig(on_off_ratio=20.0, weight_range=3.0, read_noise=0.05, seed=3),
    ),
    "noise before converters": (
        CrossbarBackend, HandCrossbar,
        CrossbarConfig(dac_bits=7, adc_bits=7, input_range=2.0, adc_range=4.0, read_noise=0.1),
    ),
    "tiles": (
        CrossbarBackend, HandCrossbar,
        CrossbarConfig(dac_bits=6, adc_bits=6, adc_range=1.3, tile_rows=2, tile_columns=1),
    ),
    "noisy tiles": (
        CrossbarBackend, HandCrossbar, CrossbarConfig(read_noise=0.05, tile_rows=1, tile_columns=2),
    ),
    "rows of tiles": (CrossbarBackend, HandCrossbar, CrossbarConfig(tile_rows=2, adc_bits=5)),
    "analog tiles": (
        CrossbarBackend, HandCrossbar,
        CrossbarConfig(convert_each_step=False, dac_bits=4, tile_rows=2, tile_columns=1),
    ),
    "split arrays": (CrossbarBackend, HandCrossbar, CrossbarConfig(split_arrays=True)),
    "events": (SpikingBackend, HandEvents, SpikingConfig(0.05, neurons_per_core=2)),
    "rare events": (SpikingBackend, HandEvents, SpikingConfig(0.4, neurons_per_core=1)),
    "one core": (SpikingBackend, HandEvents, SpikingConfig(1e-4)),
    "many cores": (SpikingBackend, HandEvents, SpikingConfig(1e-4, neurons_per_core=1)),
}  # fmt: skip
each_chip = pytest.mark.parametrize(("make", "by_hand", "config"), CHIPS.values(), ids=CHIPS)


def same(settled: Equilibrium, by_hand: list[Settled]) -> None:
    """Compare where samples ended, after how many steps, and how far from rest."""
    np.testing.assert_allclose(settled.state, [s.state for s in by_hand], atol=1e-9)
    assert settled.steps.tolist() == [s.steps for s in by_hand]
    np.testing.assert_allclose(settled.residual, [s.residual for s in by_hand], atol=1e-9)


def step_of(chip: Substrate, hand: HandChip, update: np.ndarray) -> None:
    """Free phase, both nudges, both parts of the rule, outputs and update, on both."""
    network, (x, y) = chip.network, batch(chip.network)
    gradient, expected = np.zeros(network.size), np.zeros(network.size)
    clamped = chip.clamp(x, y)
    hand.clamp(x.tolist(), y.tolist())
    free = chip.settle(clamped, relaxation=FREE)
    same(free, [hand.relax(n, 0.0, FREE) for n in range(SAMPLES)])
    starts = free.state.tolist()
    for beta in (BETA, -BETA):
        found = chip.settle(clamped, beta, NUDGED, free.state)
        settled = [hand.relax(n, beta, NUDGED, starts[n]) for n in range(SAMPLES)]
        same(found, settled)
        chip.accumulate(clamped, found, gradient, energy=3.0 * beta)
        for n in range(SAMPLES):
            expected += hand.learn(n, settled[n].state, 3.0 * beta)
    chip.accumulate(clamped, free, gradient, cost=0.5)
    for n in range(SAMPLES):
        expected += hand.learn_readout(n, starts[n], 0.5)
    np.testing.assert_allclose(gradient, expected, atol=1e-9)
    outputs = [hand.predict(n, starts[n]) for n in range(SAMPLES)]
    np.testing.assert_allclose(chip.predict(free), outputs, atol=1e-9)
    chip.apply(update)
    hand.apply(update.tolist())


@each_network
@each_chip
def test_every_event_is_entered_by_hand(
    network: Network, make: Any, by_hand: Any, config: Any
) -> None:
    """In two steps of training: the second sees the weights that the first has changed."""
    params = strong_params(network)
    chip, hand = make(network, params, config), by_hand(network, params.theta.tolist(), config)
    for update in updates(network):
        step_of(chip, hand, update)
        assert dict(chip.counts) == dict(hand.ledger)
        if isinstance(chip, DigitalBackend):
            assert chip.words.tolist() == hand.words
            held = [word / 2**hand.g for word in hand.words]
            np.testing.assert_array_equal(chip.params.theta, held)
            assert asdict(chip.saturations) == hand.clipped
        else:
            np.testing.assert_allclose(chip.params.theta, hand.weights, atol=1e-12)
