"""`python -m experiments.circuit draw`: a schematic has the parts of its netlist, and no others."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import Circle, Polygon

from adapters.spice_netlist import Parts, write_netlist
from adapters.spice_run import SpiceError
from adapters.spice_transient import Charging, write_transient
from experiments.circuit.__main__ import main
from experiments.circuit.schematic import merged_sources, read_schematic
from experiments.circuit.schematic_plot import draw_schematic
from tests.adapters.spice_cases import drawn


def test_every_part_of_a_netlist_is_found() -> None:
    params, x, y = drawn(3, 3, 4, 2, amplification=1.7)
    text = write_netlist(params, x, y, 0.25, Parts(source_ohm=0.1))
    found = read_schematic(text)
    assert found.title == "3-2-2-2, beta 0.25, ideal diodes"
    assert [len(found.layers[k]) for k in range(3)] == [2, 2, 2]
    conductances = [params[name][params[name] > 0.0] for name in params.network.squares]
    siemens = [resistor.siemens for resistor in found.resistors]
    np.testing.assert_allclose(sorted(siemens), np.sort(np.concatenate(conductances)))
    assert sorted(found.diodes) == [
        ("n0_0", True),
        ("n0_1", True),
        ("n1_0", False),
        ("n1_1", False),
    ]
    assert {node for node, _ in found.amplifiers.values()} == {"n0_0", "n0_1", "n1_0", "n1_1"}
    assert found.nudges == {f"n2_{j}": (0.25, pytest.approx(y[0, j])) for j in range(2)}
    assert len(found.currents) == 6
    assert len(merged_sources(found)) == 6  # of each input both signs
    assert {source.ohm for source in found.sources.values()} == {0.1}
    words = [text.get_text() for text in draw_schematic(found).axes[0].texts]
    assert sum(word.endswith("V\n0.1 ohm") for word in words) == 6
    for pins in merged_sources(found).values():
        assert found.sources[pins[0]].voltage == pytest.approx(
            found.sources[pins[0]].gain * x[0, int(found.sources[pins[0]].label[1:])]
        )
    charged = write_transient(params, x[0], Charging(2e-9, 1e-6))
    assert set(read_schematic(charged).capacitances.values()) == {2e-9}
    bent = read_schematic(write_netlist(params, x, parts=Parts("shockley")))
    assert bent.diodes == found.diodes


def test_the_drawing_has_a_symbol_for_each_part() -> None:
    params, x, y = drawn(3, 3, 4, 2, amplification=1.7)
    circuit = read_schematic(write_netlist(params, x, y, 0.25))
    (axes,) = draw_schematic(circuit).axes
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    triangles = [patch for patch in axes.patches if isinstance(patch, Polygon)]
    assert len(circles) == 6 + len(circuit.currents) + len(circuit.nudges)
    assert len(triangles) == len(circuit.diodes) + 4  # and the amplifiers
    zigzags = [line for line in axes.lines if len(line.get_xdata()) == 8]
    assert len(zigzags) == len(circuit.resistors) + len(circuit.nodes)


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_it_writes_the_picture(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params, x, y = drawn(3, 2, 4, 2)
    netlist, picture = tmp_path / "small.cir", tmp_path / f"small{ending}"
    netlist.write_text(write_netlist(params, x, y, 0.1))
    assert main(["draw", str(netlist), "--out", str(picture)]) == 0
    assert f"Drawn: {picture}" in capsys.readouterr().out
    assert picture.stat().st_size > 10_000


def test_what_cannot_be_drawn_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = write_netlist(*drawn(3, 4, 80, 10)[:2])
    small = write_netlist(*drawn(3, 2, 4, 2)[:2])
    cases = {
        large: "the netlist has 90 nodes and",
        "* Somebody's\nR1 a 0 1\n": "the file is no netlist of Settle",
        "": "the file is no netlist of Settle",
        small.replace("Rl0_0 n0_0 0 1", "Q1 n0_0 a b"): "is not understood: Q1 n0_0 a b",
    }
    for text, sentence in cases.items():
        (tmp_path / "some.cir").write_text(text)
        assert main(["draw", str(tmp_path / "some.cir")]) == 2
        printed = capsys.readouterr().out
        assert sentence in printed
        assert "some.cir" in printed
    assert main(["draw", str(tmp_path / "none.cir")]) == 2
    (tmp_path / "some.cir").write_text(small)
    assert main(["draw", str(tmp_path / "some.cir"), "--out", str(tmp_path / "a.gif")]) == 2
    assert "the picture is a.gif, expected .png or .svg" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["some.cir"]
    with pytest.raises(SpiceError, match="line 3 of the netlist"):
        read_schematic(small.splitlines()[0] + "\n* a\nR0_0 a n0_0\n")
