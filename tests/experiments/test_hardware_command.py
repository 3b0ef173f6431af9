"""The hardware command from end to end, on a small task; and what it refuses, in one sentence."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineError
from experiments.hardware import command
from experiments.hardware.__main__ import main
from experiments.hardware.job import Job, network_of, run_job
from experiments.hardware.kept_runs import Keep
from experiments.hardware.settings import LEARNERS, NETWORKS, Settings, changed
from experiments.hardware.sweeps import defect_label, sweep_jobs
from experiments.hardware.trends import trends_table
from experiments.hardware.tune import LEARNING_RATES, SEEDS, choose, tuning_jobs
from experiments.options import FIRST_SEED
from experiments.reporting.document import text_of
from experiments.reporting.number_text import in_units
from experiments.tasks import Task, task_from_file
from hw_sim.chips.catalogue import CHIPS
from hw_sim.counts import OpCounts
from hw_sim.prices.technology import shipped_technologies
from tests.hw_sim.prices.hand_architecture import CHIP

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
        code = main(list(given))
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
    drawn = ("energy", "learning", "break_even", "sensitivity", "floor_plan")
    plots = {f"plots/{n}.{e}" for n in drawn for e in ("png", "svg")} | {"plots/network.svg"}
    runs = {name for name in names if name.startswith("runs/")}
    assert names - runs == {"report.md", "report.html", "report.json", "report.csv"} | plots
    assert len(runs) == len(CHIPS) * len(LEARNERS)
    content = json.loads((out / "report.json").read_text())
    for run in content["runs"]:
        looks = [point["update"] for point in run["curve"]]
        assert all(len(numbers) == len(looks) for *_, numbers in run["counts"])
        assert looks[0] <= run["update_of_target"] <= looks[-1]
    ran = {(run["learner"], run["substrate"]) for run in content["runs"]}
    assert ran == set(product(LEARNERS, CHIPS))
    assert len(content["contests"]) == 2 * (4 + 1 + 1)
    for contest in content["contests"]:
        ratio = contest["ratio"]
        assert 0.0 < ratio["low"] <= ratio["high"]
        assert ratio == contest["ratio_by_prices"]  # one seed has no spread
        assert contest["ratio_by_seeds"] == dict.fromkeys(ratio, ratio["nominal"])
        assert contest["energies_j"][0][0] == pytest.approx(contest["energy_j"]["nominal"])
        rival = contest["rival_energy_j"]["nominal"]
        assert ratio["nominal"] == pytest.approx(contest["energy_j"]["nominal"] / rival)
        assert contest["verdict"] in printed
        for what, by in product(("energy_j", "latency_s"), ("kind", "phase", "place")):
            total = sum(contest[f"{what}_by_{by}"].values())
            assert total == pytest.approx(contest[what]["nominal"])
        power, samples = contest["power_w"], contest["training_samples"]
        time = contest["latency_s"]["nominal"]
        assert power["nominal"] == pytest.approx(contest["energy_j"]["nominal"] / time)
        assert power["low"] <= power["nominal"] <= power["high"]
        assert 0 < samples <= 3 * 54
        once = contest["training_sample_energy_j"]["nominal"]
        assert samples * once == pytest.approx(contest["energy_j"]["nominal"])
        assert contest["steps"] > 3
        assert "steps" in contest["break_even"][0]
    page = (out / "report.html").read_text()
    assert "https://" not in page.split("</style>")[1].replace("http://www.w3.org", "")
    assert "recalled" in page


def test_a_batch_of_a_gpu_and_one_sample_alone_have_rows_of_their_own(
    finished: tuple[Path, str],
) -> None:
    page = (finished[0] / "report.md").read_text()
    (table,) = [part for part in page.split("\n#") if "Power in training" in part]
    rows = [line for line in table.splitlines() if "gpu" in line]
    assert len(rows) == 2 * len(LEARNERS)
    assert sum("one sample at a time" in row for row in rows) == len(LEARNERS)


def test_a_price_is_explained_with_its_rows_and_what_it_decides(data: Path) -> None:
    given = ["--data", str(data), *SMALL, "--substrate", "digital", "--technology", "digital_45nm"]
    code, printed = _run("--explain", "mac", *given)
    assert code == 0, printed
    for part in (
        "mac at 8 multiplier_bits 200 fJ (200 fJ to 2.2 pJ), 45 nm, second-hand: Horowitz",
        "mac, fixed part 100 fJ", "latency: mac 10 ns", "machine: 1 per unit",
        "One batch of EqProp on digital, digital_45nm", "% of the energy", "over bptt: ",
    ):  # fmt: skip
        assert part in printed
    code, printed = _run("--explain", "memory_bit", *given)
    assert code == 0
    assert "power: memory_bit 100 pW" in printed
    assert "area: memory_bit 3.7e-13 m²" in printed
    assert "memory_bit power is 100 pW" in printed
    crossbar = ["--substrate", "crossbar", "--technology", "rram_crossbar"]
    code, printed = _run("--explain", "weight_write", "--data", str(data), *SMALL, *crossbar)
    assert code == 0
    assert "endurance: weight_write 1e+08 writes (1e+06 writes to 1e+09 writes)" in printed


def test_what_was_priced_stands_on_top(finished: tuple[Path, str]) -> None:
    page = (finished[0] / "report.md").read_text()
    top = page.split("\n## ")[1]
    assert top.startswith("What was priced")
    for part in (
        "54 training, 18 validation and 18 test samples", "4 inputs, hidden 6 tanh, 3 outputs",
        "3 epochs in batches of 8", "beta 0.6", "weight\\_bits 12, state\\_bits 10",
        "on\\_off\\_ratio 15", "threshold 0.01", "digital\\_45nm", "plots/network.svg",
    ):  # fmt: skip
        assert part in top, part
    content = json.loads((finished[0] / "report.json").read_text())
    assert all(what in top.replace("\\", "") for what, _ in content["priced"])
    assert "W_rec" in (finished[0] / "plots" / "network.svg").read_text()


def test_no_table_has_two_columns_of_one_name(finished: tuple[Path, str]) -> None:
    """On a phone a number stands beside the name of its column alone."""
    lines = (finished[0] / "report.md").read_text().splitlines()
    headers = [above for above, line in pairwise(lines) if line.startswith("| ---")]
    assert len(headers) > 10
    for header in headers:
        names = header.strip("| ").split(" | ")
        assert len(set(names)) == len(names), header


def test_reports_call_chips_and_technologies_as_options_do(finished: tuple[Path, str]) -> None:
    """A title stands where a technology is said to be priced, and nowhere else."""
    page = (finished[0] / "report.md").read_text().replace("\\", "")
    for technology in shipped_technologies().values():
        assert page.split("### Published figures")[0].count(technology.title) == 1
        assert page.count(technology.name) > 5
    assert "event driven" not in page


def test_every_number_of_the_report_is_a_row_of_a_table(finished: tuple[Path, str]) -> None:
    rows = list(csv.DictReader((finished[0] / "report.csv").read_text().splitlines()))
    content = json.loads((finished[0] / "report.json").read_text())
    found = {
        (row["substrate"], row["technology"], row["learner"], row["seed"], row["measure"]): row
        for row in rows
    }
    assert len(found) == len(rows)
    for run in content["runs"]:
        row = found[run["substrate"], "", run["learner"], "42", "test accuracy"]
        assert float(row["value"]) == run["accuracy"]
    for contest in content["contests"]:
        of = contest["substrate"], contest["technology"], "eqprop", ""
        for measure, saved in (
            (f"energy of training over {contest['rival']}", "ratio"),
            ("energy of a training sample", "training_sample_energy_j"),
            ("time of an inference", "inference_latency_s"),
        ):
            row = found[*of, measure]
            ends = [float(row[end]) for end in ("value", "low", "high")]
            assert ends == pytest.approx([*contest[saved].values()])
            assert ends[1] <= ends[0] <= ends[2]
        held = sum(float(row["value"]) for key, row in found.items()
                   if key[:4] == of and row["unit"] == "bits")  # fmt: skip
        assert held == contest["memory"]["bits"]


def test_a_finished_run_is_not_done_again(
    finished: tuple[Path, str], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report of kept runs has the same numbers; another setting is another run."""
    out, given = finished[0], ["--data", str(data), *SMALL, "--seeds", "1", "--no-sweeps"]
    before = json.loads((out / "report.json").read_text())
    asked: list[int] = []

    def no_work(_: Any, jobs: list[Job], __: int) -> Iterator[tuple[int, Any]]:
        asked.append(len(jobs))
        yield from ()

    monkeypatch.setattr(command, "as_finished", no_work)
    code, printed = _run(*given, "--out", str(out), "--workers", "1")
    assert code == 0, printed
    assert "9 of 9 runs were done before" in printed
    after = json.loads((out / "report.json").read_text())
    assert {k: v for k, v in after.items() if k != "command"} == {
        k: v for k, v in before.items() if k != "command"
    }
    for other, todo in ((["--bits", "8"], 3), (["--set", "beta=0.5"], 9), (["--fresh"], 9)):
        with pytest.raises(KeyError):  # no outcome came
            _run(*given, "--out", str(out), *other)
        assert asked[-1] == todo


