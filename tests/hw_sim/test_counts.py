"""Counts come from the run: they equal the closed formula and an instrumented scalar reference."""

from collections import Counter
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from engine import SGD, Relaxation, Training, centered, estimate
from engine.backend import Backend
from engine.learning.run import Run
from engine.learning.training import train_step
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from golden.reference import ReferenceBackend
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.chips.substrate import Substrate
from hw_sim.counts import OpCounts, optimizer_counts
from hw_sim.formula import dense_counts, inference_counts, update_counts
from hw_sim.places import BORDER, READOUT

NETWORKS = {
    "looped": looped_mlp(3, 4, 2),
    "layered": layered((3, 4, 3, 2)),
    "squared": layered((3, 4, 2), "hard_sigmoid", "squared_error"),
}
SAMPLES = 5
FINE = DigitalConfig(20, 20, 60, None, 20)
"""So fine that no state stops moving within a few steps."""


def _batch(network: Network) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((SAMPLES, network.inputs)), np.eye(network.outputs)[
        np.arange(SAMPLES) % network.outputs
    ]


def _one_estimate(backend: Backend, relaxation: Relaxation) -> list[int]:
    """Estimate one gradient; return the evaluations of the free and of the nudged phases."""
    evaluations = [0, 0]
    relax = backend._relax_one

    def watched(clamped, beta, relaxation, start):  # type: ignore[no-untyped-def]
        found = relax(clamped, beta, relaxation, start)
        evaluations[beta != 0.0] += int(found.steps.sum())
        return found

    backend._relax_one = watched  # type: ignore[method-assign]
    clamped = backend.clamp(*_batch(backend.network))
    gradient, states = np.zeros(backend.network.size), replace(relaxation, displaced=False)
    estimate(backend, clamped, centered(0.25), gradient, relaxation, states)
    return evaluations


def _inside(counts: OpCounts) -> dict[tuple[str, str, str], int]:
    """Everything but what crosses the border."""
    return {key: n for key, n in counts if key[1] != BORDER}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("relaxation", [Relaxation(7, 0.0), Relaxation(50, 0.01)])
def test_digital_counts_equal_the_closed_formula(network: Network, relaxation: Relaxation) -> None:
    backend = DigitalBackend(network, initial_params(network, np.random.default_rng(1)))
    free, nudged = _one_estimate(backend, relaxation)
    expected = dense_counts(network, SAMPLES, free, nudged, phases=2)
    assert _inside(backend.counts) == dict(expected)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_digital_counts_of_an_inference_equal_the_closed_formula(network: Network) -> None:
    backend = DigitalBackend(network, initial_params(network, np.random.default_rng(1)))
    clamped = backend.clamp(_batch(network)[0])
    settled = backend.settle(clamped, relaxation=Relaxation(50, 0.01))
    backend.predict(settled)
    expected = inference_counts(network, SAMPLES, int(settled.steps.sum()))
    assert _inside(backend.counts) == {key: n for key, n in expected if n}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_digital_counts_of_an_update_equal_the_closed_formula(network: Network) -> None:
    """Where every word changes; that a random word rounds it is the digital chip's own."""
    params = initial_params(network, np.random.default_rng(1))
    backend = DigitalBackend(network, params, FINE)
    for _ in range(3):
        backend.apply(np.full(network.size, 0.01))
    found = {key: n for key, n in _inside(backend.counts).items() if key[2] != "random"}
    assert found == dict(update_counts(network, 3))


class _Traced(float):
    """A number that counts the products it takes part in."""

    products: ClassVar[Counter[str]] = Counter()
    phase = ""

    def __mul__(self, other: float) -> float:
        _Traced.products[_Traced.phase] += 1
        return float(self) * float(other)

    __rmul__ = __mul__


def _traced(value):  # type: ignore[no-untyped-def]
    return [_traced(v) for v in value] if isinstance(value, list) else _Traced(value)


