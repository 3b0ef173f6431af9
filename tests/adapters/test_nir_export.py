"""A network survives NIR bit for bit, and another simulator runs its spiking approximation."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import nir
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from snntorch import import_nir

from adapters.nir_export import (
    PEAK_STEPS,
    LearningRule,
    from_nir,
    read_nir,
    to_nir,
    to_spiking,
    write_nir,
)
from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import Bias, InputDrive, Lateral
from engine.couplings.readout import SquaredError
from engine.equilibrium import Relaxation
from engine.errors import CheckpointError, EngineError
from engine.learning.estimator import four_point
from engine.learning.spectral import recurrent_norm
from engine.model.builders import conv_net, energy_transformer, layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from experiments.fuzz.strategies import quadratic_networks, random_params


def draw(network: Network, dtype: type[np.floating] = np.float64) -> Params:
    return random_params(network, np.random.default_rng(3), 0.6, dtype)


def test_missing_nir_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nir", None)
    monkeypatch.delitem(sys.modules, "adapters.nir_export")
    monkeypatch.delitem(sys.modules, "adapters.nir_file")
    with pytest.raises(ImportError, match=r'pip install "settle\[nir\]"'):
        importlib.import_module("adapters.nir_export")


@settings(max_examples=25)
@given(quadratic_networks(), st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_every_network_comes_back_bit_for_bit(network: Network, seed: int, dtype: type) -> None:
    params = random_params(network, np.random.default_rng(seed), 0.8, dtype)
    found, _ = from_nir(to_nir(params))
    assert found.network == network
    assert found.theta.dtype == dtype
    np.testing.assert_array_equal(found.theta, params.theta)


def test_a_file_keeps_weights_rule_and_nudge(tmp_path: Path) -> None:
    params = draw(layered((3, 5, 4, 2)), np.float32)
    rule = LearningRule(four_point(0.2), Relaxation(40, 1e-5, "anderson"), Relaxation(7))
    write_nir(tmp_path / "net.nir", params, rule)
    found, kept = read_nir(tmp_path / "net.nir")
    np.testing.assert_array_equal(found.theta, params.theta)
    assert found.network == params.network
    assert kept == rule
    assert [path.name for path in tmp_path.iterdir()] == ["net.nir"]


def test_the_nodes_alone_say_what_the_network_computes() -> None:
    """Whoever ignores the metadata still gets the drive of every layer from nodes and edges."""
    params = draw(layered((3, 4, 5, 2), "hard_sigmoid", "squared_error"))
    graph, network = to_nir(params), params.network
    backend = NumbaBackend(network, params)
    x = np.random.default_rng(1).normal(size=(1, 3))
    settled = backend.settle(backend.clamp(x), relaxation=Relaxation(500, 1e-13)).state
    signal = {"input": x[0]} | {n: network.of(n, settled)[0] for n in network.columns}
    for layer in network.columns:
        node = graph.nodes[layer]
        assert node.metadata["activation"] == "hard_sigmoid"
        drive = node.v_leak.copy()
        for way in [source for source, target in graph.edges if target == layer]:
            (sender,) = [source for source, target in graph.edges if target == way]
            drive += graph.nodes[way].weight @ signal[sender]
        np.testing.assert_allclose(np.clip(drive, 0, 1), signal[layer], atol=1e-12)


def test_weights_that_another_tool_changed_are_taken_if_they_are_still_tied() -> None:
    graph = to_nir(draw(layered((3, 4, 2), readout="squared_error")))
    graph.nodes["W_2"].weight *= 2.0
    with pytest.raises(CheckpointError, match="node 'W_2_back' differs from 'W_2'"):
        from_nir(graph)
    graph.nodes["W_2_back"].weight *= 2.0
    found, _ = from_nir(graph)
    np.testing.assert_array_equal(found["W_2"], graph.nodes["W_2"].weight.T)
    looped = to_nir(draw(looped_mlp(2, 3, 2)))
    looped.nodes["W_rec"].weight[0, 1] += 1.0
    with pytest.raises(EngineError, match=r"'W_rec'"):
        from_nir(looped)


def looped_rates() -> Network:
    """A looped network of hard sigmoids, all of whose units are read."""
    couplings = (InputDrive("W_in", "a"), Bias("b", "a"), Lateral("W", "a"))
    return Network(2, (Layer("a", (6,), "hard_sigmoid"),), couplings, SquaredError("a"))


SPIKING = {
    "looped": looped_rates(),
    "layered": layered((2, 4, 3), "hard_sigmoid", "squared_error"),
    "convolution": conv_net((2, 3, 1), (2, 2), 2, kernel=2, stride=1, activation="hard_sigmoid"),
}


@pytest.mark.parametrize("network", SPIKING.values(), ids=SPIKING)
def test_snntorch_runs_the_spiking_network_to_the_same_equilibrium(
    network: Network, tmp_path: Path
) -> None:
    params = draw(network)
    for name, block in params.items():
        if name.startswith("b"):
            block[...] = np.linspace(0.1, 0.4, len(block))
        if name in ("W_in", "W_1"):
            block *= 0.15
    x = np.random.default_rng(2).normal(size=(3, network.inputs))
    backend = NumbaBackend(network, params)
    expected = backend.settle(backend.clamp(x), relaxation=Relaxation(500, 1e-12)).state
    assert expected.max() < 1.0
    assert np.ptp(expected) > 0.3
    nir.write(tmp_path / "spikes.nir", to_spiking(params))
    intervals = 30
    steps = 500, intervals * PEAK_STEPS
    rates = spike_rates(tmp_path / "spikes.nir", x, expected / PEAK_STEPS, *steps) * PEAK_STEPS
    # A spike comes up to one step late, and snntorch resets in the step after it, whose input is
    # lost; the network magnifies that. A spike at the edge of the window is counted or not.
    bound = 2 / PEAK_STEPS / (1 - recurrent_norm(params)) + 1 / intervals
    assert np.abs(rates - expected).max() < bound
    cut = draw(network)  # the comparison sees the recurrent coupling
    for coupling in network.recurrent:
        cut[coupling.name][...] = 0.0
    for name in set(params) - {c.name for c in network.recurrent}:
        cut[name][...] = params[name]
    alone = NumbaBackend(network, cut)
    assert np.abs(alone.settle(alone.clamp(x)).state - expected).max() > bound


def spike_rates(path: Path, x: np.ndarray, start: np.ndarray, skip: int, count: int) -> np.ndarray:
    """Spikes for each step after `skip` steps of snntorch, under constant input.

    It begins with the synaptic currents `start`. If these are not the equilibrium of the spiking
    network, they leave for it with the time constant of a synapse, 500 steps.

    snntorch converts each node itself; its function for whole graphs stops at nested ones, because
    nirtorch 2.6 does.
    """
    graph = import_nir._replace_rnn_subgraph_with_nirgraph(nir.read(path))
    drive, units = (import_nir._nir_to_snntorch_module(graph.nodes[n]) for n in ("drive", "units"))
    total = torch.zeros(())
    with torch.no_grad():
        current = drive(torch.tensor(x, dtype=torch.float32))
        spikes = membrane = torch.zeros_like(current)
        synapse = torch.tensor(start, dtype=torch.float32)
        for step in range(skip + count):
            spikes, synapse, membrane = units(current, spikes, synapse, membrane)
            if step >= skip:
                total = total + spikes
    return (total / count).numpy()


def test_what_cannot_be_exported_is_named() -> None:
    with pytest.raises(EngineError, match="'hidden' has activation 'tanh': a rate is not negative"):
        to_spiking(draw(looped_mlp(2, 3, 2)))
    words = energy_transformer(4, 3, width=2)
    rates = replace(words, layers=(replace(words.layers[0], activation="hard_sigmoid"),))
    rates = replace(rates, couplings=rates.couplings[:1])
    with pytest.raises(EngineError, match="coupling 'Emb' is no matrix, so"):
        to_spiking(initial_params(rates, np.random.default_rng(0)))
    twice = replace(looped_rates(), couplings=(Bias("b", "a"), Bias("c", "a")))
    with pytest.raises(EngineError, match="layer 'a' has two biases"):
        to_nir(initial_params(twice, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("network", "layers", 0, "kind"), "__import__('os').abort()"),
        (("network", "readout", "kind"), "Popen"),
        (("network", "inputs"), -1),
        (("rule", "free", "solver"), "exec"),
        (("rule", "estimator"), [[0.1, 1.0]]),
        (("format",), "settle nir 99"),
    ],
)
def test_metadata_is_data_and_never_code(place: tuple[object, ...], value: object) -> None:
    graph = to_nir(draw(looped_mlp(2, 3, 2)))
    head = json.loads(graph.metadata["settle"])
    part = head
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    graph.metadata["settle"] = json.dumps(head)
    with pytest.raises(EngineError):
        from_nir(graph)
