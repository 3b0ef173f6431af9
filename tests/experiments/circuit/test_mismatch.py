"""Specimens of a circuit: what they settle to, what they learn from, and what is written."""

import re

import numpy as np
import pytest

from adapters.spice_netlist import Parts, write_netlist
from adapters.spice_run import run_netlist
from engine import Network, NumbaBackend, Params, Training, centered, fit, resistive
from engine.arrays import FloatArray
from engine.errors import EngineError
from engine.learning.estimator import estimate
from engine.model.network import Layer
from experiments.circuit.mismatch import Mismatch, MismatchedCircuit, draw_mismatch
from tests.adapters.spice_cases import SETTLED, drawn, needs_ngspice

THERMAL_V = 1.380649e-23 * 300.15 / 1.602176634e-19
"""Of ngspice, at 27 degrees Celsius."""
EMISSION = 2.0
SIGNS = {"relu": 1.0, "mirrored_relu": -1.0, "linear": 0.0}


def specimen(
    seed: int = 1, device: float = 0.4, diode: float = 0.3
) -> tuple[MismatchedCircuit, FloatArray, FloatArray]:
    """Return a small circuit with two hidden layers, off by both, with samples and targets."""
    params, x, y = drawn(seed, 5, 6, 4, 3, amplification=1.5)
    mismatch = draw_mismatch(
        params.network, np.random.default_rng(seed + 9), device=device, diode=diode
    )
    return MismatchedCircuit(params.network, params, mismatch), x, y


