import json
from dataclasses import replace

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.errors import EngineError
from engine.learning import checkpoint
from engine.learning.predict import predict
from experiments.contest import finish
from experiments.contest.given_settings import GivenSettings, read_settings
from experiments.parity import command, contestants
from experiments.parity.__main__ import main
from experiments.parity.contestants import run_job
from experiments.parity.settings import USER_BUDGET
from experiments.records import load_record
from experiments.vision import command as vision_command
from experiments.vision.__main__ import main as vision_main
from tests.experiments.parity.parity_cases import make_job, make_table, timeless, write_csv
from tests.experiments.vision.vision_cases import write_images

TUNED = {
    "chosen": [
        {"task": "points.csv", "contestant": "eqprop_looped", "chosen": {"lr": 0.5, "beta": 0.2}},
        {"task": "points.csv", "contestant": "backprop_looped", "chosen": {"lr": 0.25}},
    ],
    "best_baseline": {"points.csv": "backprop_looped"},
    "given": {"hidden": "7"},
}


@pytest.fixture
def asked(monkeypatch):
    """Note the jobs and the baselines of a call, and run nothing."""
    noted = {"jobs": [], "best": {}}

    def keep(jobs, *_):
        noted["jobs"] += jobs
        return []

    def report(*_, **named):
        noted["best"] = named.get("best_baseline")

    for module in (command, vision_command):
        monkeypatch.setattr(module, "finish", keep)
        monkeypatch.setattr(module, "write_report", report)
        monkeypatch.setattr(module, "print_summary", lambda *_: None)
    return noted


def test_settings_on_the_command_line_are_those_of_every_run(asked, tmp_path):
    data = write_csv(tmp_path / "points.csv")
    given = ["--data", str(data), "--out", str(tmp_path / "out"), "--epochs", "3"]
    given += ["--set", "hidden=5", "beta=auto", "--set", "estimator=one_sided", "layers=3"]
    assert main(given) == 0
    expected = replace(
        USER_BUDGET, hidden=5, beta="auto", estimator="one_sided", layers=3, epochs=3
    )
    assert {replace(job.settings, data="") for job in asked["jobs"]} == {expected}
    sizes = {job.contestant: [layer.size for layer in job.network.layers] for job in asked["jobs"]}
    assert sizes["eqprop_layered"] == [5, 5, 5]
    assert sizes["eqprop_looped"] == [5]


def test_vision_takes_them_too(asked, tmp_path):
    data = write_images(tmp_path / "bars.npz")
    given = ["--data", str(data), "--out", str(tmp_path / "out"), "--set", "layers=3/2", "beta=0.1"]
    assert vision_main([*given, "estimator=centered"]) == 0
    found = {(j.settings.layers, j.settings.beta, j.settings.estimator) for j in asked["jobs"]}
    assert found == {("3/2", 0.1, "centered")}


def test_a_file_of_settings_is_for_its_task_and_gives_way_to_the_command_line(asked, tmp_path):
    data, path = write_csv(tmp_path / "points.csv"), tmp_path / "tuning.json"
    path.write_text(json.dumps(TUNED))
    given = ["--data", str(data), "--tasks", "digits", "--settings", str(path)]
    assert main([*given, "--out", str(tmp_path / "out"), "--set", "decay=0.125"]) == 0
    found = {
        (job.task.name, job.contestant): (job.settings.lr, job.settings.beta, job.settings.hidden)
        for job in asked["jobs"]
    }
    assert found["points.csv", "eqprop_looped"] == (0.5, 0.2, 7)
    assert found["points.csv", "flipped_sign"] == (0.5, 0.2, 7)
    assert found["points.csv", "backprop_looped"] == (0.25, USER_BUDGET.beta, 7)
    assert found["digits", "eqprop_looped"][2] == 128
    assert {job.settings.decay for job in asked["jobs"]} == {0.125}
    assert asked["best"]["points.csv"] == "backprop_looped"


@pytest.mark.parametrize(
    ("content", "given", "sentence"),
    [
        ("{", [], "no file of settings that --tune wrote"),
        ('{"chosen": 3}', [], "no file of settings that --tune wrote"),
        (json.dumps(TUNED).replace("points", "others"), [], "others.csv, none for points.csv"),
        (json.dumps(TUNED).replace('"lr"', '"rate"'), [], "rate: there is no such setting"),
        (json.dumps(TUNED).replace("0.25", '"fast"'), [], "lr: 'fast' is no number"),
        (json.dumps(TUNED), ["--tune"], "one uses settings, the other chooses them"),
    ],
)
def test_a_file_that_does_not_fit_is_one_sentence(content, given, sentence, tmp_path, capsys):
    data, path = write_csv(tmp_path / "points.csv"), tmp_path / "tuning.json"
    path.write_text(content)
    options = ["--data", str(data), "--settings", str(path), "--out", str(tmp_path / "out")]
    assert main([*options, *given]) == 2
    printed = capsys.readouterr().out
    assert sentence in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--tune", "--set", "lr=1"], "--set lr: --tune chooses it."),
        (["--epochs", "2", "--set", "epochs=3"], "--set epochs and --epochs say the same"),
        (["--tune", "--save-weights"], "tuning keeps no network"),
        (["--tune", "--seeds", "3"], "--seeds and --tune: tuning has seeds of its own"),
    ],
)
def test_settings_that_contradict_are_refused(given, sentence, tmp_path, capsys):
    data = write_csv(tmp_path / "points.csv")
    assert main(["--data", str(data), "--out", str(tmp_path / "out"), *given]) == 2
    assert sentence in capsys.readouterr().out


