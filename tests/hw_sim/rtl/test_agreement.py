"""Verilog in iverilog against the simulated chip: every word of every step is the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.learning.optimizer import SGD
from engine.learning.run import Run
from engine.learning.training import Training, train_step
from engine.model.network import Layer, Network
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.rtl.plan import Plan
from hw_sim.rtl.rehearsal import Rehearsal
from hw_sim.rtl.schedule import Schedule
from hw_sim.rtl.simulation import missing_simulator
from tests.hw_sim.rtl.rtl_cases import (
    NETWORKS,
    SATURATING,
    SCHEDULE,
    WIDTHS,
    batch,
    compared,
    needs_iverilog,
    rehearsed,
    strong_params,
)

CASES = [("looped", widths) for widths in WIDTHS]
CASES += [(name, widths) for name in ("layered", "squared error") for widths in list(WIDTHS)[3:5]]


@needs_iverilog
@pytest.mark.parametrize(("network", "widths"), CASES)
def test_every_word_is_that_of_the_chip(network: str, widths: str, tmp_path: Path) -> None:
    """Drives, states, errors, ends of phases, weights, and how often a word was clipped."""
    rehearsal = rehearsed(NETWORKS[network], WIDTHS[widths], seed=len(widths))
    found = compared(rehearsal, tmp_path)
    assert (found.compared, found.differ) == (rehearsal.words, 0), found.printed
    clipped = rehearsal.chip.saturations
    assert (clipped.accumulator > 0) == (widths in SATURATING)
    assert clipped.weight + clipped.load > 0


@needs_iverilog
@pytest.mark.parametrize("seed", range(2))
def test_random_weights_agree(seed: int, tmp_path: Path) -> None:
    rehearsal = rehearsed(NETWORKS["looped"], DigitalConfig(seed=seed + 1), seed=100 + seed)
    found = compared(rehearsal, tmp_path)
    assert (found.compared, found.differ) == (rehearsal.words, 0), found.printed


@needs_iverilog
def test_a_network_that_no_builder_makes(tmp_path: Path) -> None:
    """Layers out of order, coupled to themselves, with two activations, read in the middle."""
    network = Network(
        3,
        (Layer("c", (3,)), Layer("a", (4,), "hard_sigmoid"), Layer("b", (2,))),
        (
            Bias("b_b", "b"), Dense("W_ba", "b", "a"), InputDrive("W_a", "a"), Bias("b_a", "a"),
            Lateral("W_a_a", "a"), Dense("W_cb", "c", "b"), Bias("b_c", "c"),
            Lateral("W_c_c", "c"), InputDrive("W_c", "c"), Dense("W_ac", "a", "c"),
        ),
        SoftmaxReadout("a", 2),
    )  # fmt: skip
    rehearsal = rehearsed(network, DigitalConfig(12, 10, 18))
    found = compared(rehearsal, tmp_path)
    assert (found.compared, found.differ) == (rehearsal.words, 0), found.printed


@pytest.mark.skipif(bool(missing_simulator("verilator")), reason="verilator is not installed.")
def test_a_second_simulator_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verilator makes a program of the same files; where accumulators clip, too."""
    quick = " ".join(f"OPT_{part}=-O0" for part in ("FAST", "SLOW", "GLOBAL"))
    monkeypatch.setenv("MAKEFLAGS", quick)
    rehearsal = rehearsed(NETWORKS["looped"], WIDTHS["12/10/16"], seed=7)
    assert rehearsal.chip.saturations.accumulator > 0
    found = compared(rehearsal, tmp_path, simulator="verilator")
    assert (found.compared, found.differ) == (rehearsal.words, 0), found.printed


@needs_iverilog
@pytest.mark.parametrize("lr", [2.0**-14, 2.0**20])
def test_traces_are_shifted_both_ways(lr: float, tmp_path: Path) -> None:
    """By a small rate to the right; by a huge one beyond all that an update can hold."""
    schedule, config = replace(SCHEDULE, lr=lr), DigitalConfig(8, 10, 32)
    rehearsal = rehearsed(NETWORKS["looped"], config, schedule=schedule)
    assert all((shift < 0) == (lr < 1) for shift in schedule.shifts(rehearsal.plan, 2))
    found = compared(rehearsal, tmp_path)
    assert (found.compared, found.differ) == (rehearsal.words, 0), found.printed


@needs_iverilog
def test_phases_of_one_step_and_of_none_that_moves(tmp_path: Path) -> None:
    """A limit of one step, and a tolerance beyond every word."""
    for name, relaxation in {"one": Relaxation(1, 0.0), "none": Relaxation(9, 100.0)}.items():
        schedule = replace(SCHEDULE, free=relaxation, nudged=relaxation)
        rehearsal = rehearsed(NETWORKS["layered"], DigitalConfig(), schedule=schedule)
        folder = tmp_path / name
        folder.mkdir()
        found = compared(rehearsal, folder)
        assert (found.compared, found.differ) == (rehearsal.words, 0), found.printed


@pytest.mark.parametrize("network", NETWORKS)
def test_what_the_chip_learns_alone_is_a_training_step(network: str) -> None:
    """The words after `train_step` of the engine, with SGD, on the same simulated chip."""
    description, config = NETWORKS[network], DigitalConfig(seed=5)
    schedule = Schedule(0.125, Relaxation(20, 1e-3), Relaxation(8, 1e-2), lr=0.5)
    params = strong_params(description, 3)
    rehearsal = Rehearsal(Plan(description, config), params, schedule)
    engine = DigitalBackend(description, params, config)
    training = Training(
        beta=schedule.beta, estimator="centered", free=schedule.free, nudged=schedule.nudged,
        optimizer=SGD(schedule.lr), schedule="constant", cap=None,
    )  # fmt: skip
    run = Run.start(description, training.optimizer.moments, engine.dtype, 0)
    before = engine.words.copy()
    for seed in range(3):
        x, y = batch(description, 4, seed)
        rehearsal.train(x, y)
        train_step(engine, x, y, training, run, 3)
        assert np.array_equal(rehearsal.chip.words, engine.words)
    assert np.abs(engine.words - before).max() > 10
