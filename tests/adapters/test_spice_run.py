"""What ngspice answers, and what it does not: one sentence either way."""

import pytest

from adapters import spice_run
from adapters.spice_netlist import write_netlist
from adapters.spice_run import SpiceError, read_voltages, run_netlist
from tests.adapters.spice_cases import drawn, needs_ngspice


def test_what_ngspice_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    params, _, _ = drawn(1, 3, 4, 2)
    printed = "settle sample 0\n" + "".join(f"v(n0_{j}) = 0.5\n" for j in range(2))
    with pytest.raises(SpiceError, match="no operating point: Timestep too small"):
        read_voltages(printed, params.network, "\nTimestep too small; giving up\n")
    with pytest.raises(SpiceError, match="it printed no voltages"):
        read_voltages("", params.network)
    monkeypatch.setattr(spice_run.shutil, "which", lambda name: None)
    with pytest.raises(
        SpiceError, match=r"ngspice, .* is not installed: it is in the package ngspice\."
    ):
        run_netlist("", params.network)


@needs_ngspice
def test_a_broken_netlist_is_told() -> None:
    params, x, _ = drawn(1, 3, 4, 2)
    text = write_netlist(params, x).replace("Rl0_0 n0_0 0 1", "Dl0_0 n0_0 0 unknown")
    with pytest.raises(SpiceError, match="ngspice found no operating point"):
        run_netlist(text, params.network)
