import csv
import io
import json
import re
from contextlib import redirect_stdout
from dataclasses import replace

import numpy as np
import pytest

from experiments.contest import finish
from experiments.reporting.number_text import NONE
from experiments.tasks import MissingDataError, TaskError
from experiments.vision import command, contestants
from experiments.vision.__main__ import main
from experiments.vision.choices import FULL, NETWORKS, VISION_TASKS
from experiments.vision.contestants import run_job
from experiments.vision.report import write_report
from experiments.vision.roster import BPTT, CONTESTANTS
from experiments.vision.tune import GRID, SEEDS
from tests.experiments.parity.parity_cases import timeless
from tests.experiments.parity.parity_records import make_record
from tests.experiments.vision.vision_cases import write_images

EPOCHS = 2
PLOTS = {
    *("accuracy", "gap", "gradient_cosine", "learning_curves", "relaxation_steps"),
    *("seconds_per_epoch", "layer_cosine", "filters", "confusion"),
}


def refuse(*_):
    raise AssertionError("a run was repeated")


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run the whole command once, and once more; return its folder, arguments and outputs."""
    folder = tmp_path_factory.mktemp("vision")
    data, out = write_images(folder / "bars.npz"), folder / "out"
    given = ["--data", str(data), "--epochs", str(EPOCHS), "--seeds", "2", "--workers", "1"]
    given += ["--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        with redirect_stdout(io.StringIO()) as first:
            assert main(given) == 0
        before = contents(out)
        patch.setattr(finish, "run_jobs", refuse)
        with redirect_stdout(io.StringIO()) as second:
            assert main(given) == 0
    return out, given, first.getvalue(), second.getvalue(), before


def test_every_file_is_written_and_nothing_else(finished):
    out = finished[0]
    names = {"report.md", "report.html", "results.json", "metrics.csv", "table.md"}
    names |= {f"plots/{name}.{kind}" for name in PLOTS for kind in ("png", "svg")}
    names |= {f"runs/bars.npz-{name}-{seed}.json" for name in CONTESTANTS for seed in (42, 43)}
    assert contents(out).keys() == names


def test_results_hold_every_run_with_settings_measures_and_command(finished):
    out, given, *_ = finished
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    runs = {(run["contestant"], run["seed"]): run for run in results["runs"]}
    assert runs.keys() == {(name, seed) for name in CONTESTANTS for seed in (42, 43)}
    assert {run["settings"]["epochs"] for run in runs.values()} == {EPOCHS}
    assert {len(run["settings"]["data"]) for run in runs.values()} == {64}
    assert {run["parameters"] for run in runs.values()} == {runs[CONTESTANTS[0], 42]["parameters"]}
    assert results["command"] == " ".join(["python", "-m", "experiments.vision", *given])
    with (out / "metrics.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(runs) * EPOCHS


def test_the_table_for_a_readme_has_this_run_alone_if_the_images_are_a_users(finished):
    out, _, printed, *_ = finished
    table = (out / "table.md").read_text(encoding="utf-8")
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert "16/2-32/2" in rows[2]
    report = (out / "report.md").read_text(encoding="utf-8")
    assert table.strip() in report
    assert "published results" not in report
    assert f"The table for a README: {out / 'table.md'}\n" in printed


def test_what_was_published_stands_beside_a_known_task(tmp_path):
    records = [make_record("mnist", name, 42, 0.99) for name in CONTESTANTS[:2]]
    write_report(records, tmp_path, "the command", {})
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert "here" in rows[2]
    published = {"98.35", "99.03", "91.11", "88.30", "90.40", "93.90"}
    assert {row.split("|")[-3].strip() for row in rows[3:]} == published
    assert [row.split("|")[-2].strip() == NONE for row in rows[2:]] == [False] + [True] * 6
    assert "250 + 25" in table
    assert table.strip() in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_the_terminal_shows_accuracy_verdict_and_layers(finished):
    out, _, printed, *_ = finished
    assert "EqProp and backprop on images" in printed
    assert re.search(r"^bars .*±", printed, re.MULTILINE)
    assert "Gradient by layer, bottom to top" in printed
    assert f"The whole report: {out / 'report.html'}\n" in printed
    assert "MNIST" not in printed
    assert "bars.npz: 80 samples, 60 inputs, label 'y' of 2 classes; all pixels are" in printed


def test_a_second_call_runs_nothing_and_reports_the_same(finished):
    out, _, first, second, before = finished
    assert "6 of 6 runs were done before; --fresh repeats them." in second
    assert second.endswith(first)
    assert contents(out) == before


def test_an_interrupted_call_is_completed_by_the_next_one(finished, tmp_path, monkeypatch, capsys):
    out, given, *_ = finished
    ran = []

    def run(job, watch):
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(job.key)
        return run_job(job, watch)

    monkeypatch.setattr(contestants, "run_job", run)
    again = [*given[:-1], str(tmp_path / "again")]
    assert main(again) == 130
    assert "Stopped. Finished runs are kept" in capsys.readouterr().out
    kept = contents(tmp_path / "again")
    assert kept.keys() == {f"runs/{key}.json" for key in ran}
    monkeypatch.setattr(contestants, "run_job", run_job)
    assert main(again) == 0
    assert "2 of 6 runs were done before" in capsys.readouterr().out
    for path in (out / "runs").iterdir():
        first, second = (
            timeless(finish.load_record(p)) for p in (path, tmp_path / "again" / "runs" / path.name)
        )
        assert first == second


@pytest.fixture
def asked(monkeypatch):
    """Note the jobs of a call and run none."""
    jobs = []

    def keep(wanted, *_):
        jobs.extend(wanted)
        return []

    monkeypatch.setattr(command, "finish", keep)
    monkeypatch.setattr(command, "write_report", lambda *_: None)
    monkeypatch.setattr(command, "print_summary", lambda *_: None)
    return jobs


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["--full"], FULL),
        (["--tasks", "digits", "mnist", "digits"], ("digits", "mnist")),
        (["--tasks", "digits", "--data", "bars.npz"], ("digits", "bars.npz")),
    ],
)
def test_tasks_are_those_asked_for(given, names, asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "bars.npz")
    assert main(given) == 0
    assert tuple(dict.fromkeys(job.task.name for job in asked)) == tuple(names)
    assert {job.seed for job in asked} == {42, 43, 44}
    assert len({job.key for job in asked}) == len(asked)
    assert all(job.final for job in asked)
    assert not any(job.contestant == BPTT and job.task.name in FULL for job in asked)


def test_options_change_every_setting(asked, tmp_path):
    given = ["--tasks", "cifar10", "--network", "dchn", "--device", "cpu", "--epochs", "3"]
    assert main([*given, "--out", str(tmp_path / "out")]) == 0
    found = {(job.settings.layers, job.settings.device, job.settings.epochs) for job in asked}
    assert found == {(NETWORKS["dchn"], "cpu", 3)}


def replaced(monkeypatch, load):
    usual = VISION_TASKS[command.USUAL]
    monkeypatch.setitem(VISION_TASKS, command.USUAL, replace(usual, load=load))


def test_the_usual_task_is_fashion(asked, monkeypatch, tmp_path, capsys):
    replaced(monkeypatch, lambda seed: None)
    assert main(["--out", str(tmp_path)]) == 0
    assert {job.task.name for job in asked} == {"fashion_mnist_10k"}
    assert "stand in" not in capsys.readouterr().out


def test_digits_stand_in_for_images_that_cannot_be_had_and_it_is_said(
    asked, monkeypatch, tmp_path, capsys
):
    def missing(seed):
        raise MissingDataError("fashion_mnist/x is missing.")

    replaced(monkeypatch, missing)
    assert main(["--out", str(tmp_path)]) == 0
    assert {job.task.name for job in asked} == {"digits"}
    printed = capsys.readouterr().out
    assert printed.startswith(
        "Digits of 8x8 pixels stand in for Fashion-MNIST, since fashion_mnist/x is missing.\n"
    )


def test_a_corrupt_file_is_no_reason_for_digits(asked, monkeypatch, tmp_path, capsys):
    def corrupt(seed):
        raise TaskError("fashion_mnist/x is corrupt.")

    replaced(monkeypatch, corrupt)
    assert main(["--out", str(tmp_path)]) == 2
    assert capsys.readouterr().out == "Error: fashion_mnist/x is corrupt.\n"
    assert asked == []


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--data", "points.csv"], "points.csv is not .npz, which images have to be in."),
        (["--data", "rows.npz"], "rows.npz has images of shape (12, 4), expected (samples, height"),
        (["--data", "empty.npz"], "empty.npz has images of shape (12, 0, 3, 1), expected (samples"),
        (["--data", "holed.npz"], "holed.npz holds nan at sample 1, input 1, not a finite float32"),
        (["--data", "sizes.npz"], "sizes.npz is not a readable .npz of plain arrays"),
        (
            ["--data", "tiny.npz"],
            "convolution 'W_2' has a kernel of 3 pixels, larger than the image 1",
        ),
        (
            ["--tasks", "digits", "--network", "dchn"],
            "convolution 'W_4' has a kernel of 3 pixels, larger than the image 1 x 1",
        ),
        (["--data", "pair.npz"], "pair.npz has only the class 0, at least 2 are needed."),
        (["--device", "mps", "--tasks", "digits"], "device 'mps' is not on this machine; it has"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_and_leaves_nothing(
    given, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    y = np.arange(12) % 2
    several = np.array([np.zeros((2, 2)), np.zeros((3, 3))] * 6, dtype=object)
    arrays = {
        "rows": np.zeros((12, 4)),
        "empty": np.zeros((12, 0, 3, 1)),
        "holed": np.full((12, 3, 3), np.nan),
        "sizes": several,
        "tiny": np.arange(48.0).reshape(12, 2, 2),
    }
    for name, x in arrays.items():
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    np.savez(tmp_path / "pair.npz", x=np.arange(108.0).reshape(12, 3, 3), y=0 * y)
    (tmp_path / "points.csv").write_text("1,2\n")
    before = sorted(tmp_path.iterdir())
    assert main([*given, "--out", "out"]) == 2
    printed, errors = capsys.readouterr()
    assert printed.startswith(f"Error: {sentence}")
    assert printed.endswith(".\n")
    assert printed.count("\n") == 1
    assert errors == ""
    assert sorted(tmp_path.iterdir()) == before


def test_help_explains_every_option(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    usage, _, options = text.partition("\noptions:\n")
    explained = re.findall(r"^  (?:-h, )?(--[\w-]+)(?: [A-Z{].*?)??\s+[a-zA-Z]", options, re.M)
    assert set(explained) == set(re.findall(r"(--[\w-]+)", usage)) | {"--help"}
    assert len(explained) == 16
    for name in VISION_TASKS:
        assert name in text


def test_tune_writes_what_it_chose_on_the_validation_part(tmp_path, monkeypatch, capsys):
    data, out = write_images(tmp_path / "bars.npz"), tmp_path / "out"
    for axis, values in list(GRID.items()):
        monkeypatch.setitem(GRID, axis, values[:1])
    given = ["--tune", "--data", str(data), "--out", str(out), "--workers", "1", "--epochs", "1"]
    assert main(given) == 0
    tuned = json.loads((out / "tuning.json").read_text(encoding="utf-8"))
    rows = {row["contestant"]: row for row in tuned["chosen"]}
    assert rows.keys() == set(CONTESTANTS)
    assert all(row["chosen"].keys() == GRID.keys() for row in rows.values())
    assert not (out / "runs").exists()
    assert len(list((out / "tuning").iterdir())) == len(SEEDS) * len(CONTESTANTS)
    assert f"All of it: {out / 'tuning.json'}\n" in capsys.readouterr().out
