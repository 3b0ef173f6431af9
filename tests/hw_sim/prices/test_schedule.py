"""Schedules: time by hand for whole runs, and where each event is worked off."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.counts import OpCounts, WordCount
from hw_sim.prices.bill import Bill, Design, grouped
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.machine import Machine, Resource
from hw_sim.prices.technology import shipped_technologies
from hw_sim.rivals.backprop import Rival
from tests.hw_sim.chips.patches import batch_of, params_of, patched

TECHNOLOGIES = shipped_technologies()
FREE, NUDGED, PHASES = 20, 10, 2


def one_gradient(make: Any, hidden: int) -> tuple[Network, Any, tuple[int, int]]:
    """Relax one sample on 64-hidden-10, learn by both local rules; return the steps, too."""
    network, rng = looped_mlp(64, hidden, 10), np.random.default_rng(0)
    chip = make(network, initial_params(network, rng))
    x, y = rng.uniform(-1, 1, (1, 64)), np.eye(10)[[3]]
    clamped, gradient = chip.clamp(x, y), np.zeros(network.size)
    free = chip.settle(clamped, 0.0, Relaxation(FREE, 0.0))
    chip.accumulate(clamped, free, gradient, energy=0.0, cost=1.0)
    nudged = [chip.settle(clamped, b, Relaxation(NUDGED, 0.0), free.state) for b in (-0.1, 0.1)]
    for ended in nudged:
        chip.accumulate(clamped, ended, gradient, energy=0.5 / ended.beta)
    return network, chip, (int(free.steps[0]), sum(int(ended.steps[0]) for ended in nudged))


def bill_on(technology: str, network: Network, chip: Any) -> Bill:
    design = Design(network, 8, 8, chip.footprint.count(network))
    return Bill(TECHNOLOGIES[technology], design, chip.counts)


def test_the_errors_that_come_back_are_converted_where_they_arrive() -> None:
    """A converter for each line: in, out, and both again on the way back, at every nudged step."""
    network, chip, _ = one_gradient(noisy_crossbar(), 256)
    parts = bill_on("rram_crossbar", network, chip).latency_parts()
    found = parts["nudged", "readout", "conversion"]
    assert found == pytest.approx(PHASES * NUDGED * 4 * 100e-9)  # 8 us, 106 by outputs alone


def noisy_crossbar() -> Any:
    """A crossbar that never stands still, so that it takes all its steps."""
    return partial(CrossbarBackend, config=CrossbarConfig(read_noise=0.01))


IN, HIDDEN, OUT = 64, 32, 10


def by_hand(technology: str, free: int, back: int) -> dict[str, float]:
    """Rounds of every stage for one gradient of 64-32-10, in plain arithmetic."""
    steps, words = free + back, IN + PHASES * OUT
    weights = IN * HIDDEN + HIDDEN * HIDDEN
    softmax = back + 1  # and once to learn the read-out
    activations = (1 + steps) * HIDDEN + softmax * OUT
    if technology == "rram_crossbar":
        return {
            "off_chip": words,
            "cell_read": 1 + steps + 2 * back + 1,  # in; recurrent; there and back; to learn
            "conversion": 2 * (1 + steps + 2 * back + 1),  # at both ends of each
            "mac": back + PHASES * (IN + HIDDEN) + HIDDEN,  # times beta; the local rules
            "activation": 1 + steps + softmax,
            "divide": softmax * OUT,
        }
    products = PHASES * weights + HIDDEN * OUT  # of the local rules
    macs = IN * HIDDEN + steps * HIDDEN**2 + (2 * back + 1) * HIDDEN * OUT + back * HIDDEN
    if technology == "gpu":
        launches = (1 + steps + softmax) / 256  # which a batch shares
        return {"off_chip": words, "mac": macs + products, "activation": launches}
    if technology == "microcontroller":
        traces = products + PHASES * HIDDEN + OUT
        serial = {"off_chip": words, "mac": macs + products, "activation": activations}
        compares = steps * HIDDEN + softmax * (OUT - 1)
        serial |= {"compare": compares, "divide": softmax * OUT}
        return serial | {"trace_read": traces, "trace_write": traces}
    rounds = IN + steps * HIDDEN  # each unit of the layer multiplies all that it hears
    rounds += (back + 1) * HIDDEN  # each output all that it reads
    rounds += back * (OUT + 1)  # each unit of the layer all errors, and beta
    rounds += PHASES * (IN + HIDDEN) + HIDDEN  # each unit its own weights
    divisions = softmax * OUT
    return {"off_chip": words, "mac": rounds, "activation": activations, "divide": divisions}


@pytest.mark.parametrize(
    "technology", ["digital_45nm", "digital_7nm", "rram_crossbar", "gpu", "microcontroller"]
)
def test_one_gradient_takes_the_rounds_that_a_calculation_by_hand_gives(technology: str) -> None:
    make = noisy_crossbar() if technology == "rram_crossbar" else DigitalBackend
    network, chip, steps = one_gradient(make, HIDDEN)
    bill = bill_on(technology, network, chip)
    rounds, prices = by_hand(technology, *steps), TECHNOLOGIES[technology].prices["latency"]
    assert bill.latency_sum().terms == pytest.approx({(f"{k} time",): n for k, n in rounds.items()})
    by_price = sum(n * prices[k].listed()[0].value for k, n in rounds.items())
    assert bill.latency_s == pytest.approx(by_price)


def test_a_rival_multiplies_what_comes_back_at_the_units_too() -> None:
    network, rng = looped_mlp(IN, HIDDEN, OUT), np.random.default_rng(0)
    chip = DigitalBackend(network, initial_params(network, rng))
    gradient = np.zeros(network.size)
    Rival(3).gradient(chip, np.ones((1, IN)), np.eye(OUT)[[3]], gradient)
    parts = bill_on("digital_45nm", network, chip).latency_parts()
    assert parts["backward", "readout", "mac"] == pytest.approx(OUT * 10e-9)
    assert parts["free", "readout", "mac"] == pytest.approx(HIDDEN * 10e-9)


@pytest.mark.parametrize("steps", [0, 1])
def test_a_pass_through_layers_converts_one_direction_at_a_time(steps: int) -> None:
    """Three layers of four: the middle one hears one neighbour in a pass, and both in a step."""
    network, rng = layered((3, 4, 4, 4, 2)), np.random.default_rng(0)
    chip = CrossbarBackend(network, initial_params(network, rng))
    Rival(steps).gradient(chip, np.ones((1, 3)), np.eye(2)[:1], np.zeros(network.size))
    design = Design(network, 8, 8, chip.footprint.count(network), one_way=steps == 0)
    parts = Bill(TECHNOLOGIES["rram_crossbar"], design, chip.counts).latency_parts()
    rounds = {key[:2]: t / 100e-9 for key, t in parts.items() if key[2] == "conversion"}
    heard = {"layer1": ("backward",), "layer2": ("free", "backward"), "layer3": ("free",)}
    if steps:  # all arrays that a layer hears are driven at once, and their currents join
        heard = dict.fromkeys(heard, ("free", "backward"))
    expected = {(phase, name): 2 for name, phases in heard.items() for phase in phases}
    expected |= {("input", "layer1"): 2, ("free", "readout"): 2, ("backward", "readout"): 2}
    assert rounds == pytest.approx(expected)


def test_states_that_stay_analog_are_converted_where_they_are_asked_for() -> None:
    config = CrossbarConfig(read_noise=0.01, convert_each_step=False)
    network, chip, _ = one_gradient(partial(CrossbarBackend, config=config), HIDDEN)
    design = Design(network, 8, 8, chip.footprint.count(network), settles=True)
    parts = Bill(TECHNOLOGIES["rram_crossbar"], design, chip.counts).latency_parts()
    time = {key: t / 100e-9 for key, t in parts.items() if key[2] == "conversion"}
    assert time == pytest.approx(
        {
            ("input", "hidden", "conversion"): 1,  # what drives the input array
            ("free", "hidden", "conversion"): 1,  # the state at the end of a phase
            ("nudged", "hidden", "conversion"): PHASES,
            ("nudged", "readout", "conversion"): 2
            * PHASES
            * NUDGED,  # logits, and errors sent back
            ("learn", "readout", "conversion"): 1,
        }
    )


@pytest.mark.parametrize("shared_by", [1, 4, 32, 100])
def test_lines_that_share_a_converter_take_turns(shared_by: int) -> None:
    """As many as there are, if there are fewer than would share it."""
    counts = OpCounts()
    counts.add("free", "hidden", "conversion", 7 * 2 * HIDDEN)
    counts.add("readout", "readout", "conversion", HIDDEN + OUT)
    network = looped_mlp(IN, HIDDEN, OUT)
    machine = Machine({"conversion": Resource("line", shared_by=shared_by)})
    technology = replace(TECHNOLOGIES["rram_crossbar"], machine=machine)
    bill = Bill(technology, Design(network, 8, 8, WordCount(1, 1, 1)), counts)
    turns = 7 * 2 * min(shared_by, HIDDEN) + min(shared_by, HIDDEN) + min(shared_by, OUT)
    assert bill.latency_s == pytest.approx(turns * 100e-9)


def test_a_shared_array_is_converted_position_after_position() -> None:
    """Of the map, which hears five windows of a line and itself: as many lines as channels."""
    network = patched()
    x, y = batch_of(network, 1)
    chip = CrossbarBackend(network, params_of(network), CrossbarConfig(read_noise=0.01))
    clamped, before = chip.clamp(x, y), chip.counts.copy()
    chip.settle(clamped, 0.0, Relaxation(1, 0.0), np.zeros((1, network.units)))
    step = Bill(
        TECHNOLOGIES["rram_crossbar"],
        Design(network, 8, 8, chip.footprint.count(network)),
        chip.counts - before,
    )
    time = {key[1]: t for key, t in step.latency_parts().items() if key[2] == "conversion"}
    assert time["map"] == pytest.approx((5 + 5) * 100e-9)
    assert time["line"] == pytest.approx((5 + 5) * 100e-9)  # read apart alone


def test_rows_of_an_array_are_written_one_after_the_other() -> None:
    network, counts = looped_mlp(IN, HIDDEN, OUT), OpCounts()
    counts.add("update", "hidden", "weight_write", 3 * (IN + HIDDEN + 1) * HIDDEN)
    counts.add("update", "readout", "weight_write", 3 * (HIDDEN + 1) * OUT)
    bill = Bill(TECHNOLOGIES["rram_crossbar"], Design(network, 8, 8, WordCount(1, 1, 1)), counts)
    assert bill.latency_s == pytest.approx(3 * (IN + HIDDEN + 1 + HIDDEN + 1) * 100e-9)


def test_work_that_the_machine_forgot_is_refused_by_name() -> None:
    counts = OpCounts()
    counts.add("free", "hidden", "message", 3)
    bill = Bill(
        TECHNOLOGIES["digital_45nm"], Design(looped_mlp(2, 2, 2), 8, 8, WordCount(1, 1, 1)), counts
    )
    with pytest.raises(TechnologyError, match=r"'digital_45nm': the machine says .* 'message'"):
        bill.latency_parts()
    assert grouped(replace(bill, counts=OpCounts()).latency_parts(), "kind") == {}
