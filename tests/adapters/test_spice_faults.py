"""Faults planted in a netlist, one line at a time: the comparison with the engine sees each."""

import re

import numpy as np
import pytest

from adapters.spice_netlist import write_netlist
from adapters.spice_run import run_netlist
from tests.adapters.spice_cases import drawn, needs_ngspice, settled

SEEN_V = 1e-5
"""Ten times what the command lets pass, and ten thousand times what is measured."""
BETA = 0.3

FAULTS = {
    "a leak is missing": (r"^Rl1_0 n1_0 0 1$", "* nothing"),
    "a leak is twice as large": (r"^(Rl2_1 n2_1 0) 1$", r"\1 0.5"),
    "a conductance is doubled": (r"^(R0p_0_0 \S+ \S+) (\S+)$", r"\1 {\2/2}"),
    "a conductance is missing": (r"^R1p_1_0 .*$", "* nothing"),
    "a resistor ends at the next node": (r"^(R0p_0_0 \S+) n0_0", r"\1 n0_1"),
    "a resistor begins at the other source": (r"^(R0p_0_0) c0p0 ", r"\1 c0m0 "),
    "conductances between layers are ohms": (r"^(R2_0_0 \S+ \S+) (\S+)$", r"\1 {1/\2}"),
    "a negative source has the sign of the positive": (r"^(E0m0 \S+ 0 x0 0) -", r"\1 "),
    "a source is not amplified": (r"^(E0p0 \S+ 0 x0 0) \S+$", r"\1 1"),
    "an input has the other sign": (r"^(Vx1 x1 0 DC) (\S+)$", r"\1 {-\2}"),
    "a lower diode is reversed": (
        r"^(Bl0_1) 0 (n0_1) I = .*$",
        r"\1 \2 0 I = v(\2)>0 ? 1e11*v(\2) : 0",
    ),
    "an upper diode is missing": (r"^Bh1_1 .*$", "* nothing"),
    "a bias flows out of its node": (r"^(I\d+_0) 0 (n0_0) ", r"\1 \2 0 "),
    "a bias is missing": (r"^I\d+_1 0 n2_1 .*$", "* nothing"),
    "the nudge pushes away from the target": (r"^(G0 0 n2_0) y0 n2_0", r"\1 n2_0 y0"),
    "the nudge takes no heed of the voltage": (r"^(G1 0 n2_1 y1) n2_1", r"\1 0"),
    "the nudge is twice as strong": (r"^(G0 .*) (\S+)$", r"\1 {2*\2}"),
    "the targets change places": (r"^(G0 0 n2_0) y0", r"\1 y1"),
    "an amplifier draws no current back": (r"^F2a0 .*$", "* nothing"),
    "an amplifier gives current back": (r"^(F2a1) (n0_1) 0 ", r"\1 0 \2 "),
    "an amplifier listens to its neighbour": (r"^(E2a0 \S+ 0) n0_0", r"\1 n0_1"),
    "a sample keeps the input of the one before": (r"^alter Vx0 .*$", "* nothing"),
    "a sample keeps the target of the one before": (r"^alter Vy0 .*$", "* nothing"),
}


@needs_ngspice
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str) -> None:
    """In a circuit in which every diode works in one sample, and rests in another."""
    params, x, y = drawn(12, 3, 4, 2, amplification=1.7)
    for name in params.network.squares:
        params[name][...] = np.maximum(params[name], 0.05)
    text, network = write_netlist(params, x, y, BETA), params.network
    expected = settled(params, x, y, BETA)
    pattern, other = FAULTS[fault]
    broken, times = re.subn(pattern, other, text, count=1, flags=re.MULTILINE)
    assert times == 1
    assert broken != text
    assert np.abs(run_netlist(broken, network) - expected).max() > SEEN_V


@needs_ngspice
def test_the_same_circuit_without_a_fault_agrees() -> None:
    params, x, y = drawn(12, 3, 4, 2, amplification=1.7)
    for name in params.network.squares:
        params[name][...] = np.maximum(params[name], 0.05)
    found = run_netlist(write_netlist(params, x, y, BETA), params.network)
    np.testing.assert_allclose(found, settled(params, x, y, BETA), rtol=0, atol=1e-8)