def met(
    conducting: Params, layer: Layer, x: FloatArray, state: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the currents into grounded nodes `(samples, size)`, and all conductance of each."""
    network = conducting.network
    drive, total = np.tile(conducting[f"b_{layer.name}"], (len(x), 1)), np.ones(layer.size)
    for name, squares in network.squares.items():
        g, gain, ends = conducting[name], squares.amplification, squares.layers
        if ends == (layer.name,):
            drive, total = drive + gain * x @ (g[0] - g[1]), total + g.sum((0, 1))
        elif ends[-1] == layer.name:
            drive = drive + gain * state[:, network.columns[ends[0]]] @ g
            total = total + g.sum(0)
        elif ends[0] == layer.name:
            drive = drive + gain * state[:, network.columns[ends[1]]] @ g.T
            total = total + gain**2 * g.sum(1)
    return drive, total


def equilibrium(
    conducting: Params, thresholds: FloatArray, x: FloatArray, y: FloatArray, beta: float
) -> FloatArray:
    """Find the voltages layer by layer, by Kirchhoff's law, with each diode at its threshold."""
    network = conducting.network
    state = np.tile(thresholds, (len(x), 1))
    for _ in range(1000):
        for layer in network.layers:
            drive, total = met(conducting, layer, x, state)
            if layer.name == "outputs":
                drive, total = drive + beta * y, total + beta
            here = network.columns[layer.name]
            free, edge = drive / total, thresholds[here]
            bend = {"relu": np.maximum, "mirrored_relu": np.minimum}.get(layer.activation)
            state[:, here] = free if bend is None else bend(free, edge)
    return state


def programmed(backend: MismatchedCircuit, mismatch: Mismatch) -> Params:
    """Return what conducts, with the biases as they were set."""
    words = backend.params
    return Params(words.network, words.theta * mismatch.gains)


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_it_settles_where_kirchhoff_says(beta: float) -> None:
    params, x, y = drawn(4, 5, 6, 4, 3, amplification=1.5)
    mismatch = draw_mismatch(params.network, np.random.default_rng(3), device=0.5, diode=0.4)
    backend = MismatchedCircuit(params.network, params, mismatch)
    found = backend.settle(backend.clamp(x, y), beta, SETTLED)
    expected = equilibrium(programmed(backend, mismatch), mismatch.thresholds, x, y, beta)
    np.testing.assert_allclose(found.state, expected, atol=1e-10)
    held = np.isclose(expected, mismatch.thresholds) & (mismatch.thresholds != 0.0)
    assert 0.1 < held.mean() < 0.9  # some diodes conduct, and some do not


def test_a_start_is_in_volts_too() -> None:
    backend, x, y = specimen()
    clamped = backend.clamp(x, y)
    free = backend.settle(clamped, 0.0, SETTLED)
    again = backend.settle(clamped, 0.0, SETTLED, start=free.state)
    assert again.steps.max() <= 1
    np.testing.assert_allclose(again.state, free.state, atol=1e-12)


def test_without_any_spread_it_learns_as_the_engine_does() -> None:
    params, x, y = drawn(2, 5, 6, 3)
    params = params.astype(np.float32)
    ideal = Mismatch.none(params.network)
    backends = (
        NumbaBackend(params.network, params),
        MismatchedCircuit(params.network, params, ideal),
    )
    for backend in backends:
        fit(backend, x, y, Training(epochs=5, batch_size=2))
    np.testing.assert_array_equal(backends[0].params.theta, backends[1].params.theta)


def test_a_synapse_learns_from_real_voltages_and_knows_no_factor() -> None:
    """By central differences the slope by a word is its factor times what the rule says."""
    params, x, y = drawn(6, 4, 6, 3)
    mismatch = draw_mismatch(params.network, np.random.default_rng(5), device=0.4, diode=0.2)
    network, backend = params.network, MismatchedCircuit(params.network, params, mismatch)
    gradient = np.zeros(network.size)
    estimate(backend, backend.clamp(x, y), centered(1e-3), gradient, SETTLED, SETTLED)

    def cost(place: int, change: float) -> float:
        moved = params.copy()
        moved.theta[place] += change
        backend.load(moved)
        clamped = backend.clamp(x, y)
        return float(backend.cost(clamped, backend.settle(clamped, 0.0, SETTLED)).mean())

    places = np.flatnonzero(params.theta > 0.05)[::5]
    step = 1e-4
    slopes = np.array([(cost(k, step) - cost(k, -step)) / (2 * step) for k in places])
    assert mismatch.gains[places].std() > 0.2
    np.testing.assert_allclose(slopes, mismatch.gains[places] * gradient[places], atol=1e-6)
    assert not np.allclose(slopes, gradient[places], rtol=0.05, atol=1e-6)


def test_updates_go_to_the_words_within_what_can_be_programmed() -> None:
    params, _, _ = drawn(3, 4, 6, 3)
    network = params.network
    spread = draw_mismatch(network, np.random.default_rng(0), device=0.5, most=0.8)
    backend = MismatchedCircuit(network, params, spread)
    backend.apply(np.full(network.size, 0.3))
    for name in network.blocks:
        expected = params[name] + 0.3
        if name in network.squares:
            expected = np.minimum(np.minimum(params[name], 0.8) + 0.3, 0.8)
        np.testing.assert_allclose(backend.params[name], expected)
    np.testing.assert_allclose(backend.circuit.theta, spread.gains * backend.params.theta)


def test_factors_are_lognormal_and_outputs_have_no_diode() -> None:
    network = resistive((40, 60, 5))
    found = draw_mismatch(network, np.random.default_rng(0), device=0.3, diode=2.0)
    for name, block in network.blocks.items():
        logs = np.log(found.gains[block.span])
        assert abs(logs.mean()) < 0.05
        expected = 0.3 if name in network.squares else 0.0
        assert logs.std() == pytest.approx(expected, rel=0.2)
    assert found.thresholds[network.columns["outputs"]].tolist() == [0.0] * 5
    assert found.thresholds[:60].std() == pytest.approx(2.0, rel=0.2)


def test_nodes_between_two_diodes_are_refused() -> None:
    params, _, _ = drawn(1, 4, 6, 3)
    network = params.network
    layers = tuple(type(layer)(layer.name, layer.shape, "hard_sigmoid") for layer in network.layers)
    bent = type(network)(network.inputs, layers, network.couplings, network.readout)
    with pytest.raises(EngineError, match="'up1' has nodes of hard_sigmoid"):
        MismatchedCircuit(bent, Params(bent, params.theta), Mismatch.none(bent))


@needs_ngspice
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_spice_agrees_on_devices_and_thresholds_of_their_own(beta: float) -> None:
    params, x, y = drawn(7, 5, 6, 4, 3, amplification=1.5)
    mismatch = draw_mismatch(params.network, np.random.default_rng(2), device=0.5, diode=0.5)
    backend = MismatchedCircuit(params.network, params, mismatch)
    netlist = write_netlist(programmed(backend, mismatch), x, y, beta)
    volts = run_netlist(
        _with_thresholds(netlist, params.network, mismatch.thresholds), params.network
    )
    found = backend.settle(backend.clamp(x, y), beta, SETTLED)
    np.testing.assert_allclose(found.state, volts, atol=1e-6)
    without = run_netlist(netlist, params.network)
    assert np.abs(without - volts).max() > 0.1  # the thresholds are in the netlist


@needs_ngspice
def test_a_spread_of_saturation_currents_is_one_of_thresholds() -> None:
    """A Shockley diode that carries `I` holds its node at `n V_T ln(1 + I / I_S)` beyond zero."""
    params, x, _ = drawn(8, 4, 8, 3)
    network = params.network
    saturation = 1e-9 * np.exp(np.random.default_rng(1).normal(0.0, 2.0, network.units))
    parts = Parts("shockley", emission=EMISSION)
    netlist = _with_saturation(write_netlist(params, x, parts=parts), network, saturation)
    volts = run_netlist(netlist, network)
    for sample, measured in zip(x[:, None], volts, strict=True):
        state, thresholds = np.zeros((1, network.units)), np.zeros(network.units)
        for _ in range(150):
            for layer in network.layers:
                drive, total = met(params, layer, sample, state)
                here, sign = network.columns[layer.name], SIGNS[layer.activation]
                state[:, here] = drive / total
                if sign:
                    held = _held_by_diode(sign * drive[0], total, saturation[here])
                    state[:, here] = thresholds[here] = sign * held
        mismatch = Mismatch(np.ones(network.size), thresholds)
        backend = MismatchedCircuit(network, params, mismatch)
        found = backend.settle(backend.clamp(sample), 0.0, SETTLED)
        np.testing.assert_allclose(found.state[0], measured, atol=1e-6)
        assert np.abs(found.state[0][thresholds < 0.0]).max() > 0.3  # far from an ideal diode


def _held_by_diode(drive: FloatArray, total: FloatArray, saturation: FloatArray) -> FloatArray:
    """Solve `total v - drive = I_S (exp(-v / n V_T) - 1)` for each node by bisection."""
    low, high = np.full_like(drive, -3.0), drive / total + 3.0
    for _ in range(60):
        middle = (low + high) / 2
        too_high = total * middle - drive > saturation * np.expm1(-middle / (EMISSION * THERMAL_V))
        low, high = np.where(too_high, low, middle), np.where(too_high, middle, high)
    return low


def _with_thresholds(netlist: str, network: Network, thresholds: FloatArray) -> str:
    """Move the edge of each ideal diode to its own threshold."""
    for node, place in _diodes(network).items():
        edge = f"{thresholds[place]:.17g}"
        beside = {f"(0-v({node}))": f"({edge}-v({node}))", f"(v({node})-0)": f"(v({node})-{edge})"}
        for plain, moved in beside.items():
            netlist = netlist.replace(plain, moved)
    return netlist


def _with_saturation(netlist: str, network: Network, saturation: FloatArray) -> str:
    """Give each Shockley diode a model of its own."""
    model = re.search(r"^\.model bend .*$", netlist, re.MULTILINE)
    assert model is not None
    models = []
    for node, place in _diodes(network).items():
        netlist, count = re.subn(rf"^(D.*\b{node}\b.*) bend$", rf"\1 {node}d", netlist, flags=re.M)
        assert count == 1
        models.append(f".model {node}d D(IS={saturation[place]:.17g} N={EMISSION})")
    return netlist.replace(model[0], "\n".join(models))


def _diodes(network: Network) -> dict[str, int]:
    """Return the name in the netlist of every hidden node, and its place in a state."""
    return {
        f"n{k}_{j}": network.columns[layer.name].start + j
        for k, layer in enumerate(network.layers[:-1])
        for j in range(layer.size)
    }
