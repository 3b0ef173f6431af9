"""Numbers to be predicted: the same contestants, networks that are read as they settle, and R²."""

import io
import json
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from adapters.torch_autograd import implicit_gradient
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.estimator import centered, estimate
from engine.model.params import initial_params
from experiments.parity.__main__ import main
from experiments.parity.baselines import FeedForward
from experiments.parity.contestants import ParityJob, run_job
from experiments.parity.roster import CONTESTANTS, CONTROLS
from experiments.tasks import Task
from experiments.tasks.files import NumberTable, load_table
from tests.experiments.parity.parity_cases import QUICK, timeless

SLOPE = np.array([1.0, -2.0, 0.5])
LEARNS = replace(QUICK, hidden=24, epochs=25, lr=0.02)


def make_numbers(samples=80, scale=1.0):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, 3))
    return x, scale * (x @ SLOPE + 0.3 * rng.normal(size=samples)) + 40.0


def make_task(scale=1.0):
    table = NumberTable(*make_numbers(scale=scale), ())
    return Task("line", "Line", 3, 1, partial(load_table, table), continuous=True)


def make_job(contestant, **changes):
    scale, final = changes.pop("scale", 1.0), changes.pop("final", True)
    return ParityJob(make_task(scale), contestant, 42, replace(LEARNS, **changes), final)


@pytest.mark.parametrize("name", CONTESTANTS)
def test_every_contestant_fits_a_line_as_well_as_a_line_does(name):
    record = run_job(make_job(name))
    split = make_task().load(42).joined()
    line = LinearRegression().fit(split.x_train, split.y_train)
    assert record.metric == "r2"
    assert record.accuracy > line.score(split.x_test, split.y_test) - 0.08
    assert record.p_chance < 0.01
    assert record.cost == pytest.approx(
        (1 - record.accuracy) * split.y_test.var(ddof=0) / 2, rel=1e-4
    )


@pytest.mark.parametrize("name", ["eqprop_layered", "backprop_feedforward"])
def test_the_unit_of_the_target_does_not_matter(name):
    first, second = (timeless(run_job(make_job(name, scale=s, epochs=2))) for s in (1.0, 1000.0))
    assert second["accuracy"] == pytest.approx(first["accuracy"], abs=1e-3)


@pytest.mark.parametrize("name", ["eqprop_looped", "eqprop_layered"])
@pytest.mark.parametrize("activation", ["tanh", "hard_sigmoid"])
def test_the_local_rule_finds_the_exact_gradient_of_the_squared_error(name, activation):
    job = make_job(name, activation=activation, layers=3)
    network, split = job.network, job.task.load(0)
    params = initial_params(network, np.random.default_rng(0)).astype(np.float64)
    job.training.spectral_cap.enforce(network, params, 0, {})
    x, y = split.x_train[:20], split.y_train[:20]
    backend, closely = NumbaBackend(network, params), Relaxation(2000, 1e-13)
    gradient = np.zeros(network.size)
    estimate(backend, backend.clamp(x, y), centered(1e-3), gradient, closely, closely)
    exact = implicit_gradient(network, params, x, y, closely)
    cosine = gradient @ exact / np.linalg.norm(gradient) / np.linalg.norm(exact)
    assert cosine > 1 - 1e-5


def test_contestants_have_the_same_size():
    sizes = {make_job(name).network.size for name in ("eqprop_looped", "eqprop_layered")}
    sizes.add(FeedForward(make_job("eqprop_looped").sizes, "tanh", 0, continuous=True).size)
    assert max(sizes) - min(sizes) <= LEARNS.hidden  # a layer more has its biases


def test_the_controls_learn_less_than_what_they_lack():
    scores = {name: run_job(make_job(name)).accuracy for name in ("eqprop_looped", *CONTROLS)}
    assert scores["flipped_sign"] < 0.5 < scores["eqprop_looped"]
    assert scores["readout_only"] < scores["eqprop_looped"] + 0.02


def test_tuning_never_touches_the_test_part():
    record = run_job(make_job("eqprop_layered", final=False, epochs=1))
    assert record.n_test == len(make_task().load(42).y_valid)


def test_the_command_reports_r2(tmp_path):
    x, y = make_numbers()
    path, out = tmp_path / "line.csv", tmp_path / "out"
    rows = [
        ";".join(f"{value:.6f}" for value in (*row, target))
        for row, target in zip(x, y, strict=True)
    ]
    path.write_text("a;b;c;height\n" + "\n".join(rows))
    given = ["--data", str(path), "--out", str(out), "--seeds", "2", "--workers", "1"]
    given += ["--set", "hidden=8", "epochs=2", "--margin", "0.04"]
    with redirect_stdout(io.StringIO()) as printed:
        assert main(given) == 0
    said = printed.getvalue()
    assert "line.csv: 80 samples, 3 inputs, 'height' to be predicted as a number" in said
    assert "R² on the test part (1 is perfect, 0 is what the mean has)" in said
    for absent in ("published", "Percent", "percentage points", "MNIST", "Majority"):
        assert absent not in said
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    (task,) = results["summary"]["tasks"]
    assert task["metric"] == "r2"
    assert task["judgements"]["eqprop_looped"]["comparison"]["margin"] == 0.04
    page = (out / "report.md").read_text(encoding="utf-8")
    assert "±0.040" in page
    assert "## R²" in page
    for absent in ("Accuracy", "dotted line is the goal"):
        assert absent not in page
