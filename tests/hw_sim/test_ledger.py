"""Counts behave like numbers, footprints hold what was declared, optimizers pay for their words."""

from dataclasses import replace

import numpy as np
import pytest

from engine import SGD, Adam
from engine.model.builders import looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SpikingBackend
from hw_sim.counts import Footprint, OpCounts, WordCount, optimizer_counts
from hw_sim.events import KINDS
from hw_sim.formula import dense_counts
from tests.hw_sim.chips.hand_chip import NETWORKS, HandChip

each_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def _counts(*events: tuple[str, str, str, int]) -> OpCounts:
    return OpCounts.from_rows(events)


def test_counts_add_and_subtract_event_by_event() -> None:
    first = _counts(("free", "hidden", "mac", 5), ("learn", "hidden", "mac", 2))
    second = _counts(("free", "hidden", "mac", 3), ("free", "readout", "hop", 4))
    both = first + second
    assert dict(both) == {
        ("free", "hidden", "mac"): 8,
        ("free", "readout", "hop"): 4,
        ("learn", "hidden", "mac"): 2,
    }
    assert both - second == first
    assert both - first == second
    own = both.copy()
    own.add("free", "hidden", "mac", 1)
    assert both.total("mac") == 10  # a copy has counts of its own
    assert own.total("mac") == 11


def test_a_total_is_that_of_what_was_asked_for() -> None:
    counts = OpCounts()
    keys = [(p, at, k) for p in ("free", "learn") for at in ("a", "b") for k in ("mac", "hop")]
    for power, key in enumerate(keys):
        counts.add(*key, 2**power)
    for phase in ("free", "learn", None):
        for place in ("a", "b", None):
            for kind in ("mac", "hop"):
                own = [
                    2**power
                    for power, (p, at, k) in enumerate(keys)
                    if k == kind and phase in (None, p) and place in (None, at)
                ]
                assert counts.total(kind, phase, place) == sum(own)


def test_rows_are_sorted_and_nothing_is_kept_of_nothing() -> None:
    counts = _counts(("learn", "a", "mac", 1), ("free", "b", "hop", 2), ("free", "a", "mac", 0))
    assert counts.rows() == [["free", "b", "hop", 2], ["learn", "a", "mac", 1]]
    for phase, kind in (("dream", "mac"), ("free", "thought")):
        with pytest.raises(KeyError, match=f"no phase '{phase}' or no kind '{kind}'"):
            counts.add(phase, "a", kind, 1)


def test_a_tally_is_entered_by_place_and_kind() -> None:
    counts, network = OpCounts(), NETWORKS["mixed"]
    kinds = len(KINDS)
    counts.add_tally("free", network, np.arange(4 * kinds).reshape(4, kinds))
    assert counts.total("mac", place="low") == 0
    assert counts.total("activation", place="low") == 1
    assert counts.total("off_chip", place="middle") == kinds + 12
    assert counts.total("random", place="middle") == kinds + KINDS.index("random")
    assert counts.total("cell_read", place="top") == 2 * kinds + 8
    assert counts.total("mac", place="readout") == 3 * kinds


@each_network
@pytest.mark.parametrize(
    ("optimizer", "moments", "macs", "activations"),
    [(SGD(0.1), 1, 3, 0), (Adam(0.1), 2, 5, 1)],
    ids=["sgd", "adam"],
)
def test_an_optimizer_pays_for_each_parameter_at_its_place(
    network: Network, optimizer: SGD | Adam, moments: int, macs: int, activations: int
) -> None:
    """Two products a moment and one for the step; Adam also takes a root and a quotient.

    Gradients leave for a controller and updates come back, unless it works at the synapses.
    """
    owner, found = HandChip(network).owner, optimizer_counts(network, optimizer, 7)
    for place in set(owner):
        owned = 7 * owner.count(place)
        assert found.total("mac", "update", place) == macs * owned
        assert found.total("activation", "update", place) == activations * owned
        assert found.total("divide", "update", place) == activations * owned
        assert found.total("trace_read", "update", place) == moments * owned
        assert found.total("trace_write", "update", place) == moments * owned
    kinds = {key[2] for key, _ in found}
    assert kinds <= {"mac", "activation", "divide", "trace_read", "trace_write", "off_chip"}
    assert found.total("off_chip", "update", "border") == 2 * 7 * network.size
    local = optimizer_counts(network, optimizer, 7, local=True)
    assert dict(found - local) == {("update", "border", "off_chip"): 2 * 7 * network.size}
    assert {key[0] for key, _ in found} == {"update"}


