"""The user's own network in the hardware report: sizes, a saved one, one that no chip runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.learning.checkpoint import save
from engine.learning.predict import evaluate
from engine.model.builders import conv_net, energy_transformer, looped_mlp
from engine.model.params import Params, initial_params
from experiments.hardware import own_network
from experiments.hardware.__main__ import main
from experiments.hardware.job import AsLoaded, Job, make_substrate, network_of, run_job
from experiments.hardware.measured_job import NUDGES, run_any, training_of
from experiments.hardware.own_network import OwnNetwork, find_network, token_task
from experiments.hardware.settings import Settings, changed
from experiments.hardware.watch import TEST_STEPS
from experiments.tasks import Task, task_from_file
from hw_sim.chips.catalogue import CHIPS
from hw_sim.counts import OpCounts, optimizer_counts
from hw_sim.formula import dense_counts, update_counts

FEW = ["epochs=2", "batch_size=9", "free_steps=6", "nudged_steps=4", "lr=0.03"]
SET = [word for setting in FEW for word in ("--set", setting)]
TRAINED = 54
"""Samples of an epoch: 60 % of 90."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of three clouds, a saved network that fits it, and one that reads tokens."""
    place, rng = tmp_path_factory.mktemp("networks"), np.random.default_rng(0)
    y = np.arange(90) % 3
    np.savez(place / "clouds.npz", x=rng.standard_normal((90, 4)) + 2.0 * np.eye(4)[y], y=y)
    save(place / "looped.npz", initial_params(looped_mlp(4, 6, 3), rng))
    save(place / "tokens.npz", initial_params(energy_transformer(4, 3, 6), rng))
    return place


@pytest.fixture
def few_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_network, "DRAWN", dict.fromkeys(own_network.DRAWN, 12))


def _report(*given: str, out: Path) -> dict[str, object]:
    place = ["--out", str(out), "--workers", "1", "--seeds", "1", "--no-sweeps"]
    assert main([*given, *SET, *place]) == 0
    content: dict[str, object] = json.loads((out / "report.json").read_text())
    return content


def test_sizes_are_a_network_of_layers(folder: Path, tmp_path: Path) -> None:
    own = find_network("4-7-5-3")
    assert own is not None
    assert [layer.size for layer in own.network.layers] == [7, 5]
    given = ["--network", "4-7-5-3", "--data", str(folder / "clouds.npz")]
    content = _report(*given, out=tmp_path / "out")
    assert content["contests"] == []
    page = (tmp_path / "out" / "report.md").read_text()
    assert "exact integers from the runs" in page
    assert "No chip runs this network" not in page
    assert {cost["substrate"] for cost in content["costs"]} == set(CHIPS)  # type: ignore[attr-defined]


def test_a_saved_network_is_trained_further_on_every_chip(folder: Path) -> None:
    """It starts from the saved parameters, not from random ones, whatever the seed."""
    own = find_network(str(folder / "looped.npz"))
    assert own is not None
    assert own.saved is not None
    for name, chip in CHIPS.items():
        settings = replace(Settings(), chips={name: chip.settings})
        found = [make_substrate(name, own.network, settings, seed, own).params for seed in (1, 2)]
        for params in found:
            near = np.abs(params.theta - own.saved.theta)
            assert np.median(near) < 0.02  # words round, and some cells are stuck
    task = task_from_file(folder / "clouds.npz")
    job = Job(task, "eqprop", "spiking", 42, changed(Settings(), FEW), own=own)
    assert network_of(job) == own.network
    trained = run_job(job).accuracy
    other = Params(own.network, np.zeros(own.network.size))
    blank = replace(job, own=OwnNetwork("blank", own.network, other))
    assert trained != run_job(blank).accuracy or trained > 0.5