class _Instrumented(ReferenceBackend):
    """The scalar reference: weights, nudge and learning states count their products."""

    _learning: tuple[float, float] | None = None

    def _weights(self):  # type: ignore[no-untyped-def]
        return {name: _traced(block.tolist()) for name, block in self._params.items()}

    def _drive(self, x):  # type: ignore[no-untyped-def]
        _Traced.phase = "input"
        return super()._drive(x)

    def _relax_one(self, clamped, beta, relaxation, start):  # type: ignore[no-untyped-def]
        _Traced.phase = "free" if beta == 0.0 else "nudged"
        return super()._relax_one(clamped, _Traced(beta), relaxation, start)

    def _activate(self, drive):  # type: ignore[no-untyped-def]
        _Traced.products[f"{_Traced.phase} activations"] += sum(map(len, drive.values()))
        return super()._activate(drive)

    def _split(self, row):  # type: ignore[no-untyped-def]
        state = super()._split(row)
        return {k: _traced(v) for k, v in state.items()} if self._learning else state

    def _accumulate(self, clamped, equilibrium, gradient, energy, cost):  # type: ignore[no-untyped-def]
        self._learning = energy, cost
        super()._accumulate(clamped, equilibrium, gradient, energy, cost)
        self._learning = None

    def _correlate(self, coupling, w, x, ends):  # type: ignore[no-untyped-def]
        """Count only the part that is wanted: the reference computes both, the read-out last."""
        energy, cost = self._learning
        _Traced.phase = "learn" if energy else "unwanted"
        part = [float(value) for value in super()._correlate(coupling, w, x, ends)]
        _Traced.phase = "learn" if cost else "unwanted"
        return part


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_digital_counts_equal_an_instrumented_reference(network: Network) -> None:
    params = initial_params(network, np.random.default_rng(1), np.float64)
    digital, reference = DigitalBackend(network, params, FINE), _Instrumented(network, params)
    _Traced.products.clear()
    counted, judged = (_one_estimate(b, Relaxation(3, 0.0)) for b in (digital, reference))
    assert counted == judged
    found, products = digital.counts, _Traced.products
    for phase in ("input", "free", "nudged", "learn"):
        assert found.total("mac", phase) == products[phase] > 0
    for phase in ("free", "nudged"):
        outputs = found.total("activation", phase, READOUT)  # the softmax is none of a layer
        assert found.total("activation", phase) - outputs == products[f"{phase} activations"]


@pytest.mark.parametrize("make", [DigitalBackend, CrossbarBackend, SpikingBackend])
def test_counts_of_a_training_are_the_sum_of_its_steps(make: type[Substrate]) -> None:
    network = NETWORKS["looped"]
    x, y = _batch(network)
    training = Training(epochs=1, batch_size=SAMPLES, beta=0.25, optimizer=SGD(0.1), cap=None)
    backend = make(network, initial_params(network, np.random.default_rng(1)))
    run = Run.start(network, 1, np.float64, 0)
    parts = []
    for _ in range(3):
        before = backend.counts.copy()
        train_step(backend, x, y, training, run, 3)
        parts.append(backend.counts - before)
    whole = parts[0] + parts[1] + parts[2]
    assert dict(whole) == dict(backend.counts)
    assert OpCounts.from_rows(whole.rows()) == whole  # type: ignore[arg-type]
    assert whole.total("weight_write") > 0


def test_silent_synapses_do_nothing() -> None:
    network = looped_mlp(3, 12, 2)
    macs = []
    for threshold in (0.0, 0.01, 0.1):
        backend = SpikingBackend(
            network, initial_params(network, np.random.default_rng(1)), SpikingConfig(threshold)
        )
        backend.settle(backend.clamp(_batch(network)[0]), relaxation=Relaxation(20, 0.0))
        macs.append(backend.counts.total("mac", "free"))
    dense = SAMPLES * 20 * (12 * 12 + 12 * 2)
    assert macs[2] < macs[1] < macs[0] <= dense


def test_optimizers_count_their_own_words() -> None:
    network = NETWORKS["looped"]
    sgd = optimizer_counts(network, SGD(0.1), 7)
    assert sgd.total("trace_write") == 7 * network.size
    assert sgd.total("mac") == 3 * 7 * network.size