def test_a_torn_or_foreign_run_is_done_again(task: Task, tmp_path: Path) -> None:
    settings = changed(Settings(), ["hidden=4", "epochs=1", "batch_size=27"])
    job = Job(task, "eqprop", "crossbar", 42, settings, "a point")
    keep, outcome = Keep(tmp_path), run_job(job)
    assert keep.found(job) is None
    keep.save(job, outcome)
    found = keep.found(replace(job, label="another"))
    assert found == replace(outcome, label="another")
    assert found is not None
    assert found.curve[-1].done.events == outcome.curve[-1].done.events
    assert Keep(tmp_path, data="other").found(job) is None
    assert Keep(tmp_path, fresh=True).found(job) is None
    path = keep.path(job)
    whole = path.read_text()
    for damaged in (whole[:-9], "[]", "{}", whole.replace("curve", "curse")):
        path.write_text(damaged)
        assert keep.found(job) is None


def test_a_report_compared_with_itself_is_the_same(
    finished: tuple[Path, str], tmp_path: Path
) -> None:
    saved = str(finished[0] / "report.json")
    code, printed = _run("--compare", saved, saved, "--out", str(tmp_path))
    assert code == 0
    page = (tmp_path / "comparison.html").read_text()
    assert "training energy" in page
    assert "training energy, J" in (tmp_path / "comparison.csv").read_text()
    assert "nothing" in page.split("What differs")[-1]
    assert "training energy" in printed
    ratios = {line.split()[-1] for line in printed.splitlines() if "seed 42" in line}
    assert ratios == {"1"}


