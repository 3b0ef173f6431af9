"""What a step of the event-driven chip waits for: its busiest core, then one barrier."""

from dataclasses import replace

import numpy as np
import pytest

from engine.couplings.link import ONE
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from hw_sim.chips.landing import homes_on_cores, landing, learned
from hw_sim.chips.mesh import fan_out
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.counts import OpCounts
from hw_sim.events import WAITS
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import shipped_technologies

LOIHI = shipped_technologies()["loihi_like"]
STEPS = 6
IMAGES = conv_net((4, 4, 1), (2, 3), 3, activation="tanh")


def relaxed(
    network: Network,
    config: SpikingConfig,
    beta: float = 0.0,
    samples: int = 2,
    steps: int = STEPS,
) -> SpikingBackend:
    """A chip that has relaxed for so many steps or to rest, and forgot what came before."""
    rng = np.random.default_rng(0)
    params = initial_params(network, rng, np.float64)
    for link in network.links.values():
        if link.source == ONE:
            params[link.block][...] = 0.1
    chip = SpikingBackend(network, params, config)
    y = np.eye(network.outputs)[np.zeros(samples, int)]
    clamped = chip.clamp(rng.standard_normal((samples, network.inputs)), y)
    chip.counts = OpCounts()
    chip.settle(clamped, beta, Relaxation(steps, 0.0))
    return chip


def time_s(chip: SpikingBackend) -> float:
    tiles = chip.config.tiles(chip.network)
    design = Design(chip.network, 8, 8, chip.footprint.count(chip.network), tiles=tiles)
    return Bill(LOIHI, design, chip.counts).latency_s


def test_fuller_cores_take_longer() -> None:
    """Synaptic operations follow one another in a core: the more of them there, the later."""
    network = looped_mlp(4, 64, 4)
    times = [time_s(relaxed(network, SpikingConfig(0.0, n))) for n in (4, 8, 16, 32, 68)]
    assert times == sorted(times)
    assert times[-1] > 4 * times[0]


def test_a_dense_step_is_that_of_the_formula() -> None:
    """32 events meet 32 synapses on the first of two cores, which are one tile."""
    chip = relaxed(looped_mlp(4, 32, 10), SpikingConfig(0.0, 32), samples=1)
    assert time_s(chip) == pytest.approx(STEPS * (32 * (16e-9 + 32 * 3.8e-9) + 0.6e-6))


def test_a_silent_step_updates_its_units_and_waits() -> None:
    chip = relaxed(looped_mlp(4, 40, 10), SpikingConfig(0.999, 16), samples=1, steps=1)
    waits = {kind: chip.counts.total(kind) for kind in WAITS}
    assert waits == dict.fromkeys(WAITS, 0) | {"busy_update": 16, "barrier": 1}


def test_the_barrier_is_paid_once_a_step() -> None:
    """Twice where errors are told after the states, as those of a softmax are."""
    for network, times in (
        (looped_mlp(4, 12, 3), 2),
        (layered((4, 5, 3), "hard_sigmoid", "squared_error"), 1),
    ):
        config = SpikingConfig(0.0, 4)
        assert relaxed(network, config).counts.total("barrier", "free") == 2 * STEPS
        nudged = relaxed(network, config, beta=0.1).counts
        assert nudged.total("barrier", "nudged") == times * 2 * STEPS


def test_who_sends_to_many_cores_is_waited_for() -> None:
    """Where events are quickly taken in, a step lasts as long as its updates and sends."""
    slow, fast = SpikingConfig(0.0, 2), SpikingConfig(0.0, 2, receive_ns=0.0, synapse_ns=0.0)
    network = looped_mlp(4, 8, 2)
    heard, sent = (relaxed(network, config, samples=1).counts for config in (slow, fast))
    assert heard.total("busy_send") == sent.total("busy_receive") == 0
    assert heard.total("busy_receive") == STEPS * 8
    assert heard.total("busy_synapse") == STEPS * 8 * 2
    assert sent.total("busy_update") == sent.total("busy_spike") == STEPS * 2
    assert sent.total("busy_send") == STEPS * 2 * 5
    events = [{key: n for key, n in counts if key[2] not in WAITS} for counts in (heard, sent)]
    assert events[0] == events[1]


def test_with_other_prices_a_path_is_no_longer_than_the_longest() -> None:
    """The chip chooses by its own times; a technology of other ones gets a lower bound."""
    network, times = looped_mlp(4, 24, 3), LOIHI.prices["latency"]
    slow = replace(times["busy_update"], value=1e-6, low=1e-6, high=1e-6)
    other = replace(LOIHI, prices={**LOIHI.prices, "latency": {**times, "busy_update": slow}})
    found = []
    for config in (SpikingConfig(0.01, 8), SpikingConfig(0.01, 8, update_ns=1000.0)):
        chip = relaxed(network, config)
        design = Design(network, 8, 8, chip.footprint.count(network))
        found.append(Bill(other, design, chip.counts).latency_s)
    assert found[0] < found[1]


@pytest.mark.parametrize("network", [looped_mlp(3, 7, 2), layered((3, 6, 5, 2)), IMAGES])
@pytest.mark.parametrize("per_core", [1, 3, 100])
def test_events_land_where_messages_go(network: Network, per_core: int) -> None:
    home = homes_on_cores(network, per_core)
    found = landing(network, home)
    assert np.diff(found.first).tolist() == fan_out(network, per_core)[:, 0].tolist()
    assert found.synapses.min() > 0
    chip = relaxed(network, SpikingConfig(0.0, per_core), samples=1, steps=1)
    of_units = found.synapses[: found.first[network.units]]
    assert chip.counts.total("mac", "free") == of_units.sum()
    local, delta = learned(network, home)
    assert local.sum() == sum(link.macs for link in network.links.values() if link.source != ONE)
    assert network.reading is not None
    assert delta.sum() == (network.reading.link.macs if network.reading.link else 0)


@pytest.mark.parametrize(
    "setting", ["update_ns", "spike_ns", "send_ns", "receive_ns", "synapse_ns"]
)
def test_a_bad_time_gets_one_sentence(setting: str) -> None:
    for value in (-1.0, float("nan"), 1e10):
        with pytest.raises(EngineError, match=f"spiking substrate has {setting}"):
            SpikingConfig(**{setting: value})


def test_smaller_tiles_make_the_barrier_longer() -> None:
    network, config = looped_mlp(4, 12, 4), SpikingConfig(0.0, 4)
    apart = replace(config, cores_per_tile=1)
    assert (config.tiles(network), apart.tiles(network)) == (1, 4)
    assert time_s(relaxed(network, apart)) - time_s(relaxed(network, config)) == pytest.approx(
        2 * STEPS * (1.4e-6 - 0.6e-6)
    )
    with pytest.raises(EngineError, match="cores_per_tile is 0"):
        SpikingConfig(cores_per_tile=0)


def test_its_own_times_are_those_of_its_technology() -> None:
    times = LOIHI.prices["latency"]
    own = [1e9 * times[kind].value for kind in WAITS if kind != "barrier"]
    assert SpikingConfig().lengths_ns == pytest.approx(own)
    barriers = [LOIHI.price_at("latency", "barrier", {"tiles": n}).value for n in (1, 3, 28, 29)]
    assert barriers == pytest.approx([0.6e-6, 1.0e-6, 1.4e-6, 1.8e-6])