@pytest.mark.parametrize("substrate", CHIPS)
def test_a_saved_network_is_tested_before_it_is_trained_further(
    folder: Path, substrate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its chip and in floating point; the training neither sees nor counts that."""
    own, task = find_network(str(folder / "looped.npz")), task_from_file(folder / "clouds.npz")
    assert own is not None
    assert own.saved is not None
    job = Job(task, "eqprop", substrate, 42, changed(Settings(), FEW), own=own)
    outcome, split = run_job(job), task.load(42)
    chip = make_substrate(substrate, own.network, job.settings, 42, own)
    settled = replace(job.settings.free, max_steps=TEST_STEPS)
    on_chip, exact = (
        evaluate(backend, split.x_test, split.y_test, settled).accuracy
        for backend in (chip, NumbaBackend(own.network, own.saved))
    )
    assert exact is not None
    assert outcome.as_loaded == AsLoaded(on_chip, exact)
    assert outcome.accuracy != on_chip
    monkeypatch.setattr(OwnNetwork, "start", lambda *_: own.saved)
    unsaved = run_job(replace(job, own=OwnNetwork(own.title, own.network)))
    assert unsaved == replace(outcome, as_loaded=None)


def test_a_saved_convolution_is_run_on_images(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    np.savez(folder / "images.npz", x=rng.standard_normal((60, 4, 4, 1)), y=y)
    network = conv_net((4, 4, 1), (2,), 3, activation="tanh")
    save(folder / "conv.npz", initial_params(network, rng))
    given = ["--network", str(folder / "conv.npz"), "--data", str(folder / "images.npz")]
    content = _report(*given, "--substrate", "digital", out=tmp_path / "out")
    assert {cost["substrate"] for cost in content["costs"]} == {"digital"}  # type: ignore[attr-defined]
    (run,) = content["runs"]  # type: ignore[misc]
    page = (tmp_path / "out" / "report.md").read_text()
    rows = page.partition("The saved network")[2].splitlines()
    (cells, *_) = [line.split("|") for line in rows if line.startswith("| digital")]
    loaded = [100 * run["as_loaded"][name] for name in ("chip", "engine")]
    assert [float(cell) for cell in cells[2:4]] == pytest.approx(loaded, abs=0.005)


@pytest.mark.usefixtures("few_sequences")
def test_a_network_that_no_chip_runs_is_counted_by_its_measured_steps(
    folder: Path, tmp_path: Path
) -> None:
    """Every event of the report is the formula of the steps that the epochs took."""
    own = find_network(str(folder / "tokens.npz"))
    assert own is not None
    assert "no link" in own.refused
    settings = changed(own.settings, FEW)
    job = Job(token_task(own), "eqprop", "digital", 42, settings, own=own)
    outcome = run_any(job)
    expected, samples = OpCounts(), 12
    training = training_of(own.network, settings, 42)
    for point in outcome.curve:
        free, nudged = samples * point.free_steps, NUDGES * samples * point.nudged_steps
        assert free == pytest.approx(round(free))
        expected += dense_counts(own.network, samples, round(free), round(nudged), phases=2)
        expected += update_counts(own.network, 2)
        expected += optimizer_counts(own.network, training.optimizer, 2)
    found = {key: n for key, n in outcome.counts_at(2) if key[2] != "off_chip"}
    assert found == {key: n for key, n in expected if n and key[2] != "off_chip"}
    border = outcome.counts_at(2)
    assert border.total("off_chip", "input") == 2 * samples * 3
    assert border.total("off_chip", "nudged") == 2 * NUDGES * samples * 4 * 3
    inference = OpCounts.from_rows(tuple(row) for row in outcome.inference)
    assert inference.total("activation", "readout") == 12 * 4 * 3
    assert inference.total("mac", "learn") == inference.total("mac", "nudged") == 0
    content = _report("--network", str(folder / "tokens.npz"), out=tmp_path / "out")
    technologies = {cost["technology"] for cost in content["costs"]}  # type: ignore[attr-defined]
    assert technologies == set(CHIPS["digital"].technologies)
    page = (tmp_path / "out" / "report.md").read_text()
    assert "No chip runs this network" in page
    assert "exact integers from the runs" not in page


@pytest.mark.usefixtures("few_sequences")
def test_sequences_are_reversed_and_their_parts_apart() -> None:
    own = OwnNetwork("small", energy_transformer(4, 3, 6))
    split = token_task(own).load(3)
    assert split.x_train.shape == (12, 3)
    answers = split.y_test.reshape(-1, 3, 4).argmax(-1)
    np.testing.assert_array_equal(answers, split.x_test[:, ::-1])
    seen = {tuple(row) for row in split.x_train}
    assert not seen & {tuple(row) for row in split.x_test}
    again = token_task(own).load(3)
    np.testing.assert_array_equal(split.x_train, again.x_train)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nothing", "there is no network 'nothing'; known: looped, deep, conv"),
        ("missing.npz", "missing.npz cannot be read"),
    ],
)
def test_what_names_no_network_is_refused_by_the_parser(
    given: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--network", given])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--network", "{clouds}"], "clouds.npz is no Settle checkpoint"),
        (["--network", "64-8-9"], "64-8-9 has 64 inputs and 9 outputs, but task 'digits' has 64"),
        (["--network", "64-0-10"], "layer1"),
        (["--network", "{looped}"], "looped.npz has 4 inputs and 3 outputs, but task 'digits'"),
        (["--network", "{tokens}", "--substrate", "crossbar"], "runs on no chip"),
        (["--network", "{tokens}", "--data", "{clouds}"], "reads tokens"),
        (["--network", "{tokens}", "--explain", "mac"], "--explain runs a batch on a chip, but"),
    ],
)
def test_what_is_no_network_or_does_not_fit_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], given: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    places = {path.stem: str(path) for path in folder.iterdir()}
    assert main([word.format(**places) for word in given]) == 2
    printed = capsys.readouterr().out
    assert printed.startswith("Error: ")
    assert message in printed
    assert printed.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_chip_that_cannot_run_a_saved_network_is_named_before_any_work(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "digits_conv.npz"
    network = conv_net((8, 8, 1), (2,), 10, activation="tanh")
    save(path, initial_params(network, np.random.default_rng(0)))
    given = ["--network", str(path), "--set", "crossbar.convert_each_step=false"]
    assert main([*given, "--out", str(tmp_path / "out")]) == 2
    assert "is read at 16 positions, one after the other" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_the_transformer_is_that_of_its_own_experiment() -> None:
    own = find_network("transformer")
    assert own is not None
    assert own.network == energy_transformer(10, 8, 64, 2)
    task: Task = token_task(own)
    assert (task.inputs, task.classes) == (8, 80)