def test_counts_of_a_run_do_not_include_watching_it(task: Task) -> None:
    settings = changed(Settings(), ["hidden=6", "epochs=2", "batch_size=18", "free_steps=4"])
    outcome = run_job(Job(task, "eqprop", "digital", 42, settings))
    counts = outcome.counts_at(2)
    samples = 2 * 54  # 60 % of 90, twice
    assert counts.total("off_chip", "input") == samples * 4
    assert counts.total("mac", "input") == samples * 4 * 6
    assert counts.total("activation", "free") <= samples * (1 + 4) * 6
    inference = OpCounts.from_rows(tuple(row) for row in outcome.inference)
    assert inference.total("mac", "input") == outcome.n_test * 4 * 6
    assert inference.total("mac", "readout") == outcome.n_test * 6 * 3


def test_an_optimizer_at_the_synapses_has_no_traffic(task: Task) -> None:
    """Else a gradient word leaves for each parameter in each of three updates, and one returns."""
    few = ["hidden=6", "epochs=1", "batch_size=18", "free_steps=4"]
    job = Job(task, "eqprop", "digital", 42, changed(Settings(), few))
    local = changed(Settings(), [*few, "local_optimizer=true"])
    apart, beside = (run_job(replace(job, settings=s)).counts_at(1) for s in (job.settings, local))
    assert apart.total("off_chip", "update") == 3 * 2 * network_of(job).size
    assert beside.total("off_chip", "update") == 0
    assert apart.total("mac") == beside.total("mac")


