"""The event-driven substrate: within its threshold of the dense equilibrium, and quiet there."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import NumbaBackend
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model.builders import layered, looped_mlp
from engine.model.params import initial_params
from experiments.fuzz.strategies import Case, cases, quadratic_networks
from hw_sim.chips.mesh import fan_out
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from tests.hw_sim.chips.small_training import LEARNED, held_out_cost

TIGHT = Relaxation(3000, 1e-12)


def _bound(case: Case, threshold: float, beta: float) -> float:
    """`sqrt(n) rate threshold / (1 - rate)`, and what the error of the outputs adds."""
    curvature = case.network.readout.curvature(case.params)
    rate = case.norm + abs(beta) * curvature
    extra = 0.0
    if beta != 0.0 and isinstance(case.network.readout, SoftmaxReadout):
        extra = abs(beta) * np.sqrt(curvature * case.network.outputs)
    return float((np.sqrt(case.network.units) * rate + extra) * threshold / (1.0 - rate))


@given(cases(quadratic_networks()), st.sampled_from([0.0, 1e-4, 1e-2, 0.1]), st.booleans())
def test_the_end_lies_within_the_threshold_bound(
    case: Case, threshold: float, nudged: bool
) -> None:
    beta = 0.1 / max(1.0, case.network.readout.curvature(case.params)) if nudged else 0.0
    ideal = case.backend.settle(case.clamped, beta, TIGHT)
    backend = SpikingBackend(case.network, case.params, SpikingConfig(threshold))
    found = backend.settle(backend.clamp(case.x, case.y), beta, Relaxation(3000, 1e-10))
    distance = np.linalg.norm(found.state - ideal.state, axis=1)
    assert (distance <= _bound(case, threshold, beta) + 1e-8).all()
    assert found.converged.all()


@pytest.mark.filterwarnings("ignore::engine.errors.NudgeWarning")
def test_a_threshold_that_is_turned_up_degrades_learning() -> None:
    ideal, small, large = (
        held_out_cost(partial(SpikingBackend, config=SpikingConfig(threshold)))
        for threshold in (0.0, 0.003, 0.5)
    )
    assert ideal == pytest.approx(held_out_cost(NumbaBackend), abs=1e-6)
    assert ideal < LEARNED
    assert small < LEARNED
    assert large > ideal + 0.03


def test_the_read_out_knows_only_what_events_told_it() -> None:
    network = looped_mlp(4, 8, 3)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    backend = SpikingBackend(network, params, SpikingConfig(0.3))
    free = backend.settle(backend.clamp(np.ones((1, 4))), relaxation=Relaxation(100, 1e-9))
    before = backend.counts.copy()
    told = backend.predict(free)
    assert (backend.counts - before).total("mac") == 0  # the events have summed the logits
    whole = network.readout.predict(params, free.state)
    assert 1e-4 < np.abs(told - whole).max() < 0.3
    # A state that no event told it costs an event for each unit that is not silent.
    backend.predict(type(free)(free.state.copy(), free.steps, free.residual, free.converged, 0.0))
    spoken = int((np.abs(free.state) > 0.3).sum())
    assert (backend.counts - before).total("mac") == spoken * 3


def test_an_input_goes_to_every_core_that_it_drives() -> None:
    network = looped_mlp(4, 8, 3)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    backend = SpikingBackend(network, params, SpikingConfig(0.01, neurons_per_core=3))
    backend.clamp([[1.0, 0.0, 2.0, 0.0]])
    assert backend.counts.total("message", "input") == 2 * 3


def test_a_larger_threshold_is_further_off_and_quieter() -> None:
    network = looped_mlp(5, 20, 3)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    x = np.random.default_rng(1).standard_normal((30, 5))
    ideal, messages, distances = None, [], []
    for threshold in (0.0, 0.003, 0.03, 0.3):
        backend = SpikingBackend(network, params, SpikingConfig(threshold, 8))
        found = backend.settle(backend.clamp(x), relaxation=Relaxation(100, 1e-9)).state
        ideal = found if ideal is None else ideal
        distances.append(np.abs(found - ideal).mean())
        messages.append(backend.counts.total("message", "free"))
    assert distances == sorted(distances)
    assert distances[3] > 10 * distances[1] > 0
    assert messages == sorted(messages, reverse=True)
    assert messages[3] < messages[0] / 4


def test_a_phase_that_goes_on_sends_nothing_again() -> None:
    network = looped_mlp(4, 8, 3)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    backend = SpikingBackend(network, params, SpikingConfig(1e-6))
    clamped = backend.clamp(np.ones((2, 4)), np.eye(3)[:2])
    free = backend.settle(clamped, relaxation=Relaxation(200, 1e-9))

    def messages(start: np.ndarray) -> int:
        before = backend.counts.total("message", "nudged")
        backend.settle(clamped, 0.1, Relaxation(1, 0.0), start)
        return backend.counts.total("message", "nudged") - before

    assert messages(free.state) < messages(free.state.copy())


def test_messages_and_hops_follow_the_placement() -> None:
    """Two layers of four on cores of four, and the outputs: a mesh of two by two."""
    network = layered((2, 4, 4, 4))
    table = fan_out(network, 4)
    assert table[0].tolist() == [1, 1]  # to the second layer, one step away
    assert table[4].tolist() == [2, 1 + 2]  # back, and over to the outputs
    assert table[8].tolist() == [1, 2]
    assert fan_out(network, 100)[:, 1].sum() == 0


@pytest.mark.parametrize("threshold", [-0.1, 1.0, float("nan")])
def test_a_bad_threshold_gets_one_sentence(threshold: float) -> None:
    with pytest.raises(EngineError, match="spiking substrate has threshold"):
        SpikingConfig(threshold)


def _told(threshold: float = 1e-9) -> SpikingBackend:
    network = looped_mlp(4, 8, 3)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    params["b_out"][...] = [0.5, -1.0, 0.2]
    return SpikingBackend(network, params, SpikingConfig(threshold))


def test_a_relaxation_from_the_drive_begins_afresh() -> None:
    """Whatever was sent before: the same events, and the same end."""
    backend, rule, found = _told(), Relaxation(5, 0.0), []
    clamped = backend.clamp(np.ones((2, 4)), np.eye(3)[:2])
    for beta in (0.0, 0.0, 0.5, 0.5):
        before = backend.counts.copy()
        state = backend.settle(clamped, beta, rule).state
        found.append((state, backend.counts - before))
    for first, second in (found[:2], found[2:]):
        np.testing.assert_array_equal(first[0], second[0])
        assert first[1] == second[1]


def test_what_was_sent_through_other_weights_counts_for_nothing() -> None:
    """After an update a state that is given again is sent again, as a copy of it would be."""
    backend, rule, found = _told(), Relaxation(3, 0.0), []
    free = backend.settle(backend.clamp(np.ones((2, 4))), relaxation=rule)
    backend.apply(np.full(backend.network.size, 0.05))
    clamped = backend.clamp(np.ones((2, 4)), np.eye(3)[:2])
    for start in (free.state, free.state.copy()):
        before = backend.counts.copy()
        found.append((backend.settle(clamped, 0.5, rule, start).state, backend.counts - before))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_a_state_that_no_phase_told_is_read_out_in_full() -> None:
    """On a chip that has done nothing yet, and on one that has settled elsewhere."""
    state = np.random.default_rng(1).uniform(-0.9, 0.9, (2, 8))
    for settled in (False, True):
        backend = _told()
        free = backend.settle(backend.clamp(np.ones((2, 4))))
        backend = backend if settled else _told()
        outputs = backend.predict(replace(free, state=state))
        whole = backend.network.readout.predict(backend.params, state)
        np.testing.assert_allclose(outputs, whole, atol=1e-9)
