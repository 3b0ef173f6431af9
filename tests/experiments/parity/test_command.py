import csv
import io
import json
import re
from contextlib import redirect_stdout
from dataclasses import replace

import numpy as np
import pytest

from engine.errors import EngineError
from experiments.contest import finish
from experiments.parity import command, contestants
from experiments.parity.__main__ import main
from experiments.parity.roster import CONTESTANTS, CONTROLS
from experiments.parity.settings import usual_seeds
from experiments.tasks import TASKS
from tests.experiments.parity.parity_cases import write_csv
from tests.experiments.parity.parity_records import make_record

EPOCHS = 2
PLOTS = (
    "accuracy",
    "gap",
    "gradient_cosine",
    "learning_curves",
    "relaxation_steps",
    "seconds_per_epoch",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run the whole command once, and once more; return its folder, arguments and outputs."""
    folder = tmp_path_factory.mktemp("parity")
    data = write_csv(folder / "points.csv")
    out = folder / "out"
    given = ["--data", str(data), "--epochs", str(EPOCHS), "--seeds", "2", "--workers", "1"]
    given += ["--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        with redirect_stdout(io.StringIO()) as first:
            assert main(given) == 0
        before = contents(out)
        patch.setattr(finish, "run_jobs", refuse)
        with redirect_stdout(io.StringIO()) as second:
            assert main(given) == 0
    return out, given, first.getvalue(), second.getvalue(), before


def refuse(*_):
    raise AssertionError("a run was repeated")


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


def test_every_file_is_written(finished):
    out = finished[0]
    names = {"report.md", "report.html", "results.json", "metrics.csv"}
    names |= {f"plots/{name}.{kind}" for name in PLOTS for kind in ("png", "svg")}
    names |= {
        f"runs/points.csv-{name}-{seed}.json"
        for name in (*CONTESTANTS, *CONTROLS)
        for seed in (42, 43)
    }
    assert {path.relative_to(out).as_posix() for path in out.rglob("*.*")} == names
    assert all(path.stat().st_size > 0 for path in out.rglob("*.*"))


def test_results_hold_every_run_with_settings_versions_and_command(finished):
    out, given, *_ = finished
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    runs = {(run["contestant"], run["seed"]): run for run in results["runs"]}
    assert runs.keys() == {(name, seed) for name in (*CONTESTANTS, *CONTROLS) for seed in (42, 43)}
    assert {run["settings"]["epochs"] for run in runs.values()} == {EPOCHS}
    assert {len(run["settings"]["data"]) for run in runs.values()} == {64}
    assert results["command"] == " ".join(["python", "-m", "experiments.parity", *given])
    assert results["machine"]["numpy"] == np.__version__
    assert {"python", "machine", "cores", "torch", "numba"} <= results["machine"].keys()


def test_metrics_have_a_row_for_every_epoch_of_every_run(finished):
    with (finished[0] / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16 * EPOCHS
    assert {row["epoch"] for row in rows} == {"1", "2"}


def test_the_table_and_the_place_of_the_report_are_printed(finished):
    out, _, printed, *_ = finished
    assert "EqProp and backprop" in printed
    assert "published" not in printed
    assert "MNIST" not in printed
    assert "points.csv: 80 samples, 3 inputs, label 'column 4' of 2 classes; each input" in printed
    assert re.search(r"^\s*points .*±", printed, re.MULTILINE)
    for title in ("W_rec = 0", "W_rec frozen", "Read-out only", "Sign flipped"):
        assert title in printed
    assert f"The whole report: {out / 'report.html'}\n" in printed


def test_a_second_call_runs_nothing_and_reports_the_same(finished):
    out, _, first, second, before = finished
    assert "16 of 16 runs were done before; --fresh repeats them." in second
    assert second.endswith(first)
    assert contents(out) == before


def test_the_report_gives_the_command_that_repeats_it(finished):
    out, given, *_ = finished
    for name in ("report.md", "report.html"):
        assert " ".join(given) in (out / name).read_text(encoding="utf-8")


HOLED = "\n".join(f"{'nan' if row == 6 else row},{row % 5},{row % 2}" for row in range(40))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--data", "holed.csv"], "holed.csv has no number in line 7, column 1: fill such"),
        (["--data", "corrupt.npz"], "corrupt.npz is not a readable .npz of plain arrays"),
        (["--data", "folder"], "folder is neither .npz nor .csv nor .parquet."),
        (["--tune", "--data", "holed.csv"], "holed.csv has no number in line 7, column 1: fill"),
    ],
)
def test_bad_data_is_refused_in_one_sentence_and_leaves_nothing(
    given, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "holed.csv").write_text(HOLED)
    (tmp_path / "corrupt.npz").write_bytes(b"PK\x03\x04 and then nothing")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    assert main([*given, "--out", "out"]) == 2
    printed, errors = capsys.readouterr()
    assert printed.startswith(f"Error: {sentence}")
    assert printed.endswith(".\n")
    assert printed.count("\n") == 1
    assert errors == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("option", "value"),
    [(o, v) for o in ("--seeds", "--workers", "--epochs") for v in ("0", "-1", "x", "2.5", "")],
)
def test_a_senseless_number_is_refused(option, value, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main([f"{option}={value}"])
    assert stopped.value.code == 2
    errors = capsys.readouterr().err
    assert errors.splitlines()[-1].endswith(
        f"error: argument {option}: '{value}' is not a whole number of at least 1"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_cannot_be_is_found_before_the_work(tmp_path, monkeypatch, capsys):
    data = write_csv(tmp_path / "points.csv")
    monkeypatch.setattr(finish, "run_jobs", refuse)
    with pytest.raises(SystemExit) as stopped:
        main(["--data", str(data), "--out", str(data / "out")])
    assert stopped.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(f"error: argument --out: {data} is no folder")


def test_help_explains_every_option(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    usage, _, options = text.partition("\noptions:\n")
    explained = re.findall(r"^  (?:-h, )?(--[\w-]+)(?: [A-Z{].*?)??\s+[a-zA-Z'.]", options, re.M)
    assert set(explained) == set(re.findall(r"(--[\w-]+)", usage)) | {"--help"}
    assert len(explained) == 20
    for name in TASKS:
        assert name in text


@pytest.fixture
def without_report(monkeypatch):
    monkeypatch.setattr(command, "write_report", lambda *_, **__: None)
    monkeypatch.setattr(command, "print_summary", lambda *_: None)


@pytest.mark.usefixtures("without_report")
def test_a_folder_is_printed_as_it_is_called(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "finish", lambda *_: [])
    out = tmp_path / "long name [of 7 May] [bold]" / ("x" * 30)
    assert main(["--tasks", "digits", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"The whole report: {out / 'report.html'}\n"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([], ["digits", "cartpole", "acrobot"]),
        (["--tasks", "all"], list(TASKS)),
        (["--tasks", "mnist", "digits", "mnist"], ["mnist", "digits"]),
        (["--data", "points.csv"], ["points.csv"]),
        (["--data", "points.csv", "--tasks", "digits"], ["digits", "points.csv"]),
    ],
)
@pytest.mark.usefixtures("without_report")
def test_tasks_are_the_offline_ones_or_those_asked_for(given, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "points.csv")
    asked = []

    def keep(jobs, *_):
        asked.extend(jobs)
        return []

    monkeypatch.setattr(command, "finish", keep)
    assert main(given) == 0
    assert list(dict.fromkeys(job.task.name for job in asked)) == names
    for name in names:
        seeds = {job.seed for job in asked if job.task.name == name}
        assert seeds == set(range(42, 42 + usual_seeds(name)))
    counted = 8 * sum(map(usual_seeds, names))
    assert len({job.key for job in asked}) == len(asked) == counted
    assert all(job.final for job in asked)


def test_digits_have_ten_seeds_and_no_task_fewer_than_three():
    assert usual_seeds("digits") >= 10
    assert min(map(usual_seeds, [*TASKS, "mine.csv"])) >= 3


def test_seeds_are_added_until_it_is_decided_or_the_limit_is_reached(tmp_path, monkeypatch, capsys):
    ran = []

    def invent(job, watch):
        ran.append((job.contestant, job.seed))
        shift = 0.03 * (-1) ** job.seed if job.contestant == "eqprop_looped" else 0.0
        record = make_record(job.task.name, job.contestant, job.seed, 0.9 + shift)
        return replace(record, settings=job.settings.as_dict())

    monkeypatch.setattr(contestants, "run_job", invent)
    data, out = write_csv(tmp_path / "points.csv"), tmp_path / "out"
    given = ["--data", str(data), "--out", str(out), "--seeds", "auto:8", "--workers", "1"]
    assert main(given) == 0
    printed = capsys.readouterr().out
    assert "Look 1 of at most 2: undecided on points.csv; seeds 47, 48, 49 are added." in printed
    assert "with at most 2 looks: every" in printed
    assert {seed for name, seed in ran if name == "eqprop_looped"} == set(range(42, 50))
    assert {seed for name, seed in ran if name == "flipped_sign"} == set(range(42, 47))
    assert len(ran) == 8 * 5 + 4 * 3
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "Bonferroni's over 2 looks" in report
    assert "would be decided" in report


@pytest.mark.parametrize("text", ["auto:", "auto:0", "auto:x", "automatic", "auto:99999"])
def test_a_senseless_limit_of_seeds_is_refused(text, capsys):
    with pytest.raises(SystemExit):
        main(["--seeds", text])
    assert "argument --seeds: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "ran"),
    [
        ((), {"digits": 3}),
        (("--seeds", "2"), {"digits": 2}),
        (("--tasks", "acrobot"), {"acrobot": 3}),
    ],
)
def test_quick_leaves_out_what_is_not_asked_for(monkeypatch, tmp_path, said, ran):
    seen = []

    def note(jobs, folder, crew):
        seen.extend(jobs)
        raise EngineError("enough")

    monkeypatch.setattr("experiments.parity.command.finish", note)
    assert main(["--quick", *said, "--out", str(tmp_path)]) == 2
    assert {job.task.name: len({j.seed for j in seen}) for job in seen} == ran
    assert {job.contestant for job in seen} == set(CONTESTANTS)