def test_what_tuning_was_given_comes_back(tmp_path):
    given = GivenSettings(assignments=("hidden=9",), options={"epochs": 4})
    path = tmp_path / "tuning.json"
    row = {"task": "t", "contestant": "c", "chosen": {"lr": 0.5}}
    path.write_text(json.dumps({"chosen": [row], "given": given.as_given()}))
    settings = read_settings(path).apply(USER_BUDGET, "t", "c")
    assert settings == replace(USER_BUDGET, hidden=9, epochs=4, lr=0.5)
    assert read_settings(path).apply(USER_BUDGET, "other", "c") == USER_BUDGET


def test_a_network_that_is_kept_says_what_its_run_said(tmp_path):
    path = tmp_path / "networks" / "run.npz"
    job = replace(make_job("eqprop_looped"), weights=path)
    record = run_job(job)
    params, _, text = checkpoint.load(path)
    about, split = json.loads(text), job.task.load(job.seed)
    assert about["settings"] == record.settings
    raw = make_table().x[:5]
    x = (raw - np.array(about["mean"])) / np.array(about["scale"])
    np.testing.assert_allclose(x, split.normalise(raw), rtol=1e-5)
    guesses = predict(NumbaBackend(params.network, params), split.x_test)
    assert float((guesses == split.y_test).mean()) == pytest.approx(record.accuracy)


def test_a_kept_run_is_repeated_for_its_network_and_not_again(tmp_path, monkeypatch):
    ran = []

    def run(job, watch):
        ran.append(job.key)
        return run_job(job, watch)

    monkeypatch.setattr(contestants, "run_job", run)
    monkeypatch.setattr(command, "write_report", lambda *_, **__: None)
    monkeypatch.setattr(command, "print_summary", lambda *_: None)
    data, out = write_csv(tmp_path / "points.csv"), tmp_path / "out"
    given = ["--data", str(data), "--out", str(out), "--seeds", "1", "--no-controls"]
    given += ["--workers", "1", "--set", "hidden=4", "epochs=1"]
    counts = []
    for more in ([], ["--save-weights"], ["--save-weights"], [], ["--save-weights", "lr=0.5"]):
        ran.clear()
        where = [*given, *more[1:], *more[:1]]
        assert main(where) == 0
        counts.append(len(ran))
    assert counts == [4, 4, 0, 0, 4]
    names = {path.stem for path in (out / finish.NETWORKS).iterdir()}
    assert names == {path.stem for path in (out / "runs").iterdir()} == set(ran)
    mlp = np.load(out / finish.NETWORKS / "points.csv-backprop_feedforward-42.npz")
    about = json.loads(json.loads(str(mlp["head"]))["settings"])
    record = load_record(out / "runs" / "points.csv-backprop_feedforward-42.json")
    assert about["settings"] == record.settings
    assert sum(mlp[name].size for name in mlp.files if name != "head") == record.parameters


@pytest.mark.parametrize("name", ["eqprop_looped", "flipped_sign", "backprop_looped"])
def test_torch_computes_what_the_kernels_do(name):
    compiled, torch = (
        timeless(run_job(make_job(name, device=device, epochs=1))) for device in ("compiled", "cpu")
    )
    assert torch["cost"] == pytest.approx(compiled["cost"], rel=1e-4)
    assert torch["curve"][0]["cost"] == pytest.approx(compiled["curve"][0]["cost"], rel=1e-4)


def test_an_unknown_setting_names_those_that_are_known():
    with pytest.raises(EngineError, match="known: hidden, batch_size, epochs, layers"):
        GivenSettings(assignments=("nothing=1",)).apply(USER_BUDGET, "t", "c")


@pytest.mark.parametrize("given", [["--label", "y"], ["--target", "classes"], ["--margin", "0.1"]])
def test_what_is_about_own_data_needs_it(given, tmp_path, capsys):
    assert main([*given, "--tasks", "digits", "--out", str(tmp_path / "out")]) == 2
    assert f"{given[0]} is about your own data: name the file by --data." in capsys.readouterr().out
