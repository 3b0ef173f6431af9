"""The hardware command from end to end, on a small task; and what it refuses, in one sentence."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

import experiments.hardware.__main__ as command
from engine.errors import EngineError
from experiments.hardware.runs import Job, network_of, run_job
from experiments.hardware.settings import RIVALS, SUBSTRATES, Settings, changed
from experiments.hardware.sweeps import sweep_jobs
from experiments.hardware.tables import in_units
from experiments.hardware.tune import choose, tuning_jobs
from experiments.tasks import Task, task_from_file
from hw_sim.counts import OpCounts

SMALL = ["--set", "hidden=6", "--set", "epochs=3", "--set", "batch_size=8"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clouds that a line almost separates."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = rng.standard_normal((90, 4)) + 2.0 * np.eye(4)[y]
    path = tmp_path_factory.mktemp("hardware") / "clouds.npz"
    np.savez(path, x=x, y=y)
    return path


@pytest.fixture(scope="module")
def task(data: Path) -> Task:
    return task_from_file(data)


def _run(*given: str) -> tuple[int, str]:
    with redirect_stdout(io.StringIO()) as printed:
        code = command.main(list(given))
    return code, printed.getvalue()


@pytest.fixture(scope="module")
def finished(data: Path) -> tuple[Path, str]:
    out = data.parent / "out"
    given = ["--data", str(data), *SMALL, "--seeds", "1", "--no-sweeps", "--workers", "1"]
    code, printed = _run(*given, "--out", str(out))
    assert code == 0, printed
    return out, printed


def test_the_report_is_written_and_says_who_wins(finished: tuple[Path, str]) -> None:
    out, printed = finished
    names = {str(path.relative_to(out)) for path in out.rglob("*.*")}
    plots = {
        f"plots/{n}.{e}" for n in ("energy", "break_even", "sensitivity") for e in ("png", "svg")
    }
    assert names == {"report.md", "report.html", "report.json"} | plots
    content = json.loads((out / "report.json").read_text())
    assert {run["contender"] for run in content["runs"]} == {*SUBSTRATES, *RIVALS}
    assert len(content["contests"]) == 2 * (4 + 1 + 1)
    for contest in content["contests"]:
        ratio = contest["ratio"]
        assert 0.0 < ratio["low"] <= ratio["high"]
        rival = contest["rival_energy_j"]
        assert ratio["nominal"] == pytest.approx(contest["energy_j"]["nominal"] / rival)
        assert contest["verdict"] in printed
        for parts in ("kind", "phase", "place"):
            total = sum(contest[f"energy_by_{parts}_j"].values())
            assert total == pytest.approx(contest["energy_j"]["nominal"])
    page = (out / "report.html").read_text()
    assert "https://" not in page.split("</style>")[1].replace("http://www.w3.org", "")
    assert "recalled" in page


def test_a_report_compared_with_itself_is_the_same(finished: tuple[Path, str]) -> None:
    saved = str(finished[0] / "report.json")
    code, printed = _run("--compare", saved, saved)
    assert code == 0
    assert "training energy, J" in printed
    ratios = {line.split()[-1] for line in printed.splitlines() if "seed 42" in line}
    assert ratios == {"1"}


def test_counts_of_a_run_do_not_include_watching_it(task: Task) -> None:
    settings = changed(Settings(), ["hidden=6", "epochs=2", "batch_size=18", "free_steps=4"])
    outcome = run_job(Job(task, "digital", 42, settings))
    counts = outcome.counts_at(2)
    samples = 2 * 54  # 60 % of 90, twice
    assert counts.total("off_chip", "input") == samples * 4
    assert counts.total("mac", "input") == samples * 4 * 6
    assert counts.total("activation", "free") <= samples * (1 + 4) * 6
    inference = OpCounts.from_rows(tuple(row) for row in outcome.inference)
    assert inference.total("mac", "input") == outcome.n_test * 4 * 6
    assert inference.total("mac", "readout") == outcome.n_test * 6 * 3


def test_an_inference_of_backprop_is_its_forward_pass(task: Task) -> None:
    settings = changed(Settings(), ["hidden=6", "epochs=1", "bptt_steps=3"])
    for name, steps in (("backprop", 0), ("bptt", 3)):
        outcome = run_job(Job(task, name, 42, settings))
        found = OpCounts.from_rows(tuple(row) for row in outcome.inference)
        assert found.total("mac") == outcome.n_test * (4 * 6 + steps * 36 + 6 * 3)
        assert found.total("off_chip") == outcome.n_test * (4 + 3)


def test_tuning_looks_at_the_validation_part_only(task: Task) -> None:
    jobs = tuning_jobs(task, ["digital", "backprop"], changed(Settings(), SMALL[1::2]))
    assert len([job for job in jobs if job.contender == "backprop"]) == 2 * 3
    assert len([job for job in jobs if job.contender == "digital"]) == 2 * 9
    assert not {job.seed for job in jobs} & set(range(command.FIRST_SEED, command.FIRST_SEED + 99))
    good, bad = (run_job(jobs[0]) for _ in range(2))
    object.__setattr__(bad, "label", "other")
    object.__setattr__(bad, "accuracy", 2.0)
    object.__setattr__(good, "valid_accuracy", 1.0)
    assert choose([bad, good])["digital"][0] == jobs[0].label


def test_sweeps_cover_the_published_trends(task: Task) -> None:
    jobs = sweep_jobs(task, SUBSTRATES, Settings(), [1])
    labels = [job.label for job in jobs]
    assert len(set(labels)) == len(labels)
    narrow = next(job for job in jobs if job.label.startswith("10-bit"))
    assert narrow.settings.digital.weight_bits == 10
    assert narrow.settings.digital.readout_bits == 4
    assert {network_of(job) for job in jobs} == {network_of(jobs[0])}
    assert sweep_jobs(task, ["spiking"], Settings(), [1]) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--substrate", "quantum"], "there is no substrate 'quantum'; known: digital"),
        (["--bits", "0"], "weight_bits 0, expected 2 to 24 whole bits"),
        (["--bits", "8", "8", "8"], "--bits takes one or two widths"),
        (["--set", "crossbar.read_noise=-1"], "read_noise -1.0, expected from 0"),
        (["--set", "crossbar.nothing=1"], "there is no such setting"),
        (["--set", "quantum.bits=1"], "no substrate 'quantum'"),
        (["--set", "epochs"], "expected key=value"),
        (["--set", "epochs=two"], "'two' is no int"),
        (["--set", "epochs=0"], "epochs is 0, expected at least 1"),
        (["--technology", "5nm"], "there is no technology '5nm'; known: digital_45nm"),
        (["--technology", "digital_45nm"], "has no energy price for 'cell_read'"),
        (["--technology", "none.toml"], "none.toml cannot be read"),
        (["--task", "chess"], "There is no task 'chess'"),
        (["--compare", "a.json", "b.json"], "a.json cannot be read as a report"),
    ],
)
def test_bad_input_gets_one_sentence_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed = _run(*given)
    assert code == 2
    assert printed.startswith("Error: ")
    assert message in printed
    assert printed.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_price_without_a_unit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(
        '[mine]\ntitle = "Mine"\n[mine.energy]\nmac = { value = 1.0, low = 1, high = 1 }'
    )
    code, printed = _run("--technology", str(path))
    assert code == 2
    assert "energy of 'mac' has no unit" in printed


def test_settings_are_set_by_name() -> None:
    found = changed(Settings(), ["digital.readout_bits=4", "crossbar.split_arrays=true", "lr=0.1"])
    assert found.digital.readout_bits == 4
    assert found.crossbar.split_arrays is True
    assert found.lr == 0.1
    assert changed(found, ["digital.readout_bits=none"]).digital.readout_bits is None
    with pytest.raises(EngineError, match="'maybe' is no bool"):
        changed(found, ["crossbar.split_arrays=maybe"])


def test_values_are_printed_with_their_prefix() -> None:
    assert in_units(3.21e-6, "J") == "3.21 µJ"
    assert in_units(0.0, "J") == "0 J"
    assert in_units(2.5e-16, "J") == "0.25 fJ"
