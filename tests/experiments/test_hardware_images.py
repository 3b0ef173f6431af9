"""A convolutional network in the hardware report: its counts by formula and by hand, its costs."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments.hardware.__main__ import main
from experiments.hardware.job import Job, Outcome, network_of, run_job
from experiments.hardware.settings import CONV, DEEP, NETWORKS, RIVALS, Settings, changed
from experiments.tasks import Task, find_task, images_from_file
from hw_sim.chips.catalogue import CHIPS
from hw_sim.counts import OpCounts, optimizer_counts
from hw_sim.formula import dense_counts

SIDE, CHANNELS, CLASSES = 5, 2, 3
FEW = ["channels=2", "epochs=2", "batch_size=9", "free_steps=4", "nudged_steps=3", "lr=0.03"]
TRAINED = 2 * 54
"""Samples: two epochs of 60 % of 90."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images with one bright row, which is the class."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % CLASSES
    x = 0.3 * rng.standard_normal((90, SIDE, SIDE, 1))
    x[np.arange(90), y] += 1.0
    path = tmp_path_factory.mktemp("hardware") / "rows.npz"
    np.savez(path, x=x, y=y)
    return path


@pytest.fixture(scope="module")
def task(data: Path) -> Task:
    return images_from_file(data)


@pytest.fixture(scope="module")
def outcome(task: Task) -> Outcome:
    return run_job(Job(task, "eqprop", "digital", 42, changed(Settings(), FEW), network=CONV))


def evaluations(counts: OpCounts, phase: str, starts: int, units: int) -> int:
    """Return how often a phase evaluated `T`: it computes every unit once each time."""
    activations = sum(
        n for (at, place, kind), n in counts
        if (at, kind) == (phase, "activation") and place.startswith("layer")
    )  # fmt: skip
    whole, rest = divmod(activations, units)
    assert rest == 0
    return whole - starts


def test_counts_of_training_are_those_of_the_formula(task: Task, outcome: Outcome) -> None:
    settings = changed(Settings(), FEW)
    network = network_of(Job(task, "eqprop", "digital", 42, settings, network=CONV))
    counted = outcome.counts_at(2)
    free = evaluations(counted, "free", TRAINED, network.units)
    nudged = evaluations(counted, "nudged", 0, network.units)
    assert TRAINED < free <= 4 * TRAINED
    formula = dense_counts(network, TRAINED, free, nudged, phases=2)
    updates = optimizer_counts(network, settings.training(42).optimizer, 2 * 6)
    phases = {"input", "free", "nudged", "learn"}
    own = {key: n for key, n in counted - updates if key[0] in phases and key[2] != "off_chip"}
    assert own == {key: n for key, n in formula if n}


def test_products_of_a_layer_are_those_counted_by_hand(outcome: Outcome) -> None:
    """Stride 2: 5 x 5 pixels are seen at 3 x 3 places, and these at 2 x 2, with 2 and 4 filters."""
    counts = outcome.counts_at(2)
    products = {"layer1": 3 * 3 * (9 * 1) * CHANNELS, "layer2": 2 * 2 * (9 * CHANNELS) * 4}
    assert counts.total("mac", "input") == TRAINED * products["layer1"]
    free = evaluations(counts, "free", TRAINED, 3 * 3 * CHANNELS + 2 * 2 * 4)
    at = {place: n for (phase, place, kind), n in counts if (phase, kind) == ("free", "mac")}
    # The second convolution is read forwards into its own layer and backwards into the first.
    assert at["layer1"] == at["layer2"] == free * products["layer2"]
    inference = OpCounts.from_rows(tuple(row) for row in outcome.inference)
    assert inference.total("mac", "readout") == outcome.n_test * (2 * 2 * 4) * CLASSES


def test_rivals_take_part_on_every_chip(data: Path, tmp_path: Path) -> None:
    given = [word for setting in [*FEW, "bptt_steps=2"] for word in ("--set", setting)]
    place = ["--out", str(tmp_path / "out"), "--workers", "1", "--target", "20"]
    options = ["--network", CONV, "--data", str(data), "--seeds", "1", "--no-sweeps"]
    assert main([*options, *given, *place]) == 0
    content = json.loads((tmp_path / "out" / "report.json").read_text())
    pairs = {(contest["substrate"], contest["rival"]) for contest in content["contests"]}
    assert pairs == set(product(CHIPS, RIVALS))
    assert content["costs"] == []
    for contest in content["contests"]:
        assert 0.0 < contest["ratio"]["low"] <= contest["ratio"]["high"]
    page = (tmp_path / "out" / "report.md").read_text()
    assert "The rivals are plain backprop through the same layers" in page


