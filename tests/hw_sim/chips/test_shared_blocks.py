"""Blocks that are read at many places: the chips do what the formulas say, and count each read."""

import tracemalloc
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import InputDrive
from engine.couplings.readout import SquaredError
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model import dynamics
from engine.model.network import Layer, Network
from engine.model.params import Params
from hw_sim.audit.training_step import audit_substrate
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.chips.substrate import Substrate
from hw_sim.counts import OpCounts
from hw_sim.formula import dense_counts
from hw_sim.places import BORDER
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import shipped_technologies
from tests.hw_sim.chips.patches import NETWORKS, Patches, batch_of, params_of, patched

FINE = DigitalConfig(24, 20, 60, None, 16, weight_range=16.0, input_range=64.0)
IDEAL = CrossbarConfig(on_off_ratio=np.inf)
EXACT = {
    "digital": (partial(DigitalBackend, config=FINE), 2e-3),
    "crossbar": (partial(CrossbarBackend, config=IDEAL), 1e-9),
    "spiking": (partial(SpikingBackend, config=SpikingConfig(0.0, 4)), 1e-9),
}
CHIPS = {"digital": DigitalBackend, "crossbar": CrossbarBackend, "spiking": SpikingBackend}
each_chip = pytest.mark.parametrize("make", CHIPS.values(), ids=CHIPS)
each_network = pytest.mark.parametrize("name", NETWORKS)


def _by_formula(network: Network, params: Params, x: Any, y: Any) -> list[Any]:
    """Free and nudged states, outputs and gradient, from the closed forms of couplings alone."""
    drive, states = dynamics.clamped_drive(network, params, x), []
    for beta in (0.0, 0.25):
        state = dynamics.activate(network, drive)
        for _ in range(200):
            state = dynamics.step(network, params, x, y, state, beta, drive)
        states.append(state)
    read = network.of(network.readout.layer, states[0])
    gradient = Params(network, np.zeros(network.size))
    for c in network.couplings:
        learned = c.correlate(params[c.name], x, *network.ends(c, states[1]))
        gradient[c.name][...] = -0.5 * learned
    for name, learned in network.readout.correlate(params, read, y).items():
        gradient[name][...] = learned
    return [*states, network.readout.predict(params, read), gradient.theta]


@each_network
@pytest.mark.parametrize("chip", EXACT)
def test_a_perfect_chip_does_what_the_formulas_say(chip: str, name: str) -> None:
    """Free and nudged states, what is read, and what is learned, of every kind of link."""
    network, (make, error) = NETWORKS[name], EXACT[chip]
    params, (x, y), way = params_of(network), batch_of(network), Relaxation(200, 1e-12)
    backend = make(network, params)
    clamped, gradient = backend.clamp(x, y), np.zeros(network.size)
    free = backend.settle(clamped, 0.0, way)
    nudged = backend.settle(clamped, 0.25, way, free.state)
    backend.accumulate(clamped, nudged, gradient, energy=0.5)
    backend.accumulate(clamped, free, gradient, cost=1.0)
    found = [free.state, nudged.state, backend.predict(free), gradient]
    for one, other in zip(found, _by_formula(network, params, x, y), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=10 * error)


@pytest.mark.parametrize("name", ["patches", "doubled", "edge"])
def test_the_engine_settles_where_a_perfect_chip_does(name: str) -> None:
    """But for a bias that is shared, which the compiled engine has not."""
    whole = NETWORKS[name]
    network = replace(whole, couplings=tuple(c for c in whole.couplings if c.name != "c"))
    params, (x, y), way = params_of(network), batch_of(network), Relaxation(200, 1e-13)
    backends = NumbaBackend(network, params), CrossbarBackend(network, params, IDEAL)
    states = [backend.settle(backend.clamp(x, y), 0.25, way).state for backend in backends]
    np.testing.assert_allclose(*states, atol=1e-11)


def _trained(make: Any, network: Network, steps: int = 3) -> tuple[Substrate, int]:
    """Learn from a batch with fixed steps; return the chip and the samples."""
    chip, (x, y) = make(network, params_of(network)), batch_of(network)
    gradient, clamped, way = np.zeros(network.size), chip.clamp(x, y), Relaxation(steps, 0.0)
    free = chip.settle(clamped, 0.0, way)
    for sign in (-1.0, 1.0):
        nudged = chip.settle(clamped, 0.25 * sign, way, free.state)
        chip.accumulate(clamped, nudged, gradient, energy=sign)
    chip.accumulate(clamped, free, gradient, cost=1.0)
    return chip, len(x)