def test_rivals_are_measured_as_they_are_priced(task: Task) -> None:
    settings = changed(Settings(), ["hidden=6", "epochs=1", "bptt_steps=3"])
    for name, steps in (("backprop", 0), ("bptt", 3)):
        outcome = run_job(Job(task, name, "crossbar", 42, settings))
        found = OpCounts.from_rows(tuple(row) for row in outcome.inference)
        assert found.total("cell_read") == 2 * outcome.n_test * (4 * 6 + steps * 36 + 6 * 3)
        assert found.total("off_chip") == outcome.n_test * (4 + 3)
        trained = outcome.counts_at(1)
        assert trained.total("off_chip", "input") == 54 * 4
        assert 0 < trained.total("weight_write") < 2 * 2 * 2 * 90  # few updates are a whole level
        assert outcome.curve[0].most_writes >= 1


def test_tuning_looks_at_the_validation_part_only(task: Task) -> None:
    jobs = tuning_jobs(task, ["digital"], changed(Settings(), SMALL[1::2]))
    grid = [(job.learner, job.settings.lr, job.settings.beta) for job in jobs if job.seed == 7]
    assert len(set(grid)) == len(grid) == len(jobs) / len(SEEDS)
    for learner in LEARNERS:  # a rival has as many learning rates as EqProp
        assert {lr for name, lr, _ in grid if name == learner} == set(LEARNING_RATES)
    assert not {job.seed for job in jobs} & set(range(FIRST_SEED, FIRST_SEED + 99))
    found = run_job(jobs[0])
    good = replace(found, curve=(replace(found.curve[-1], accuracy=1.0),))
    bad = replace(found, label="other", accuracy=2.0)
    assert choose([bad, good])["eqprop", "digital"] == (jobs[0].label, 1.0)


def test_sweeps_cover_the_published_trends(task: Task) -> None:
    jobs = sweep_jobs(task, list(CHIPS), Settings(), [1])
    labels = [job.label for job in jobs]
    assert len(set(labels)) == len(labels)
    narrow = next(job for job in jobs if job.label.startswith("10-bit"))
    assert narrow.settings.chips["digital"].weight_bits == 10
    assert narrow.settings.chips["digital"].readout_bits == 4
    assert {network_of(job) for job in jobs} == {network_of(jobs[0])}
    assert sweep_jobs(task, ["spiking"], Settings(), [1]) == []


