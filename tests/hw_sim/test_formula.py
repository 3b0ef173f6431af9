"""The closed formula where no chip runs: attention, memory, tokens, and their bill."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from engine.compiled.backend import NumbaBackend
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.effort import effort_of
from engine.couplings.tokens import Embedding
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.optimizer import Adam
from engine.model.builders import energy_transformer, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.spiking import SpikingBackend
from hw_sim.chips.substrate import NEURON_WORDS
from hw_sim.counts import Footprint, OpCounts, optimizer_counts
from hw_sim.formula import dense_counts
from hw_sim.prices.bill import Bill, Design, grouped
from hw_sim.prices.technology import shipped_technologies
from tests.hw_sim.scalar_attention import ScalarAttention, ScalarMemory

MASKS = {
    "others": {},
    "all": {"sees_itself": True},
    "before": {"causal": True},
    "before and itself": {"causal": True, "sees_itself": True},
}
each_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def _drawn(coupling: Any, tokens: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    w = rng.standard_normal(coupling.shape({"tokens": (tokens, width)}))
    return w, rng.uniform(-0.9, 0.9, (1, tokens, width))


def test_two_tokens_and_one_head_by_hand() -> None:
    """Size 3 and width 5: each token sees the other, so there are two pairs."""
    coupling = Attention("a", "tokens", heads=1, head_size=3)
    effort = effort_of(coupling, {"tokens": (2, 5)})
    assert effort is not None
    there = 2 * 2 * 3 * 5  # q and k of two tokens
    assert effort.drive == Counter(
        mac=there + 3 * 2 * 3 + there,  # q, k; q k, P k and P' q; and back
        activation=2,
        divide=2,
        weight_read=there + 2 + there,
        state_read=2 * 2 * 5 + (2 * 3 + 2 * 3) + 2 + 2 * (2 + 2 * 3) + 2 * 2 * 3,
        state_write=2 * 2 * 3 + 2 * 2 + 2 * 2 * 3,
    )
    assert effort.correlate == Counter(
        mac=there + 3 * 2 * 3 + there,
        activation=2,
        divide=2,
        weight_read=there + 2,
        state_read=2 * 2 * 5 + (2 * 3 + 2 * 3) + 2 + 2 * (2 + 2 * 3) + 2 * (2 * 5 + 2 * 3) + 2,
        state_write=2 * 2 * 3 + 2 * 2 + 2 * 2 * 3,
        trace_read=there + 2,
        trace_write=there + 2,
    )
    assert effort.words == 4 * 2 * 3 + 2


@each_mask
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_costs_what_a_scalar_twin_does(heads: int, mask: dict[str, bool]) -> None:
    """And the twin computes the same drive and the same slopes."""
    coupling = Attention("a", "tokens", heads, head_size=2, sharpness=1.5, **mask)
    w, s = _drawn(coupling, tokens=4, width=3)
    effort, parts = effort_of(coupling, {"tokens": (4, 3)}), coupling.split(w, 4)
    assert effort is not None
    make = partial(ScalarAttention, *parts, 1.5, coupling.allowed(4))
    twin = make()
    found = twin.drive(s[0])
    expected = coupling.drive(w, np.zeros((1, 1)), s)[0].reshape(4, 3)
    for place, value in np.ndenumerate(expected):
        assert found.get(place, 0.0) == pytest.approx(value)
    assert twin.ledger == Counter(effort.drive)
    twin = make()
    slopes = twin.correlate(s[0])
    learned = coupling.split(coupling.correlate(w, np.zeros((1, 1)), s), 4)
    for slope, block in zip(slopes, learned, strict=True):
        for place, value in np.ndenumerate(block):
            assert slope.words.get(place, 0.0) == pytest.approx(value)
    assert twin.ledger == Counter(effort.correlate)


def test_memory_costs_what_a_scalar_twin_does() -> None:
    coupling = Hopfield("m", "tokens", memories=5, sharpness=0.7)
    w, s = _drawn(coupling, tokens=4, width=3)
    effort = effort_of(coupling, {"tokens": (4, 3)})
    assert effort is not None
    twin = ScalarMemory(w, 0.7)
    found = twin.drive(s[0])
    expected = coupling.drive(w, np.zeros((1, 1)), s)[0].reshape(4, 3)
    for place, value in np.ndenumerate(expected):
        assert found[place] == pytest.approx(value)
    assert twin.ledger == Counter(effort.drive)
    twin = ScalarMemory(w, 0.7)
    slope = twin.correlate(s[0])
    for place, value in np.ndenumerate(coupling.correlate(w, np.zeros((1, 1)), s)):
        assert slope.words[place] == pytest.approx(value)
    assert twin.ledger == Counter(effort.correlate)


@pytest.mark.parametrize(
    "coupling",
    [
        Attention("a", "tokens", 2, head_size=3, sees_itself=True),
        Hopfield("m", "tokens", memories=7),
    ],
    ids=["attention", "memory"],
)
@pytest.mark.parametrize("form", ["drive", "correlate"])
def test_products_are_those_that_torch_counts(coupling: Any, form: str) -> None:
    """Two operations for each; torch multiplies masked pairs too, so there are none here."""
    w, s = (torch.tensor(values) for values in _drawn(coupling, tokens=5, width=4))
    counter = FlopCounterMode(display=False)
    with counter:
        getattr(coupling, form)(w, torch.zeros(1, 1), s)
    effort = effort_of(coupling, {"tokens": (5, 4)})
    assert counter.get_total_flops() == 2 * getattr(effort, form)["mac"]


def test_an_embedding_is_looked_up_and_never_multiplied() -> None:
    effort = effort_of(Embedding("e", "tokens", 9), {"tokens": (3, 4), "input": (3,)})
    assert effort is not None
    assert effort.drive == {"weight_read": 12, "state_read": 3}
    assert effort.correlate == {"trace_read": 12, "trace_write": 12, "state_read": 15}


@dataclass(frozen=True)
class Doubled(Attention):
    """Sends twice what its parent sends, and does not say what that costs."""

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        return tuple(2 * part for part in super().drive(w, x, *states))


@dataclass(frozen=True)
class Narrow(Attention):
    """Another mask, by which the forms of its parent go."""

    def allowed(self, tokens: int) -> Any:
        return np.eye(tokens)


def test_a_class_that_changes_a_form_is_not_counted_as_its_parent() -> None:
    shapes = {"tokens": (3, 4)}
    assert effort_of(Doubled("a", "tokens"), shapes) is None
    narrow, plain = (effort_of(kind("a", "tokens"), shapes) for kind in (Narrow, Attention))
    assert narrow is not None
    assert plain is not None
    assert narrow.drive["activation"] == plain.drive["activation"] // 2
    network = energy_transformer(4, 3, 4)
    couplings = tuple(
        Doubled(c.name, c.layer) if isinstance(c, Attention) else c for c in network.couplings
    )
    with pytest.raises(EngineError, match=r"'attention' \(Doubled\) is no link and does not say"):
        dense_counts(replace(network, couplings=couplings), 1, 1, 1, 1)


TRANSFORMER = energy_transformer(vocabulary=6, length=5, width=4, heads=2, head_size=3, memories=7)


def test_a_transformer_by_hand() -> None:
    """Place by place: layer of 5 tokens of width 4, and 5 softmaxes of 6 classes."""
    found, samples, free, nudged = dense_counts(TRANSFORMER, 3, 20, 30, 2), 3, 20, 30
    name, pairs = TRANSFORMER.layers[0].name, 2 * 5 * 4
    attention = 4 * 5 * 2 * 3 * 4 + 3 * pairs * 3
    memory, readout = 2 * 5 * 7 * 4, 5 * 4 * 6
    assert found.total("mac", "input") == 0
    assert found.total("weight_read", "input") == samples * 2 * 20  # embedding and position
    assert found.total("mac", "free", name) == free * (attention + memory)
    assert found.total("mac", "nudged", name) == nudged * (attention + memory)
    assert found.total("activation", "free", name) == free * (pairs + 35 + 20) + samples * 20
    assert found.total("divide", "free", name) == free * (pairs + 35)
    assert found.total("mac", "nudged", "readout") == nudged * (2 * readout + 20)
    assert found.total("activation", "nudged", "readout") == nudged * 30
    assert found.total("mac", "learn", name) == 2 * samples * (attention + memory)
    assert found.total("mac", "learn", "readout") == 2 * samples * readout
    words = 20 + 20 + 2 * 5 * 2 * 3 * 4 + pairs + 5 * 7 * 4  # embedding, position, Wq, Wk, R, M
    assert found.total("trace_write", "learn", name) == 2 * samples * words


def _measured(network: Network, samples: int = 4) -> OpCounts:
    """Count one estimate and one update by the steps that the engine took."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, (samples, 5)).astype(float)
    y = np.eye(6)[x.astype(int)].reshape(samples, -1)
    backend = NumbaBackend(network, initial_params(network, rng, np.float64))
    clamped, way = backend.clamp(x, y), Relaxation(60, 1e-4, damping=0.5)
    free = backend.settle(clamped, 0.0, way)
    steps = [backend.settle(clamped, beta, way, free.state).steps for beta in (-0.1, 0.1)]
    evaluations = int(free.steps.sum()), int(np.sum(steps))
    assert min(evaluations) > samples
    counts = dense_counts(network, samples, *evaluations, phases=2)
    return counts + optimizer_counts(network, Adam(1e-3), updates=1)


