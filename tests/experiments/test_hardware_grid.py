"""A grid of settings from end to end, on a small task; and what it refuses."""

import csv
import io
import json
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments.hardware import command
from experiments.hardware.__main__ import main

SMALL = ["--set", "hidden=6", "--set", "epochs=2", "--set", "batch_size=8", "--workers", "1"]
AXES = {"weight_bits": ("4", "10"), "state_bits": ("6", "10")}
SWEEP = ["--sweep", *(f"{name}={','.join(values)}" for name, values in AXES.items())]


def run(*given: str) -> tuple[int, str]:
    with redirect_stdout(io.StringIO()) as printed:
        code = main(list(given))
    return code, printed.getvalue()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clouds that a line almost separates."""
    rng, y = np.random.default_rng(0), np.arange(90) % 3
    path = tmp_path_factory.mktemp("grid") / "clouds.npz"
    np.savez(path, x=rng.standard_normal((90, 4)) + 2.0 * np.eye(4)[y], y=y)
    return path


@pytest.fixture(scope="module")
def finished(data: Path) -> tuple[Path, str]:
    out = data.parent / "out"
    given = ["--data", str(data), *SMALL, *SWEEP, "--seeds", "2", "--out", str(out)]
    code, printed = run(*given, "--technology", "digital_45nm", "--technology", "gpu")
    assert code == 0, printed
    return out, printed


def test_every_point_is_trained_and_priced_in_every_technology(finished: tuple[Path, str]) -> None:
    out, printed = finished
    content = json.loads((out / "sweep.json").read_text())
    places = [tuple(point["settings"].values()) for point in content["points"]]
    assert places == 2 * list(product(*AXES.values()))
    assert len(content["runs"]) == 4 * 2
    for point in content["points"]:
        weight, state = map(int, point["settings"].values())
        chips = [(run, run["settings"]["digital"]) for run in content["runs"]]
        runs = [run for run, chip in chips
                if (chip["weight_bits"], chip["state_bits"]) == (weight, state)]  # fmt: skip
        assert point["accuracies"] == {str(run["seed"]): run["accuracy"] for run in runs}
        energy = point["inference_energy_j"]
        assert energy["low"] <= energy["nominal"] <= energy["high"]
    assert "the most accurate point is" in printed
    page = (out / "sweep.html").read_text()
    for part in ("What was priced", "network of EqProp", "Accuracy, energy", "On the front"):
        assert part in page
    assert (out / "plots" / "network.svg").is_file()
    assert "Trainings until worn out" not in page  # nothing wears on digital logic


def test_wider_words_take_more_memory_and_dearer_products(finished: tuple[Path, str]) -> None:
    """Whatever they do to accuracy and to the number of steps."""
    points = json.loads((finished[0] / "sweep.json").read_text())["points"]
    at = {(p["technology"], *p["settings"].values()): p for p in points}
    for state in AXES["state_bits"]:
        narrow, wide = (at["digital_45nm", weight, state] for weight in AXES["weight_bits"])
        assert narrow["memory_bits"] < wide["memory_bits"]
        assert narrow["area_m2"]["nominal"] < wide["area_m2"]["nominal"]
    assert at["gpu", "4", "6"]["area_m2"] is None


def test_the_table_of_numbers_holds_those_of_the_file(finished: tuple[Path, str]) -> None:
    rows = list(csv.DictReader((finished[0] / "sweep.csv").read_text().splitlines()))
    points = json.loads((finished[0] / "sweep.json").read_text())["points"]
    for point in points:
        setting = ", ".join(f"{k}={v}" for k, v in point["settings"].items())
        (row,) = [r for r in rows if (r["technology"], r["setting"], r["measure"])
                  == (point["technology"], setting, "energy of an inference")]  # fmt: skip
        found = [float(row[end]) for end in ("value", "low", "high")]
        assert found == pytest.approx([*point["inference_energy_j"].values()])


@pytest.mark.parametrize("converts", ["true", "false"])
def test_a_point_is_priced_as_the_report_prices_it(data: Path, converts: str) -> None:
    """Also where states stay analog, and bills hold the time of settling in place of steps."""
    out = data.parent / f"analog_{converts}"
    given = ["--data", str(data), *SMALL, "--substrate", "crossbar", "--seeds", "2"]
    given += ["--out", str(out)]
    setting = f"crossbar.convert_each_step={converts}"
    assert run(*given, "--set", setting, "--no-sweeps")[0] == 0
    code, printed = run(*given, "--sweep", f"convert_each_step={converts}")
    assert code == 0
    assert "2 of 2 runs were done before" in printed
    contest = json.loads((out / "report.json").read_text())["contests"][0]
    (point,) = json.loads((out / "sweep.json").read_text())["points"]
    for cost in ("inference_energy_j", "inference_latency_s", "area_m2"):
        assert point[cost] == pytest.approx(contest[cost])


def test_a_wider_grid_does_only_what_is_new(
    finished: tuple[Path, str], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def no_work(_: object, jobs: list[object], __: int) -> list[tuple[int, object]]:
        asked.append(len(jobs))
        return []

    monkeypatch.setattr(command, "as_finished", no_work)
    given = ["--data", str(data), *SMALL, "--seeds", "2", "--out", str(finished[0])]
    with pytest.raises(KeyError):  # no outcome came
        run(*given, "--sweep", "weight_bits=4,10,12", "state_bits=6,10")
    assert asked == [2 * 2]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["nothing=1,2"], "--sweep nothing: there is no such setting; known: hidden"),
        (["weight_bits=4", "adc_bits=4"], "no chip has all of weight_bits, adc_bits."),
        (["seed=1,2"], "--sweep seed: there is no such setting; known"),
        (["weigth_bits=4"], "did you mean weight_bits?"),
        (["weight_bits=4,99"], "--sweep at weight_bits 99: the digital substrate has weight_bits"),
        (["weight_bits=4,x"], "at weight_bits x: digital.weight_bits: 'x' is no whole number."),
        (["epochs=0"], "epochs is 0, expected at least 1"),
        ([f"weight_bits={','.join(map(str, range(2, 25)))}",
          f"table_bits={','.join(map(str, range(2, 21)))}"], "--sweep has 437 points"),
    ],
)  # fmt: skip
def test_a_bad_grid_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed = run("--sweep", *given)
    assert code == 2
    assert printed.startswith("Error: ")
    assert sentence in printed
    assert printed.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_chip_without_the_setting_is_refused_if_it_was_asked_for() -> None:
    code, printed = run("--substrate", "crossbar", "--sweep", "weight_bits=4,8")
    assert code == 2
    assert "the crossbar chip does not have all of weight_bits" in printed
