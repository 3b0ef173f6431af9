import csv
import json

import numpy as np
import pytest

from experiments.addition import data, seed_run
from experiments.addition.checkpoint import load_checkpoint
from experiments.addition.config import AdditionError, ModelConfig, TrainConfig
from experiments.addition.seed_run import MetricRow, SeedRun
from experiments.addition.train import train_runs
from tests.experiments.addition.addition_cases import PUBLISHED

TRAIN = TrainConfig(seed=3, train_steps=25, batch_size=32, eval_interval=10)


@pytest.fixture(autouse=True)
def small_holdout(monkeypatch):
    monkeypatch.setattr(data, "VALIDATION_SIZE", 40)
    monkeypatch.setattr(data, "TEST_SIZE", 60)


def a_run(folder, train=TRAIN, model=PUBLISHED, *, fresh=False):
    return SeedRun(folder, model, train, "cpu", fresh=fresh)


def metrics_without_time(folder):
    with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return [row[:-1] for row in csv.reader(file)]


def test_a_run_leaves_its_files(tmp_path):
    (summary,) = train_runs([a_run(tmp_path)])
    rows = metrics_without_time(tmp_path)
    assert rows[0] == ["step", "train_loss", "val_exact", "val_token_acc", "lr"]
    assert [row[0] for row in rows[1:]] == ["0", "10", "20", "24"]
    assert float(rows[2][4]) == TRAIN.rate(10)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert (summary["params"], summary["steps"], summary["grokked"]) == (456, 25, False)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["train"]["seed"], config["model"]["tie_qkv"]) == (3, "shareA_tieKV")
    last = load_checkpoint(tmp_path / "checkpoints" / "last.pt")
    assert (last.step, last.params) == (24, 456)
    best = load_checkpoint(tmp_path / "checkpoints" / "best.pt")
    assert (best.step, best.val_exact) == (summary["best_step"], summary["best_val_exact"])
    assert not list(tmp_path.rglob("*.part"))


def interrupt(after):
    def watch(run, metric):
        if metric.step >= after:
            raise KeyboardInterrupt

    return watch


@pytest.mark.parametrize("after", [0, 10, 20])
def test_an_interrupted_run_ends_as_if_it_had_not_been(tmp_path, after):
    train_runs([a_run(tmp_path / "whole")])
    with pytest.raises(KeyboardInterrupt):
        train_runs([a_run(tmp_path / "cut")], interrupt(after))
    resumed = a_run(tmp_path / "cut")
    assert resumed.step == after + 1
    train_runs([resumed])
    whole, cut = (load_checkpoint(tmp_path / n / "checkpoints/last.pt") for n in ("whole", "cut"))
    assert np.array_equal(whole.flat, cut.flat)
    assert np.array_equal(whole.training["moments"], cut.training["moments"])
    assert metrics_without_time(tmp_path / "whole") == metrics_without_time(tmp_path / "cut")


def test_a_row_written_after_the_last_checkpoint_is_taken_back(tmp_path, monkeypatch):
    """The interrupt comes between the two files."""
    train_runs([a_run(tmp_path / "whole")])
    save = seed_run.save_checkpoint

    def fail(path, checkpoint, train):
        if path.name == "last.pt" and checkpoint.step == 20:
            raise KeyboardInterrupt
        save(path, checkpoint, train)

    monkeypatch.setattr(seed_run, "save_checkpoint", fail)
    with pytest.raises(KeyboardInterrupt):
        train_runs([a_run(tmp_path / "cut")])
    monkeypatch.setattr(seed_run, "save_checkpoint", save)
    assert metrics_without_time(tmp_path / "cut")[-1][0] == "20"
    resumed = a_run(tmp_path / "cut")
    assert (resumed.step, resumed.metrics[-1].step) == (11, 10)
    train_runs([resumed])
    assert metrics_without_time(tmp_path / "whole") == metrics_without_time(tmp_path / "cut")


def test_a_finished_run_is_not_repeated_and_a_fresh_one_is(tmp_path):
    train_runs([a_run(tmp_path)])
    told = []
    train_runs([a_run(tmp_path)], lambda run, metric: told.append(metric))
    assert told == []
    train_runs([a_run(tmp_path, fresh=True)], lambda run, metric: told.append(metric))
    assert [metric.step for metric in told] == [0, 10, 20, 24]


def test_other_settings_in_the_same_folder_are_refused(tmp_path):
    train_runs([a_run(tmp_path)])
    for train, model in (
        (TrainConfig(seed=3, train_steps=26, batch_size=32, eval_interval=10), PUBLISHED),
        (TRAIN, ModelConfig(d_model=4)),
    ):
        with pytest.raises(AdditionError, match="other settings"):
            a_run(tmp_path, train, model)


def test_a_checkpoint_that_cannot_be_taken_up_is_refused(tmp_path):
    train_runs([a_run(tmp_path)])
    for wrong, message in (("step\nfirst\n", "cannot be taken up"), ("step\n", "is empty")):
        (tmp_path / "metrics.csv").write_text(wrong)
        with pytest.raises(AdditionError, match=message):
            a_run(tmp_path)
    (tmp_path / "checkpoints" / "last.pt").write_bytes(b"torn")
    with pytest.raises(AdditionError, match="no usable checkpoint"):
        a_run(tmp_path)


def test_a_stack_and_single_runs_agree_on_the_same_seeds(tmp_path):
    settings = [TrainConfig(seed=s, train_steps=4, batch_size=16, eval_interval=2) for s in (1, 2)]
    stacked = train_runs([a_run(tmp_path / f"both{t.seed}", t) for t in settings])
    single = [train_runs([a_run(tmp_path / f"one{t.seed}", t)])[0] for t in settings]
    for one, other in zip(stacked, single, strict=True):
        assert one["seed"] == other["seed"]
        flats = [
            load_checkpoint(tmp_path / f"{name}{one['seed']}" / "checkpoints/last.pt").flat
            for name in ("both", "one")
        ]
        assert np.array_equal(*flats)


def test_runs_of_a_stack_that_stand_at_different_steps_all_finish(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train_runs([a_run(tmp_path / "early")], interrupt(10))
    other = TrainConfig(**{**vars(TRAIN), "seed": 4})
    pair = [a_run(tmp_path / "early"), a_run(tmp_path / "new", other)]
    assert [summary["steps"] for summary in train_runs(pair)] == [25, 25]


def test_a_run_stops_after_enough_evaluations_without_error(tmp_path):
    train = TrainConfig(**{**vars(TRAIN), "stop_after": 2})
    run = a_run(tmp_path, train)
    for step, exact in ((0, 1.0), (10, 0.9), (20, 1.0)):
        run.metrics.append(MetricRow(step, 0.0, exact, 1.0, 0.0, 0.0))
        assert not run.finished
    run.metrics.append(MetricRow(24, 0.0, 1.0, 1.0, 0.0, 0.0))
    assert run.finished


def test_a_loss_that_is_not_finite_stops_with_a_sentence(tmp_path):
    run = a_run(tmp_path)
    run.flat[0] = np.nan
    with pytest.raises(AdditionError, match="not finite at step 0"):
        train_runs([run])
    assert not (tmp_path / "checkpoints").exists()