def test_a_trend_is_seen_only_where_it_was_measured(task: Task) -> None:
    settings = changed(Settings(), ["hidden=4", "epochs=1", "batch_size=27"])
    found = run_job(Job(task, "eqprop", "crossbar", 42, settings))
    assert trends_table([replace(found, label="weights 16")]).rows == ()
    for split, expected in ((0.8, "no"), (0.3, "yes")):
        sweeps = [
            replace(found, label=defect_label(0.1, apart), accuracy=accuracy)
            for apart, accuracy in ((False, 0.82), (True, split))
        ]
        ((*_, measured, badge),) = trends_table(sweeps).rows
        assert text_of(badge) == expected
        assert "82.00" in text_of(measured)
    for least, expected in ((0.88, "no"), (0.5, "yes")):
        scores = {"1.2": least, "10": 0.89, "100": 0.9}
        sweeps = [
            replace(found, label=f"Roff/Ron {ratio}", accuracy=accuracy)
            for ratio, accuracy in scores.items()
        ]
        enough, far_below = trends_table(sweeps).rows
        assert (text_of(enough[-1]), text_of(far_below[-1])) == ("yes", expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--bits", "0"], "weight_bits 0, expected 2 to 24 whole bits"),
        (["--bits", "8", "8", "8"], "--bits takes one or two widths"),
        (["--set", "crossbar.read_noise=-1"], "read_noise -1.0, expected from 0"),
        (["--set", "crossbar.nothing=1"], "there is no such setting"),
        (["--neurons-per-core", "0"], "neurons_per_core is 0, expected at least 1"),
        (["--neurons-per-core", "10000000000"], "is beyond 1e+09"),
        (["--set", "quantum.bits=1"], "no substrate 'quantum'"),
        (["--set", "epochs"], "expected key=value"),
        (["--set", "epochs=two"], "'two' is no whole number"),
        (["--set", "epochs=0"], "epochs is 0, expected at least 1"),
        (["--set", "looks=0"], "looks is 0, expected at least 1"),
        (["--set", "hiden=3"], "cap_every, local_optimizer, bptt_steps; did you mean hidden?\n"),
        (["--explain", "thought"], "nothing called 'thought' has a price; known: mac"),
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


@pytest.mark.parametrize("target", ["nan", "inf", "-1", "0", "101", "1e400", "most"])
def test_a_target_that_no_learner_can_reach_is_refused_before_the_work(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--target", target])
    assert stopped.value.code == 2
    assert f"'{target}' is not a number above 0 and up to 100" in capsys.readouterr().err


def test_a_price_without_a_unit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(
        '[mine]\ntitle = "Mine"\n[mine.energy]\nmac = { value = 1.0, low = 1, high = 1 }'
    )
    code, printed = _run("--technology", str(path))
    assert code == 2
    assert "energy of 'mac' has no unit" in printed


def test_an_architecture_of_sanafe_is_a_technology(tmp_path: Path) -> None:
    """It is read under its own name, and has no price for cells."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is an extra")
    path = tmp_path / "chip.yaml"
    path.write_text(yaml.safe_dump({"architecture": CHIP}))
    code, printed = _run("--substrate", "crossbar", "--technology", str(path))
    assert code == 2
    assert "technology 'mine' has no energy price for 'cell_read'" in printed


def test_an_open_learning_rate_is_the_tuned_one_and_a_given_one_stays(task: Task) -> None:
    for name, chip in CHIPS.items():
        assert set(chip.tuned) <= set(NETWORKS)
        for network, rates in chip.tuned.items():
            assert set(rates) == set(LEARNERS)
            for learner, rate in rates.items():
                assert Settings().chosen(learner, name, network).lr == rate
                assert Settings(lr=0.5).chosen(learner, name, network).lr == 0.5
        assert Settings().chosen("bptt", name, "other").lr == chip.tuned["looped"]["bptt"]
    quick = Settings(hidden=4, epochs=1)
    found, tuned, other = (
        run_job(Job(task, "eqprop", "digital", 0, replace(quick, lr=rate)))
        for rate in (None, CHIPS["digital"].tuned["looped"]["eqprop"], 0.5)
    )
    assert found.curve == tuned.curve != other.curve


def test_settings_are_set_by_name() -> None:
    found = changed(Settings(), ["digital.readout_bits=4", "crossbar.split_arrays=true", "lr=0.1"])
    assert found.chips["digital"].readout_bits == 4
    assert found.chips["crossbar"].split_arrays is True
    assert found.lr == 0.1
    assert changed(found, ["digital.readout_bits=none"]).chips["digital"].readout_bits is None
    with pytest.raises(EngineError, match="'maybe' is neither true nor false"):
        changed(found, ["crossbar.split_arrays=maybe"])


def test_values_are_printed_with_their_prefix() -> None:
    assert in_units(3.21e-6, "J") == "3.21 µJ"
    assert in_units(0.0, "J") == "0 J"
    assert in_units(2.5e-16, "J") == "0.25 fJ"