@each_network
def test_the_closed_formula_is_what_the_digital_chip_did(name: str) -> None:
    network = NETWORKS[name]
    chip, samples = _trained(DigitalBackend, network)
    due = dense_counts(network, samples, 3 * samples, 6 * samples, phases=2)
    assert {key: n for key, n in chip.counts if key[1] != BORDER} == dict(due)


# By hand: windows on the input see 4 of 11 at 6 places, those on the line 4 of 9 at 5 places. The
# first of them reaches beyond its end by one unit, the last by two.
INSIDE_X, INSIDE_P = 6 * 4 - 3, 5 * 4 - 3


def test_the_windows_are_those_that_are_counted_by_hand() -> None:
    assert len(Patches("W", "input", "seen").entries(11, 6)) == INSIDE_X
    assert len(Patches("W", "line", "map").entries(9, 5)) == INSIDE_P
    links = patched().links
    assert (links["W_x"].gather >= 0).sum() == INSIDE_X
    assert (links["W_p"].gather >= 0).sum() == INSIDE_P


def _one_step(make: Any) -> tuple[OpCounts, OpCounts]:
    """Return what a chip counts for one input, and for one evaluation of `T` from a given state."""
    network = patched()
    chip, (x, y) = make(network, params_of(network)), batch_of(network, 1)
    clamped, before = chip.clamp(x, y), chip.counts.copy()
    start = np.random.default_rng(2).uniform(0.2, 0.9, (1, network.units))
    chip.settle(clamped, 0.0, Relaxation(1, 0.0), start)
    return before, chip.counts - before


def _by_place(counts: OpCounts) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (_, place, kind), n in counts:
        found.setdefault(place, {})[kind] = n
    return found


def test_the_digital_chip_multiplies_at_every_place() -> None:
    fed, step = map(_by_place, _one_step(DigitalBackend))
    assert fed["seen"] == Counter(
        mac=6 * 4 * 2, weight_read=6 * 4 * 2 + 12, state_read=INSIDE_X, state_write=12
    )
    assert fed["line"]["mac"] == 11 * 9
    assert step["map"] == Counter(
        mac=5 * 4 * 3 + 15 * 15, weight_read=5 * 4 * 3 + 15 * 15,
        state_read=INSIDE_P + 15 + 15, activation=15, state_write=15, compare=15,
    )  # fmt: skip
    assert step["line"] == Counter(
        mac=5 * 3 * 4, weight_read=5 * 3 * 4, state_read=15 + 9, activation=9, state_write=9,
        compare=9,
    )  # fmt: skip
    assert step["seen"] == Counter(state_read=12, activation=12, state_write=12, compare=12)


def test_the_crossbar_reads_the_whole_array_at_every_place() -> None:
    """A unit converts once for all arrays it hears once, and once more for each other read."""
    fed, step = map(_by_place, _one_step(CrossbarBackend))
    assert fed["seen"] == Counter(
        cell_read=2 * 6 * 4 * 2, conversion=INSIDE_X + 12, weight_read=12, state_write=12
    )
    assert step["map"] == Counter(
        cell_read=2 * (5 * 4 * 3 + 15 * 15), conversion=INSIDE_P + 15 + 15,
        state_read=INSIDE_P + 15 + 15, activation=15, state_write=15, compare=15,
    )  # fmt: skip
    assert step["line"] == Counter(
        cell_read=2 * 5 * 3 * 4, conversion=15 + INSIDE_P, state_read=15 + 9,
        activation=9, state_write=9, compare=9,
    )  # fmt: skip