def test_products_of_rivals_are_those_counted_by_hand(task: Task) -> None:
    """A pass reads each convolution once; a step reads the second of them both ways."""
    settings = changed(Settings(), [*FEW, "epochs=1", "bptt_steps=2"])
    first, second, out = 3 * 3 * 9 * 2, 2 * 2 * 18 * 4, 16 * CLASSES
    for learner, between in (("backprop", second), ("bptt", 2 * 2 * second)):
        found = run_job(Job(task, learner, "digital", 42, settings, network=CONV))
        inference = OpCounts.from_rows(tuple(row) for row in found.inference)
        assert inference.total("mac") == found.n_test * (first + between + out)


def test_a_network_without_rivals_has_costs_and_says_who_is_missing(
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(NETWORKS, CONV, ("eqprop",))
    given = [word for setting in FEW for word in ("--set", setting)]
    place = ["--out", str(tmp_path / "out"), "--workers", "1"]
    options = ["--network", CONV, "--data", str(data), "--seeds", "1", "--no-sweeps"]
    assert main([*options, *given, *place]) == 0
    printed = capsys.readouterr().out
    assert "Missing: backprop and BPTT, which are not counted for this network" in printed
    content = json.loads((tmp_path / "out" / "report.json").read_text())
    assert content["contests"] == []
    assert {cost["substrate"] for cost in content["costs"]} == set(CHIPS)
    for cost in content["costs"]:
        energy = cost["energy_j"]
        assert 0.0 < energy["low"] <= energy["high"]
        assert sum(cost["energy_j_by_place"].values()) == pytest.approx(energy["nominal"])
        assert {"layer1", "layer2"} <= set(cost["energy_j_by_place"])
        assert 0.0 < cost["inference_energy_j"]["nominal"] < energy["nominal"]
        assert cost["latency_s"]["nominal"] > 0.0
    areas = {cost["technology"]: cost["area_m2"] for cost in content["costs"]}
    assert areas["digital_45nm"]["nominal"] > areas["digital_7nm"]["nominal"] > 0.0
    page = (tmp_path / "out" / "report.md").read_text()
    assert "What EqProp takes" in page
    assert "The rivals" not in page


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--task", "cartpole"], "--network conv needs images, but task 'cartpole' has none."),
        (["--set", "channels=0"], "layer1"),
        (["--set", "activation=relu"], "activation 'relu' has no model in hw_sim: no chip relaxes"),
        (["--set", "activation=sine"], "activation 'sine'"),
        (["--set", "backprop_activation=sine"], "activation 'sine'"),
        (["--network", DEEP, "--set", "layers=0"], "layers"),
    ],
)
def test_what_is_no_convolutional_network_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    given: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["--network", CONV, *given]) == 2
    printed = capsys.readouterr().out
    assert printed.startswith("Error: ")
    assert message in printed
    assert printed.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_digits_are_seen_as_images() -> None:
    network = network_of(Job(find_task("digits"), "eqprop", "digital", 1, Settings(), network=CONV))
    assert [layer.shape for layer in network.layers] == [(4, 4, 8), (2, 2, 16)]


def test_a_deep_network_has_the_layers_that_are_set() -> None:
    settings = changed(Settings(), ["hidden=6", "layers=3", "activation=hard_sigmoid"])
    for learner, activation in product(("eqprop", "backprop", "bptt"), (None, "relu")):
        job = Job(
            find_task("digits"), learner, "digital", 1,
            changed(settings, [f"backprop_activation={activation}"]), network=DEEP,
        )  # fmt: skip
        layers = network_of(job).layers
        assert [layer.size for layer in layers] == [6, 6, 6]
        units = activation if learner == "backprop" and activation else "hard_sigmoid"
        assert {layer.activation for layer in layers} == {units}
