"""Constant memory and locality, from every word that the kernels of an execution touch."""

import numpy as np
import pytest

from engine.backend import Relaxation
from engine.network import looped_mlp
from engine.params import initial_params
from hw_sim.audit import AuditError, Memory, Rules, Trace, check_locality
from hw_sim.audited import audit_backprop, audit_digital, correlate_recorded, relax_recorded
from hw_sim.backprop import feedforward
from hw_sim.digital import DigitalBackend

NETWORK = looped_mlp(2, 3, 2)
X, Y = np.random.default_rng(0).standard_normal((2, 2)), np.eye(2)


def _params(network=NETWORK):  # type: ignore[no-untyped-def]
    return initial_params(network, np.random.default_rng(1), np.float64)


def test_the_digital_substrate_passes() -> None:
    backend = DigitalBackend(NETWORK, _params())
    audit = audit_digital(backend, X, Y)
    assert audit.synapse_writes > 2 * 9
    neurons = NETWORK.units + NETWORK.outputs
    allowed = backend.footprint.words(NETWORK) + neurons * len(backend.footprint.neuron_words)
    assert audit.working_set <= allowed + 3 * NETWORK.size


def test_the_audited_execution_is_that_of_the_substrate() -> None:
    backend = DigitalBackend(NETWORK, _params())
    _, words = relax_recorded(backend, X, Y, 0.25, 6)
    clamped = backend.clamp(X, Y)
    found = backend.relax(clamped, 0.25, Relaxation(6, 0.0))
    settled = found.steps < 6
    np.testing.assert_array_equal(
        words[~settled] * 2.0**-backend.config.state_fraction, found.state[~settled]
    )
    assert not settled.all()


def test_bptt_is_rejected_for_its_trajectory() -> None:
    with pytest.raises(AuditError, match=r"with 5 steps in place of 2 the working set grew by 9 "
                       r"words, the first of them trajectory\[3, 0\]"):  # fmt: skip
        audit_backprop(_params(), X, Y)


def test_backprop_is_rejected_for_its_deltas() -> None:
    network = feedforward(2, 3, 2)
    with pytest.raises(AuditError, match=r"gradient.inputs\[0, 0\] read delta_sum\[0\], which is"):
        audit_backprop(_params(network), X, Y, steps=0)


def test_a_synapse_that_looks_elsewhere_is_named() -> None:
    trace = Trace()
    gradient = Memory("gradient", np.zeros((2, 2)), trace)
    state = Memory("state", np.ones((1, 3)), trace)
    rules = Rules(("gradient",), source=("state",), target=("state",))
    gradient[0, 1] = gradient[0, 1] + state[0, 0] * state[0, 1]
    assert check_locality(trace, rules) == 1
    hidden = state[0, 2]  # a register that outlives its update is followed too
    gradient[1, 1] = gradient[1, 1] + state[0, 1] * (2 * hidden)
    with pytest.raises(AuditError, match=r"gradient\[1, 1\] read state\[0, 2\]"):
        check_locality(trace, rules)


def test_another_synapse_is_not_ones_own() -> None:
    trace = Trace()
    gradient = Memory("gradient", np.zeros((2, 2)), trace)
    gradient[0, 1] = gradient[1, 0] + 1
    with pytest.raises(AuditError, match=r"gradient\[0, 1\] read gradient\[1, 0\]"):
        check_locality(trace, Rules(("gradient",)))


def test_an_audit_of_nothing_proves_nothing() -> None:
    with pytest.raises(AuditError, match="nothing was proven"):
        check_locality(Trace(), Rules(("gradient",)))


def test_learning_reads_both_ends() -> None:
    """Without this a trace that followed nothing would pass."""
    state = np.arange(6.0).reshape(2, 3)
    words = dict(correlate_recorded(state).writes)
    assert words["gradient", 0, 2] == {("gradient", 0, 2), ("state", 1, 0), ("state", 1, 2)}