def test_events_work_only_where_somebody_listens() -> None:
    """All units speak; those of the line are heard where a window holds them."""
    fed, step = map(_by_place, _one_step(partial(SpikingBackend, config=SpikingConfig(0.0, 4))))
    assert fed["seen"]["mac"] == INSIDE_X * 2
    heard = [{unit_p[1] for unit_p in Patches("W", "input", "seen").entries(11, 6)
              if unit_p[0] == unit} for unit in range(11)]  # fmt: skip
    cores = [{(2 * p + c) // 4 for p in places for c in range(2)} for places in heard]
    assert fed["seen"]["message"] == sum(map(len, cores))
    assert step["map"]["mac"] == INSIDE_P * 3 + 15 * 15
    assert step["line"]["mac"] == INSIDE_P * 3


def test_an_event_is_a_message_to_each_core_that_holds_a_listener() -> None:
    """Of units 0 to 8 of the line, of the map at 9 to 23, and of four outputs at 36 to 39."""
    network = patched()
    chip = SpikingBackend(network, params_of(network), SpikingConfig(0.0, 4))
    entries = Patches("W", "line", "map").entries(9, 5)
    for unit in range(9):
        targets = {9 + 3 * p + c for i, p, _ in entries if i == unit for c in range(3)}
        assert chip._fan_out[unit, 0] == len({t // 4 for t in targets})
    for unit in range(15):
        targets = (
            {i for i, p, _ in entries if p == unit // 3} | set(range(9, 24)) | {36, 37, 38, 39}
        )
        assert chip._fan_out[9 + unit, 0] == len({t // 4 for t in targets})
    tokens = NETWORKS["tokens"]
    chip = SpikingBackend(tokens, params_of(tokens), SpikingConfig(0.0, 1))
    assert chip._fan_out[12:, 0].tolist() == [3] * 8  # an output is heard by its token alone
    assert chip._to_outputs[:, 0].tolist() == [2] * 12


@each_chip
@each_network
def test_the_audit_passes_and_the_working_set_is_that_of_the_weights(
    make: type[Substrate], name: str
) -> None:
    network = NETWORKS[name]
    audit = audit_substrate(make(network, params_of(network)), *batch_of(network))
    both_ways = sum(network.blocks[c.name].size * len(c.layers) for c in network.recurrent)
    readout = sum(network.blocks[name].size for name in ("W_out", "b_out"))
    read = network.sizes[network.readout.layer]
    units, outputs = network.units, network.outputs
    words = {
        DigitalBackend: 4 * units + 3 * outputs + 2,
        CrossbarBackend: 4 * units + 3 * outputs,
        SpikingBackend: 5 * units + 5 * outputs + read,
    }[make]
    beyond = 3 * 3 if name == "edge" else 0  # a row of W_e, there, back and its gradient
    assert audit.working_set == words + both_ways + readout + network.size - beyond


@each_chip
@each_network
def test_a_bill_is_made(make: type[Substrate], name: str) -> None:
    technology = {
        DigitalBackend: "digital_45nm", CrossbarBackend: "rram_crossbar",
        SpikingBackend: "loihi_like",
    }[make]  # fmt: skip
    network = NETWORKS[name]
    chip, _ = _trained(make, network)
    design = Design(network, 8, 8, chip.footprint.count(network))
    bill = Bill(shipped_technologies()[technology], design, chip.counts)
    assert bill.energy().low < bill.energy_j < bill.energy().high
    assert bill.latency_s > 0.0


def test_an_array_takes_its_settling_time_at_each_of_its_positions() -> None:
    """Beside it, a whole matrix is read once in the same time."""
    technology = shipped_technologies()["rram_crossbar"]
    settling = technology.price("latency", "cell_read").value
    network = patched()
    fed, step = _one_step(CrossbarBackend)
    design = Design(
        network, 8, 8, CrossbarBackend(network, params_of(network)).footprint.count(network)
    )
    for counts, place, reads in ((fed, "seen", 6), (fed, "line", 1), (step, "map", 5)):
        parts = Bill(technology, design, counts).latency_parts()
        found = sum(t for key, t in parts.items() if key[1:] == (place, "cell_read"))
        assert found == pytest.approx(reads * settling)


def test_each_read_of_a_shared_array_is_converted_by_itself() -> None:
    """One step by hand: of the line, which hears the map through windows alone."""
    network, config = patched(), CrossbarConfig(on_off_ratio=np.inf, adc_bits=4, adc_range=1.0)
    params, (x, y) = params_of(network), batch_of(network, 1)
    chip = CrossbarBackend(network, params, config)
    state = np.random.default_rng(2).uniform(-0.9, 0.9, (1, network.units))
    clamped = chip.clamp(x, y)
    found = chip.settle(clamped, 0.0, Relaxation(1, 0.0), state).state[0, :9]
    total, upper, step = clamped.drive[0][0, :9].copy(), state[0, 9:24].reshape(5, 3), 1 / 7
    for unit, p, row in Patches("W_p", "line", "map").entries(9, 5):
        current = params["W_p"][row] @ upper[p]
        total[unit] += step * np.floor(np.clip(current, -1.0, 1.0) / step + 0.5)
    np.testing.assert_allclose(found, np.tanh(total), atol=1e-12)


def test_each_read_of_a_shared_array_is_noisy_by_itself() -> None:
    """Deviations add in squares over the reads that a unit hears."""
    network, samples = patched(), 1500
    params, (x, y) = params_of(network), batch_of(network, 1)
    sigma = 0.02
    chip = CrossbarBackend(network, params, CrossbarConfig(on_off_ratio=np.inf, read_noise=sigma))
    start = np.tile(np.linspace(-0.5, 0.5, network.units), (samples, 1))
    clamped = chip.clamp(np.tile(x, (samples, 1)), np.tile(y, (samples, 1)))
    moved = chip.settle(clamped, 0.0, Relaxation(1, 0.0), start).state
    heard = np.arctanh(moved[:, :9]) - clamped.drive[0][:, :9]
    cells = np.stack([0.5 + params["W_p"] / 4, 0.5 - params["W_p"] / 4])  # of weights of range 2
    power, upper = (sigma * 2.0) ** 2 * (cells**2).sum(0), start[0, 9:24].reshape(5, 3)
    squares = np.zeros(9)
    for unit, p, row in Patches("W_p", "line", "map").entries(9, 5):
        squares[unit] += upper[p] ** 2 @ power[row]
    np.testing.assert_allclose(heard.std(0), np.sqrt(squares), rtol=0.1)


def test_what_is_read_once_joins_before_the_converter() -> None:
    """A window at one place is heard once: its current meets that of a whole matrix."""
    network, step = NETWORKS["edge"], 1 / 7
    config = CrossbarConfig(on_off_ratio=np.inf, adc_bits=4, adc_range=1.0)
    params, (x, y) = params_of(network), batch_of(network, 1)
    chip, rng = CrossbarBackend(network, params, config), np.random.default_rng(2)
    clamped, before = chip.clamp(x, y), chip.counts.copy()
    state = rng.uniform(-0.9, 0.9, (1, 8))
    found = chip.settle(clamped, 0.0, Relaxation(1, 0.0), state).state[0, :5]
    current = state[0, 5:] @ params["W_d"]
    current[:3] += params["W_e"][1:] @ state[0, 5:]
    seen = step * np.floor(np.clip(current, -1.0, 1.0) / step + 0.5)
    np.testing.assert_allclose(found, np.tanh(clamped.drive[0][0, :5] + seen), atol=1e-12)
    assert _by_place(chip.counts - before)["line"]["conversion"] == 3 + 3 + 5


def test_states_that_stay_analog_allow_one_position_only() -> None:
    for name, block in (("patches", "W_x"), ("tokens", "W_out")):
        network = NETWORKS[name]
        with pytest.raises(
            EngineError, match=f"convert_each_step False, but the array of '{block}'"
        ):
            CrossbarBackend(network, params_of(network), CrossbarConfig(convert_each_step=False))
    for name in ("doubled", "edge"):
        network = NETWORKS[name]
        CrossbarBackend(network, params_of(network), CrossbarConfig(convert_each_step=False))


def test_two_couplings_between_the_same_layers_are_two_arrays() -> None:
    network = NETWORKS["doubled"]
    chip, (x, y) = CrossbarBackend(network, params_of(network)), batch_of(network, 1)
    clamped = chip.clamp(x, y)
    assert chip.counts.total("cell_read", "input") == 2 * 2 * 4 * 5
    assert chip.counts.total("conversion", "input") == 2 * 4 + 5  # one converter for both currents
    chip.settle(clamped, 0.0, Relaxation(1, 0.0), np.zeros((1, 8)))
    assert chip.counts.total("cell_read", "free", "top") == 2 * 2 * 15
    assert chip.counts.total("cell_read", "free", "low") == 2 * 2 * 15


@each_chip
def test_memory_grows_with_the_weights_and_not_with_the_square_of_the_units(
    make: type[Substrate],
) -> None:
    """10,000 units with windows among them: matrices would take gigabytes."""
    layers = Layer("line", (5000,)), Layer("map", (2500, 2))
    couplings = InputDrive("W_in", "line"), Patches("W_p", "line", "map", 3, 2)
    network = Network(2, layers, couplings, SquaredError("map"))
    params = Params(network, np.full(network.size, 0.1))
    make(network, params)  # tables of the network are made once
    tracemalloc.start()
    try:
        chip = make(network, params)
        clamped = chip.clamp(np.ones((1, 2)), np.zeros((1, 5000)))
        nudged = chip.settle(clamped, 0.1, Relaxation(2))
        chip.accumulate(clamped, nudged, np.zeros(network.size), energy=1.0)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    words = 8 * (network.units + network.size)
    assert held < 40 * words
    assert peak < 100 * words  # of 1.6 GB, were there a matrix
