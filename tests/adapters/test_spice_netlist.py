"""Netlists: ngspice finds the voltages of the engine, node by node."""

import numpy as np
import pytest
import scipy

from adapters.spice_netlist import Parts, write_netlist
from adapters.spice_run import SpiceError, run_netlist
from engine.couplings.conductance import Conductance, InputConductance
from engine.couplings.readout import SquaredError
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from tests.adapters.spice_cases import drawn, needs_ngspice, settled

VOLT = 1e-8
"""Largest difference; the netlist of the largest circuits is asked for 1e-6."""


@needs_ngspice
@pytest.mark.parametrize("beta", [0.0, 0.1, -0.5])
@pytest.mark.parametrize("amplification", [1.0, 1.7])
@pytest.mark.parametrize("sizes", [(3, 4, 2), (1, 1, 1), (5, 9, 8, 6, 3), (20, 30, 10)])
def test_every_node_has_the_voltage_of_the_engine(
    sizes: tuple[int, ...], amplification: float, beta: float
) -> None:
    params, x, y = drawn(sum(sizes), *sizes, amplification=amplification)
    found = run_netlist(write_netlist(params, x, y, beta), params.network)
    np.testing.assert_allclose(found, settled(params, x, y, beta), rtol=0, atol=VOLT)


@needs_ngspice
def test_hard_sigmoids_have_a_diode_at_either_end() -> None:
    network = Network(
        2,
        (Layer("a", (8,), "hard_sigmoid"), Layer("b", (2,), "linear")),
        (InputConductance("g_in", "a", 3.0, 4.0), Conductance("g", "a", "b")),
        SquaredError("b"),
    )
    rng = np.random.default_rng(0)
    params, x = initial_params(network, rng, np.float64), 2 * rng.standard_normal((6, 2))
    y = np.zeros((6, 2))
    expected = settled(params, x, y, 0.0)
    found = run_netlist(write_netlist(params, x), network)
    np.testing.assert_allclose(found, expected, rtol=0, atol=VOLT)
    assert {0.0, 1.0} <= set(expected.round(12).ravel())
    shockley = run_netlist(write_netlist(params, x, parts=Parts("shockley")), network)
    assert shockley[:, :8].max() > 1.1
    assert shockley[:, :8].min() < -0.1


@needs_ngspice
def test_resistances_of_sources_and_wires_are_in_series() -> None:
    """As smaller conductances where one source feeds one node."""
    params, _, y = drawn(4, 1, 2, 2)
    x = np.array([[1.5]])
    ohm, network = 0.4, params.network
    wired = run_netlist(write_netlist(params, x, parts=Parts(wire_ohm=ohm)), network)
    smaller = params.copy()
    for name in network.squares:
        smaller[name][...] = params[name] / (1 + ohm * params[name])
    np.testing.assert_allclose(wired, settled(smaller, x, y[:1], 0.0), rtol=0, atol=VOLT)
    sourced = run_netlist(write_netlist(params, x, parts=Parts(source_ohm=ohm)), network)
    smaller = params.copy()
    for name in ("g_1_up1", "g_1_down1"):  # one node each
        smaller[name][...] = params[name] / (1 + ohm * params[name])
    assert np.abs(sourced - settled(params, x, y[:1], 0.0)).max() > 1e-3
    np.testing.assert_allclose(sourced, settled(smaller, x, y[:1], 0.0), rtol=0, atol=VOLT)


@needs_ngspice
def test_a_shockley_diode_conducts_as_its_law_says() -> None:
    """One node between a source and a diode: `I = IS (exp(V / N V_T) - 1)` at 27 degrees."""
    network = Network(
        1,
        (Layer("a", (1,), "relu"),),
        (InputConductance("g", "a", 1.0),),
        SquaredError("a"),
    )
    params, parts = Params(network, np.array([2.0, 0.5])), Parts("shockley", 1e-6, 2.0)
    ((v,),) = run_netlist(write_netlist(params, np.array([[-3.0]]), parts=parts), network)
    thermal = 1.380649e-23 * 300.15 / 1.602176634e-19

    def current(v: float) -> float:
        through = parts.saturation_a * np.expm1(-v / (parts.emission * thermal))
        return float(2.0 * (-3.0 - v) + 0.5 * (3.0 - v) - v + through)

    assert v == pytest.approx(scipy.optimize.brentq(current, -2.0, 2.0), abs=1e-6)


def test_the_netlist_says_which_node_is_which() -> None:
    params, x, y = drawn(1, 3, 4, 2)
    lines = write_netlist(params, x, y, 0.25).splitlines()
    assert lines[0] == "* Settle: 3-2-2-2, beta 0.25, ideal diodes"
    assert "* layer 1, down1: n1_0 to n1_1, mirrored_relu" in lines
    assert "* g_1_down1: R1p_I_J from c1pI at 4 xI, R1m_I_J from c1mI at -4 xI, to n1_J" in lines
    assert "* g_down1_outputs: R3_I_J from n1_I, to n2_J" in lines
    resistors = [line for line in lines if line.startswith("R") and not line.startswith("Rl")]
    assert len(resistors) == sum(int((params[n] > 0).sum()) for n in params.network.squares)
    assert len([line for line in lines if line == "op"]) == 3
    assert lines[-1] == ".end"


def test_no_circuit_is_refused() -> None:
    params, x, _ = drawn(1, 3, 4, 2)
    for network in (looped_mlp(3, 4, 2), layered((3, 4, 2), "relu", "squared_error")):
        other = initial_params(network, np.random.default_rng(0), np.float64)
        with pytest.raises(SpiceError, match="the network is not resistive: coupling 'W_"):
            write_netlist(other, x)
    with pytest.raises(SpiceError, match=r"a nudge of beta 0\.1 needs targets"):
        write_netlist(params, x, None, 0.1)
    for wrong in ({"source_ohm": -1.0}, {"emission": 0.0}, {"saturation_a": float("nan")}):
        with pytest.raises(SpiceError, match="expected a number above zero"):
            Parts(**wrong)  # type: ignore[arg-type]
    with pytest.raises(SpiceError, match="unknown diode 'zener'"):
        Parts("zener")  # type: ignore[arg-type]


@needs_ngspice
def test_a_resistor_that_is_another_is_seen() -> None:
    """The comparison is not blind."""
    params, x, y = drawn(2, 3, 4, 2)
    off = params.copy()
    off["g_1_up1"][0, 0] += 1e-3
    found = run_netlist(write_netlist(params, x), params.network)
    assert np.abs(found - settled(off, x, y, 0.0)).max() > 1e-5
