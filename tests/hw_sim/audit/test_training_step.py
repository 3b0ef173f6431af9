"""Constant memory and locality, from every word that the kernels of an execution touch."""

import re
from dataclasses import replace

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params
from hw_sim.audit.recording import Memory, Trace
from hw_sim.audit.rules import AuditError, Rules, check_locality
from hw_sim.audit.training_step import (
    audit_backprop,
    audit_substrate,
    check_footprint,
    correlate_recorded,
    relax_recorded,
)
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.chips.substrate import Substrate
from hw_sim.rivals.backprop import feedforward

NETWORK = looped_mlp(2, 3, 2)
X, Y = np.random.default_rng(0).standard_normal((2, 2)), np.eye(2)
SUBSTRATES = {"digital": DigitalBackend, "crossbar": CrossbarBackend, "spiking": SpikingBackend}
each_substrate = pytest.mark.parametrize("make", SUBSTRATES.values(), ids=SUBSTRATES)


def _params(network: Network = NETWORK) -> Params:
    return initial_params(network, np.random.default_rng(1), np.float64)


@each_substrate
@pytest.mark.parametrize("network", [NETWORK, layered((2, 3, 2, 2))], ids=["looped", "layered"])
def test_every_substrate_passes(make: type[Substrate], network: Network) -> None:
    backend = make(network, _params(network))
    audit = audit_substrate(backend, X, Y)
    assert audit.synapse_writes >= network.size
    held = backend.footprint.count(network)
    assert 2 * network.size < audit.working_set <= held.words


@each_substrate
def test_the_audited_execution_is_that_of_the_substrate(make: type[Substrate]) -> None:
    backend = make(NETWORK, _params())
    if make is SpikingBackend:
        backend = SpikingBackend(NETWORK, _params(), SpikingConfig(0.0))
    _, words = relax_recorded(backend, X, Y, 0.25, 6)
    found = backend.settle(backend.clamp(X, Y), 0.25, Relaxation(6, 0.0))
    moving = found.steps == 6
    scale = 2.0**-backend.config.state_fraction if isinstance(backend, DigitalBackend) else 1.0
    np.testing.assert_allclose(words[moving] * scale, found.state[moving], rtol=0, atol=1e-12)
    assert moving.any()


@each_substrate
def test_a_word_that_is_not_declared_is_named(make: type[Substrate]) -> None:
    backend = make(NETWORK, _params())
    trace, _ = relax_recorded(backend, X, Y, 0.25, 2)
    fewer = tuple(word for word in backend.footprint.neuron_words if word != "image")
    with pytest.raises(AuditError, match=r"touched 'work\.image', which the footprint does not"):
        check_footprint(trace, replace(backend.footprint, neuron_words=fewer))


@each_substrate
def test_a_state_reaches_only_the_gradient_of_its_own_synapses(make: type[Substrate]) -> None:
    """From outside: move one unit and see which words of the gradient move."""
    backend, gradients = make(NETWORK, _params()), []
    clamped = backend.clamp(X[:1], Y[:1])
    settled = backend.settle(clamped)
    for moved in (0.0, 0.25):
        state = settled.state.copy()
        state[0, 1] += moved
        gradient = np.zeros(NETWORK.size)
        backend.accumulate(clamped, replace(settled, state=state), gradient, energy=1.0)
        gradients.append(gradient)
    changed = Params(NETWORK, (gradients[0] != gradients[1]).astype(float))
    own = Params(NETWORK, np.zeros(NETWORK.size))
    own["W_in"][:, 1] = own["b"][1] = own["W_rec"][1] = own["W_rec"][:, 1] = 1.0
    np.testing.assert_array_equal(changed.theta, own.theta)


@each_substrate
def test_an_update_reaches_only_its_own_weight(make: type[Substrate]) -> None:
    network, thetas = layered((2, 3, 2, 2)), []
    update = np.full(network.size, 0.05)
    for more in (0.0, 0.5):
        backend = make(network, _params(network))
        changed = update.copy()
        changed[4] += more
        backend.apply(changed)
        thetas.append(backend.params.theta)
    assert np.flatnonzero(thetas[0] != thetas[1]).tolist() == [4]


def test_bptt_is_rejected_for_its_trajectory() -> None:
    with pytest.raises(AuditError, match=r"with 5 steps in place of 2 the working set grew by 9 "
                       r"words, the first of them trajectory\[3, 0\]"):  # fmt: skip
        audit_backprop(_params(), X, Y)


def test_backprop_is_rejected_for_its_deltas() -> None:
    network = feedforward(looped_mlp(2, 3, 2))
    with pytest.raises(AuditError, match=r"gradient.W_in\[0, 0\] read delta_sum\[0, 0\], which"):
        audit_backprop(_params(network), X, Y, steps=0)


@pytest.mark.parametrize(
    "network",
    [layered((2, 3, 2, 2), "relu"), conv_net((2, 1, 1), (2, 1), 2, kernel=1, stride=1)],
    ids=["layered", "conv"],
)
def test_rivals_of_deep_and_shared_networks_are_rejected_alike(network: Network) -> None:
    with pytest.raises(AuditError, match=r"the first of them trajectory\[3, 0\]"):
        audit_backprop(_params(network), X, Y)
    with pytest.raises(AuditError, match=r"gradient.W_1\[\d, 0\] read delta_sum\[0, \d\], which"):
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


@pytest.mark.parametrize(
    ("source", "target", "foreign"),
    [(2, 1, None), (3, 3, None), (3, 1, "low[0, 3]"), (2, 3, "low[0, 2]"), (2, 0, "top[0, 0]")],
)
def test_a_shared_synapse_meets_both_ends_at_one_position(
    source: int, target: int, foreign: str | None
) -> None:
    """Word `[0, 1]` of two rows and two columns: unit 2 with 1 at the first place, 3 with 3."""
    trace = Trace()
    gradient = Memory("gradient", np.zeros((2, 2)), trace)
    low, top = (Memory(name, np.ones((1, 4)), trace) for name in ("low", "top"))
    gather = np.array([[2, -1], [3, 2]])
    rules = Rules(("gradient",), source=("low",), target=("top",), gather=gather, columns=2)
    gradient[0, 1] = gradient[0, 1] + low[0, source] * top[0, target]
    if foreign is None:
        assert check_locality(trace, rules) == 1
        return
    with pytest.raises(AuditError, match=re.escape(f"gradient[0, 1] read {foreign}")):
        check_locality(trace, rules)


def test_an_audit_of_nothing_proves_nothing() -> None:
    with pytest.raises(AuditError, match="nothing was proven"):
        check_locality(Trace(), Rules(("gradient",)))


def test_learning_reads_both_ends() -> None:
    """Without this a trace that followed nothing would pass."""
    state = np.arange(3.0).reshape(1, 3)
    trace, _ = correlate_recorded(NETWORK, "W_rec", state, X[:1], Y[:1])
    expected = {("gradient", 0, 2), ("hidden", 0, 0), ("hidden", 0, 2)}
    assert dict(trace.writes)["gradient", 0, 2] == expected
