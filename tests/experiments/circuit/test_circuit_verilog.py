"""`verilog`: what it writes and prints, and what it refuses before anything is written."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine import initial_params
from engine.errors import EngineError
from engine.learning import checkpoint
from engine.model.builders import conv_net, energy_transformer, layered, looped_mlp, resistive
from engine.model.network import Network
from experiments.circuit import gates, verilog
from experiments.shell import guarded, make_console
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.prices.technology import load_technologies
from hw_sim.rtl import simulation
from hw_sim.rtl.plan import Plan
from hw_sim.rtl.synthesis import missing_synthesiser
from hw_sim.rtl.units import UnitGates
from tests.hw_sim.rtl.rtl_cases import needs_iverilog

SMALL = looped_mlp(5, 4, 3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with a saved network and samples."""
    monkeypatch.chdir(tmp_path)
    _save("network.npz", SMALL)
    rng = np.random.default_rng(0)
    np.savez("samples.npz", x=rng.normal(size=(6, 5)), y=np.array([0, 1, 2, 0, 1, 2]))
    np.savez("labels.npz", x=rng.normal(size=(2, 5)), y=np.array([0, 3]))
    np.savez("wide.npz", x=rng.normal(size=(2, 6)), y=np.array([0, 1]))
    np.savez("targets.npz", x=rng.normal(size=(2, 5)), y=np.ones((2, 2)))
    np.savez("nan.npz", x=np.full((2, 5), np.nan), y=np.array([0, 1]))
    np.savez("text.npz", x=np.full((2, 5), "a"), y=np.array([0, 1]))
    np.savez("halves.npz", x=rng.normal(size=(2, 5)), y=np.array([0.5, 1]))
    return tmp_path


def _save(name: str, network: Network, scale: float = 1.0) -> None:
    params = initial_params(network, np.random.default_rng(1))
    params.theta[:] *= scale
    checkpoint.save(name, params)


def _call(*given: str) -> int:
    parser = argparse.ArgumentParser()
    verilog.add_arguments(parser)
    options = parser.parse_args(given)
    options.told = "python -m experiments.circuit verilog"
    return guarded(lambda: verilog.run(options), make_console(), (EngineError,), "")


