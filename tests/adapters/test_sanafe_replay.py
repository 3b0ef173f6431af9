"""SANA-FE judges the event-driven chip: events exactly, energy and time within their limits."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.counts import OpCounts
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import Technology, shipped_technologies
from hw_sim.prices.yaml_file import load_yaml

pytest.importorskip("sanafe", reason="SANA-FE is an extra")
import sanafe

from adapters.sanafe_replay import replay, synapses

INPUTS, OUTPUTS = 8, 10
LOIHI = Path(sanafe.__file__).parent / "examples" / "loihi.yaml"
MAPPINGS = [(32, 32, 20), (64, 16, 20), (256, 32, 3), (256, 1024, 3)]
"""Hidden units, neurons on a core, steps."""


def weights(network: Network) -> Params:
    return initial_params(network, np.random.default_rng(0), np.float64)


def free_phase(
    hidden: int, per_core: int, steps: int, threshold: float
) -> tuple[SpikingBackend, int]:
    """A chip that has done nothing but relax one sample, and its steps: fewer, if it rests."""
    network = looped_mlp(INPUTS, hidden, OUTPUTS)
    chip = SpikingBackend(network, weights(network), SpikingConfig(threshold, per_core))
    clamped = chip.clamp(sample())
    chip.counts = OpCounts()
    free = chip.settle(clamped, relaxation=Relaxation(steps, 0.0))
    return chip, int(free.steps[0])


def sample() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((1, INPUTS))


def firing(hidden: int, steps: int, threshold: float) -> np.ndarray:
    """Who fires in each step, `(steps, hidden + outputs)`, by the rule of the units alone."""
    params = weights(looped_mlp(INPUTS, hidden, OUTPUTS))
    drive = sample()[0] @ params["W_in"] + params["b"]
    state, sent, rows = np.tanh(drive), np.zeros(hidden), []
    for _ in range(steps):
        fires = np.abs(state - sent) > threshold
        sent = np.where(fires, state, sent)
        state = np.tanh(drive + sent @ params["W_rec"])
        rows.append(np.concatenate([fires, np.zeros(OUTPUTS, bool)]))
    return np.array(rows)


def bill_of(chip: SpikingBackend, technology: Technology) -> Bill:
    network = chip.network
    tiles = chip.config.tiles(network)
    design = Design(network, 8, 8, chip.footprint.count(network), tiles=tiles)
    return Bill(technology, design, chip.counts)


@lru_cache(maxsize=1)
def technology() -> Technology:
    return load_yaml(LOIHI)


@pytest.mark.parametrize(("hidden", "per_core", "steps"), MAPPINGS)
def test_a_free_phase_costs_what_sanafe_says(hidden: int, per_core: int, steps: int) -> None:
    """Every unit speaks in every step. Only queues and routes are missing, so it is no slower."""
    chip, _ = free_phase(hidden, per_core, steps, threshold=0.0)
    judge = replay(chip.network, firing(hidden, steps, 0.0), per_core)
    assert judge.spikes == chip.counts.total("spike_out") == steps * hidden
    assert judge.synaptic_events == chip.counts.total("mac")
    assert judge.packets == chip.counts.total("message")
    for prices in (technology(), shipped_technologies()["loihi_like"]):
        bill = bill_of(chip, prices)
        assert bill.energy_j == pytest.approx(judge.energy_j, rel=0.03)
        assert bill.latency_s == pytest.approx(judge.time_s, rel=0.1)
        assert bill.latency_s <= judge.time_s * (1 + 1e-9)


@pytest.mark.parametrize("threshold", [0.002, 0.02])
def test_the_schedule_is_that_of_sanafe_without_routes(threshold: float) -> None:
    """Its simple model is the same sum, whoever speaks; outputs have a core of their own here."""
    chip, steps = free_phase(64, 16, 12, threshold)
    fires = firing(64, steps, threshold)
    assert fires[-1].sum() < fires[0].sum() / 2
    judge = replay(chip.network, fires, 16, timing="simple")
    assert judge.spikes == chip.counts.total("spike_out") == fires.sum()
    assert judge.synaptic_events == chip.counts.total("mac")
    assert judge.packets == chip.counts.total("message")
    bill = bill_of(chip, technology())
    assert bill.latency_s == pytest.approx(judge.time_s, rel=1e-9)
    whole = replay(chip.network, fires, 16, timing="detailed")
    assert 0.9 * whole.time_s < bill.latency_s < whole.time_s
    assert bill.energy_j == pytest.approx(whole.energy_j, rel=0.03)


def test_a_chip_is_as_fast_as_the_description_says() -> None:
    times = technology().prices["latency"]
    kinds = ("busy_update", "busy_spike", "busy_send", "busy_receive", "busy_synapse")
    stated = [1e9 * times[kind].value for kind in kinds]
    assert SpikingConfig().lengths_ns == pytest.approx(stated)


def test_synapses_are_those_of_the_couplings() -> None:
    """Both ways between layers, each ordered pair within one, and to the outputs and back."""
    looped = synapses(looped_mlp(2, 3, 2))
    assert sorted(looped) == sorted(
        [(i, j) for i in range(3) for j in range(3)]
        + [(i, k) for i in range(3) for k in (3, 4)]
        + [(k, i) for i in range(3) for k in (3, 4)]
    )
    deep = synapses(layered((2, 2, 1), "hard_sigmoid", "squared_error"))
    assert sorted(deep) == [(0, 2), (1, 2), (2, 0), (2, 1)]
    images = conv_net((3, 4, 2), (2, 3), 2)
    inside = [link for link in images.links.values() if link.source in images.columns]
    inside += [images.reading.link]  # type: ignore[union-attr, list-item]
    there = sum(int((link.gather >= 0).sum()) * link.fan_out for link in inside)
    assert len(synapses(images)) == 2 * there


@pytest.mark.parametrize(
    ("shape", "per_core", "timing", "said"),
    [
        ((1, 4), 2, "simple", r"fired has shape \(1, 4\), expected \(steps, 5\)"),
        ((1, 5), 0, "simple", "neurons_per_core is 0"),
        ((1, 5), 2, "exact", "timing is 'exact'"),
    ],
)
def test_what_cannot_be_replayed_gets_one_sentence(
    shape: tuple[int, int], per_core: int, timing: str, said: str
) -> None:
    with pytest.raises(EngineError, match=said):
        replay(looped_mlp(2, 3, 2), np.zeros(shape), per_core, timing)


def test_a_network_that_needs_more_cores_is_refused() -> None:
    with pytest.raises(EngineError, match="140 neurons need 140 cores of 1, the chip has 128"):
        replay(looped_mlp(2, 130, 10), np.zeros((1, 140)), 1)