def test_a_transformer_has_a_bill_at_digital_prices() -> None:
    counts = _measured(TRANSFORMER)
    memory = Footprint(NEURON_WORDS, ("weight", "gradient")).count(TRANSFORMER, moments=2)
    design = Design(TRANSFORMER, 8, 8, memory)
    for name in ("digital_45nm", "digital_7nm", "gpu", "microcontroller"):
        bill = Bill(shipped_technologies()[name], design, counts)
        assert bill.energy().low < bill.energy_j < bill.energy().high
        assert bill.latency_s > 0.0
        parts = grouped(bill.energy_parts(), "place")
        assert parts["tokens"] > parts["readout"] > 0.0
        assert sum(parts.values()) == pytest.approx(bill.energy_j)
        twice = replace(bill, counts=counts + counts)
        assert twice.energy_j == pytest.approx(2 * bill.energy_j)


def test_a_transformer_holds_its_results_in_between() -> None:
    footprint = Footprint(NEURON_WORDS, ("weight", "gradient"))
    neurons, between = 20 + 30, 4 * 5 * 2 * 3 + 2 * 5 * 4 + 5 * 7
    assert footprint.count(TRANSFORMER).states == len(NEURON_WORDS) * neurons + between
    plain = looped_mlp(3, 4, 2)
    assert footprint.count(plain).states == len(NEURON_WORDS) * 6


@pytest.mark.parametrize("make", [DigitalBackend, CrossbarBackend, SpikingBackend])
def test_no_chip_runs_attention(make: Any) -> None:
    params = initial_params(TRANSFORMER, np.random.default_rng(0), np.float64)
    with pytest.raises(EngineError, match=r"\(Embedding\) has no model in hw_sim: it is no link"):
        make(TRANSFORMER, params)
