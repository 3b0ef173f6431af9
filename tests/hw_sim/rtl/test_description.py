"""The text of the design: clean, without what cannot be built, and refused if it were wrong."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.couplings.dense import Bias, Dense, InputDrive
from engine.couplings.readout import SoftmaxReadout
from engine.errors import EngineError
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params
from hw_sim.chips.fixed_point import DigitalConfig, formats
from hw_sim.rtl.description import chip_files
from hw_sim.rtl.plan import Plan, RtlError, check_weights
from hw_sim.rtl.rehearsal import Rehearsal
from tests.hw_sim.rtl.rtl_cases import NETWORKS, SCHEDULE, WIDTHS, batch, strong_params

CHAIN = (Bias("b_a", "a"), Bias("b_b", "b"), InputDrive("W_in", "a"), Dense("W", "a", "b"))


def _pair(*more: object, couplings: tuple[object, ...] = CHAIN, second: str = "b") -> Network:
    layers = (Layer("a", (3,)), Layer(second, (2,)))
    return Network(2, layers, (*couplings, *more), SoftmaxReadout("a", 2))


REFUSED = {
    "two couplings join 'a' and 'b'": (_pair(Dense("V", "a", "b")), DigitalConfig()),
    "two couplings join 'a' and 'b': ": (_pair(Dense("V", "b", "a")), DigitalConfig()),
    "layer 'a' has two biases": (_pair(Bias("c", "a")), DigitalConfig()),
    "layer 'b' has no bias": (_pair(couplings=(CHAIN[0], *CHAIN[2:])), DigitalConfig()),
    "a layer is called 'errors'": (
        _pair(couplings=(CHAIN[0], Bias("b_b", "errors")), second="errors"), DigitalConfig()
    ),
    "readout_bits 4 differs from state_bits 10": (_pair(), DigitalConfig(readout_bits=4)),
    "fewer than 4 entries": (_pair(), DigitalConfig(2, 2, 8, table_range=0.125)),
}  # fmt: skip


@pytest.mark.skipif(shutil.which("verilator") is None, reason="verilator is not installed.")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("widths", ["12/10/32", "2/2/5", "24/12/20"])
def test_lint_has_nothing_to_say(network: str, widths: str, tmp_path: Path) -> None:
    design = chip_files(Plan(NETWORKS[network], WIDTHS[widths]))
    for name, text in design.items():
        (tmp_path / name).write_text(text)
    files = sorted(name for name in design if name.endswith(".v"))
    command = ["verilator", "--lint-only", "-Wall", "--top-module", "settle_chip", *files]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_design_holds_nothing_that_cannot_be_built() -> None:
    """No delay, no real, one clock; nothing is set up but the tables."""
    for name, text in chip_files(Plan(NETWORKS["layered"], DigitalConfig())).items():
        code = re.sub(r"//.*|/\*.*?\*/", "", text)
        assert not re.search(r"#\s*\d|\breal\b|\$display|\bfork\b|\bwait\b|\bforce\b", code), name
        assert set(re.findall(r"(?:posedge|negedge) (\w+)", code)) <= {"clk"}, name
        assert ("initial" in code) == (name == "table_rom.v"), name


def test_tables_are_those_of_the_chip() -> None:
    config = DigitalConfig(state_bits=6, table_bits=5)
    texts, words = chip_files(Plan(NETWORKS["looped"], config)), formats(config)
    tanh = [int(line, 16) for line in texts["tanh.hex"].split()]
    assert [word - 64 * (word >= 32) for word in tanh] == words.activations[0].tolist()
    assert [int(line, 16) for line in texts["exp.hex"].split()] == words.odds.tolist()


@pytest.mark.parametrize("network", [*NETWORKS.values(), looped_mlp(3, 5, 2)])
def test_every_parameter_is_walked_once(network: Network) -> None:
    """And of a symmetric pair one comes after the other."""
    order = list(Plan(network, DigitalConfig()).order())
    assert sorted(order) == list(range(network.size))
    for link in network.links.values():
        if link.tied:
            block, side = network.blocks[link.block], link.fan_in
            walked = [k - block.start for k in order if 0 <= k - block.start < block.size]
            below = [k for k in walked if k // side > k % side]
            assert all(walked[walked.index(k) - 1] == k % side * side + k // side for k in below)


@pytest.mark.parametrize("said", REFUSED)
def test_what_would_be_wrong_is_refused(said: str) -> None:
    with pytest.raises(EngineError, match=said):
        Plan(*REFUSED[said])


def test_weights_that_do_not_fit_are_refused() -> None:
    network = layered((2, 3, 2))
    params = Params(network, np.zeros(network.size))
    params["W_out"][1, 1] = -2.0 + 2.0**-10
    check_weights(params, DigitalConfig())
    params["W_out"][1, 1] = -2.0
    with pytest.raises(RtlError, match=r"'W_out' holds a weight of 2, but 12 bits .* most 1\.999"):
        check_weights(params, DigitalConfig())


def test_a_matrix_that_would_be_all_zeros_is_refused() -> None:
    """Not a bias, which may be small, nor a matrix of zeros."""
    network = layered((2, 3, 2))
    params = Params(network, np.zeros(network.size))
    params["b_1"][...] = params["W_1"][...] = 2.0**-4
    params["W_1"][0, 0] = 2.0**-3
    check_weights(params, DigitalConfig(weight_bits=4))
    params["W_1"][0, 0] = 2.0**-4
    with pytest.raises(RtlError, match=r"'W_1' has weights of at most 0\.0625, which all .* 0\.25"):
        check_weights(params, DigitalConfig(weight_bits=4))


def test_targets_beyond_one_and_odd_batches_are_refused() -> None:
    network = NETWORKS["squared error"]
    rehearsal = Rehearsal(Plan(network, DigitalConfig()), strong_params(network, 0), SCHEDULE)
    x, y = batch(network, 2, 0)
    with pytest.raises(RtlError, match=r"a target is 1\.5 in size, more than 1"):
        rehearsal.train(x, -1.5 * y)
    with pytest.raises(RtlError, match="a batch has 3 samples, expected a power of two"):
        rehearsal.train(*batch(network, 3, 0))
    with pytest.raises(RtlError, match=r"the beta is 0\.3, expected a power of two"):
        replace(SCHEDULE, beta=0.3)