@each_network
def test_the_closed_formula_by_hand(network: Network) -> None:
    hand, samples, free, nudged, phases = HandChip(network), 3, 17, 11, 2
    found = dense_counts(network, samples, free, nudged, phases)
    for place, units in hand.layers.items():
        heard = sum(len(hand.sources_of(j)) for j in units)
        fed = network.inputs * len(units) * hand.driven.count(place)
        biases = len(units) * hand.biased.count(place)
        by_hand = {
            ("input", "mac"): samples * fed,
            ("free", "mac"): free * heard,
            ("nudged", "mac"): nudged * heard,
            ("learn", "mac"): samples * phases * (hand.owner.count(place) - biases),
            ("free", "activation"): (samples + free) * len(units),
            ("nudged", "activation"): nudged * len(units),
            ("free", "compare"): free * len(units),
            ("nudged", "compare"): nudged * len(units),
        }
        for (phase, kind), times in by_hand.items():
            assert found.total(kind, phase, place) == times
    assert {key[1] for key, _ in found} == {*hand.layers, "readout"}
    read, outputs = len(hand.read_units), network.outputs * hand.softmax
    assert found.total("mac", "nudged", "readout") == nudged * (2 * read * outputs + read)
    assert found.total("activation", "nudged", "readout") == nudged * outputs
    assert found.total("divide", "nudged", "readout") == nudged * outputs
    assert found.total("compare", "nudged", "readout") == nudged * max(0, outputs - 1)
    assert found.total("mac", "learn", "readout") == samples * 2 * read * outputs
    assert found.total("activation", "learn", "readout") == samples * outputs


@each_network
def test_a_footprint_is_its_names_times_neurons_and_synapses(network: Network) -> None:
    neurons = network.units + (network.outputs if HandChip(network).softmax else 0)
    size = network.size
    tables = {"t": 60, "u": 40}
    held = Footprint(("a", "b", "c"), ("weight", "g", "h", "i"), ("g+", "g-"), tables)
    assert held.count(network, 2) == WordCount(3 * neurons + 100, size, (3 + 2) * size, 2 * size)
    assert held.count(network) == WordCount(3 * neurons + 100, size, 3 * size, 2 * size)
    wide = replace(held, widths={"b": 17, "u": 9}).count(network)
    assert (wide.states, wide.wide) == (2 * neurons + 60, neurons + 40)
    assert wide.wide_bits == 17 * neurons + 9 * 40
    assert wide.words == held.count(network).words
    no_weight = Footprint(("a",), ("gradient",))
    assert no_weight.count(network) == WordCount(neurons, 0, size, 0)


def test_words_and_bits_of_a_memory() -> None:
    memory = WordCount(10, weights=100, traces=1000, cells=10_000, wide=1, wide_bits=33)
    assert memory.words == 11_111
    assert memory.bits(weight_bits=3, state_bits=7) == 7 * 10 + 3 * 100 + 2 * 3 * 1000 + 33


def test_the_words_of_neurons_and_tables_have_their_own_widths() -> None:
    """64-64-10 at 12/10/32 bits: accumulators of 32 bits, exponentials of 25."""
    network = looped_mlp(64, 64, 10)
    chip = DigitalBackend(network, initial_params(network, np.random.default_rng(0)))
    bits = replace(chip.footprint.count(network), weights=0, traces=0).bits(12, 10)
    assert bits == 74 * (4 * 10 + 2 * 32) + 4096 * 10 + 8192 * 25 == 253_456


@each_network
def test_chips_hold_these_words(network: Network) -> None:
    params = initial_params(network, np.random.default_rng(0), np.float64)
    neurons = network.units + (network.outputs if HandChip(network).softmax else 0)
    size, kinds = network.size, len({layer.activation for layer in network.layers})
    # 8 bits of table over +-4 are 256 entries, and exp goes twice as deep.
    narrow = DigitalBackend(network, params, DigitalConfig(table_bits=8, table_range=4.0))
    wide = 2 * neurons, 2 * 256
    assert narrow.footprint.count(network, 1) == WordCount(
        4 * neurons + kinds * 256, size, 2 * size, 0, sum(wide), 32 * wide[0] + 25 * wide[1]
    )
    for split in (False, True):
        chip = CrossbarBackend(network, params, CrossbarConfig(split_arrays=split))
        expected = WordCount(6 * neurons, 0, 2 * size, (2 + 2 * split) * size)
        assert chip.footprint.count(network, 1) == expected
        assert len(set(chip.footprint.cells)) == 2 + 2 * split
    events = SpikingBackend(network, params)
    assert events.footprint.count(network, 1) == WordCount(11 * neurons, size, 2 * size)