@needs_iverilog
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--state-bits", "6", "--weight-bits", "8", "--accumulator-bits", "13", "--seed", "3"),
        ("--samples", "samples.npz", "--sample", "5", "1"),
        ("--samples", "samples.npz", "--beta", "0.5", "--lr", "2", "--free-steps", "3"),
    ],
)
def test_every_word_agrees(
    options: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _call("network.npz", *options) == 0
    said = capsys.readouterr().out
    assert "words: 0 differ." in said
    written = {path.name for path in Path("results/circuit/verilog").iterdir()}
    assert {"settle_chip.v", "test_bench.v", "tanh.hex", "exp.hex", "weights.hex"} <= written
    assert not any(name.endswith((".part", ".vvp")) for name in written)


@needs_iverilog
def test_words_that_differ_are_shown_and_are_exit_code_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    design = verilog.chip_files

    def broken(plan):
        texts = design(plan)
        return texts | {"xorshift.v": texts["xorshift.v"].replace("a >> 17", "a >> 16")}

    monkeypatch.setattr(verilog, "chip_files", broken)
    assert _call("network.npz") == 1
    said = capsys.readouterr().out
    assert "weight" in said
    assert "expected" in said
    assert "words: 0 differ." not in said


def _all_but(lacks: str) -> Callable[[str], str | None]:
    """Return a search for programs that finds every one but this."""
    return lambda name: None if name == lacks else name


def test_without_a_simulator_one_sentence_names_the_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for simulator, lacks in (("iverilog", "vvp"), ("verilator", "g++")):
        monkeypatch.setattr(simulation.shutil, "which", _all_but(lacks))
        assert _call("network.npz", "--simulator", simulator) == 0
        package = "iverilog" if simulator == "iverilog" else lacks
        assert capsys.readouterr().out.endswith(
            f"Not simulated: {lacks}, which simulates the chip, is not installed: it is in the "
            f"package {package}.\n"
        )
    assert Path("results/circuit/verilog/settle_chip.v").is_file()


NARROW = ("--state-bits", "4", "--weight-bits", "5", "--accumulator-bits", "10")


@needs_iverilog
@pytest.mark.skipif(bool(missing_synthesiser()), reason=missing_synthesiser() or "-")
def test_gates_become_a_technology(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the chip around the core is told unit by unit, of which here there are two."""
    units = UnitGates("core", 7, {"INV": 30, "DFF": 5}, 90.0), UnitGates("x", 1, {"INV": 4}, 10.0)
    monkeypatch.setattr(gates, "unit_gates", lambda design, folder: units)
    assert _call("network.npz", *NARROW, "--table-bits", "5", "--synthesise") == 0
    said = capsys.readouterr().out
    assert "at the outputs of the gates with those of the core: 0 differ." in said
    # Rows of a core: its bias, 5 inputs, 4 units; and copies, which have no traces, for 3 errors.
    config = DigitalConfig(state_bits=4, weight_bits=5, accumulator_bits=10, table_bits=5)
    bits = (1 + 5 + 4 + 3) * 5 + (1 + 5 + 4) * Plan(SMALL, config).trace_bits
    assert f"beside them: memories of {bits:,} bits, digital_45nm" in said
    assert "its weight, read from SRAM, digital_45nm" in said
    rows = [line.split() for line in said.splitlines()]
    assert ["core", "7", "35", "90", "um2", "90.0%"] in rows
    assert ["all", "8", "39", "100", "um2", "100.0%"] in rows
    (found,) = load_technologies(Path("results/circuit/verilog/technology.toml")).values()
    assert found.price("energy", "mac").status == "ran"
    written = {path.name for path in Path("results/circuit/verilog").iterdir()}
    left = [name for name in written if name.startswith(("gates", "activity"))]
    assert left == ["gates.json"]


@needs_iverilog
def test_without_yosys_one_sentence_names_the_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verilog, "missing_synthesiser", lambda: missing_synthesiser(Path("none")))
    assert _call("network.npz", *NARROW, "--synthesise") == 0
    said = capsys.readouterr().out
    assert "words: 0 differ." in said
    assert "Not synthesised: " in said
    assert "it is in the package yosys." in said or "package qflow-tech-osu018." in said


NETWORKS = {
    "conv.npz": conv_net((4, 4, 1), (2,), 3, activation="tanh"),
    "transformer.npz": energy_transformer(4, 3, 4),
    "relu.npz": layered((4, 3, 2), "relu"),
    "circuit.npz": resistive((5, 4, 3)),
}
REFUSED = {
    "absent.npz": "there is no file absent.npz",
    "samples.npz": "samples.npz is no Settle checkpoint",
    "conv.npz": "coupling 'W_1' is read at 4 places through windows",
    "transformer.npz": "coupling 'Emb' (Embedding) has no model in hw_sim",
    "relu.npz": "activation 'relu' has no model in hw_sim",
    "circuit.npz": "the network is resistive (coupling 'g_1_up1'): it becomes a netlist",
    "strong.npz": "but 12 bits with weight_range 2 hold at most 1.999",
    "network.npz --weight-bits 2": "which all become zero: the step of 2 bits with weight_range 2",
    "network.npz --weight-bits 2 --weight-range 4": "too few for weight_range 4",
    "network.npz --weight-range 3": "has weight_range 3.0, expected a power of two",
    "network.npz --accumulator-bits 4 --table-bits 2 --weight-range 0.5": "hold at most",
    "network.npz --samples absent.npz": "there is no file absent.npz",
    "network.npz --samples network.npz": "network.npz has no array 'x'",
    "network.npz --samples samples.npz --sample 6": "has no sample 6: the last one is 5",
    "network.npz --samples samples.npz --sample 0 1 2": "a batch has 3 samples",
    "network.npz --sample 0": "--sample chooses from --samples",
    "network.npz --samples labels.npz": "labels that are no whole numbers below 3",
    "network.npz --samples halves.npz": "labels that are no whole numbers below 3",
    "network.npz --samples wide.npz": "but the network has 5 inputs",
    "network.npz --samples targets.npz": "but the network has 3 outputs",
    "network.npz --samples nan.npz": "no samples of finite numbers",
    "network.npz --samples text.npz": "no samples of finite numbers",
    "network.npz --beta 0.1": "the beta is 0.1, expected a power of two",
    "network.npz --beta inf": "the beta is inf, expected a power of two",
    "network.npz --beta 16": "beta 16 does not fit in a nudge of 16 bits",
    "network.npz --lr 1e-300": "the learning rate is 1e-300, expected a power of two",
    "network.npz --lr 8.271806125530277e-25": "shifts a trace by",
    "network.npz --free-steps 70000": "a phase of 70000 steps is too long",
}


@pytest.mark.parametrize("given", REFUSED)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    given: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, network in NETWORKS.items():
        _save(name, network)
    _save("strong.npz", SMALL, 20.0)
    there = set(folder.iterdir())
    assert _call(*given.split()) == 2
    said = capsys.readouterr().out
    assert REFUSED[given] in said
    assert said.count("\n") == 1
    assert set(folder.iterdir()) == there
