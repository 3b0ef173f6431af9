"""A saved network answers for raw samples as its engine does for scaled ones."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from engine import NumbaBackend, predict_proba
from engine.learning import checkpoint
from experiments.gradient.__main__ import main as gradient
from experiments.parity.contestants import ParityJob, run_job
from experiments.parity.settings import USER_BUDGET
from experiments.predict.__main__ import main
from experiments.saved_network import FEED_FORWARD
from experiments.tasks import task_from_file
from tests.experiments.saved_networks import NAMES, clusters, trained, write_csv

Capture: TypeAlias = pytest.CaptureFixture[str]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_answers_are_those_of_the_engine_on_scaled_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, (x, y) = trained(tmp_path), clusters()
    data, out = write_csv(tmp_path / "new.csv", x), tmp_path / "answers.csv"
    assert main([str(network), str(data), "--out", str(out), "--probabilities"]) == 0
    params = checkpoint.load(network)[0]
    scaled = ((x.round(6) - x.mean(0)) / x.std(0)).astype(np.float32)
    shares = predict_proba(NumbaBackend(params.network, params), scaled)
    rows = _rows(out)
    assert [row["predicted"] for row in rows] == [NAMES[k] for k in shares.argmax(1)]
    found = np.array([[float(row[f"p_{name}"]) for name in NAMES] for row in rows])
    np.testing.assert_allclose(found, shares, atol=2e-6)
    assert "label" not in rows[0]
    assert "right" not in capsys.readouterr().out
    assert (shares.argmax(1) == y).mean() > 0.9


def test_labels_that_are_there_are_counted_and_an_index_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, (x, y) = trained(tmp_path), clusters(30)
    names = [NAMES[k] for k in y]
    names[0] = "bee"  # a wrong one
    data = tmp_path / "new.csv"
    lines = [f"{k},{a:.6f},{b:.6f},{n}" for k, ((a, b), n) in enumerate(zip(x, names, strict=True))]
    data.write_text("\n".join(["id,width,height,kind", *lines]) + "\n")
    out = tmp_path / "answers.csv"
    assert main([str(network), str(data), "--label", "kind", "--out", str(out)]) == 0
    rows = _rows(out)
    right = np.mean([row["predicted"] == row["label"] for row in rows])
    assert right < 1.0
    assert f"{right:.2%} of 30 samples are right" in capsys.readouterr().out


def test_an_archive_without_labels_and_a_network_without_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, (x, _) = trained(tmp_path, told=False), clusters(6)
    data, out = tmp_path / "new.npz", tmp_path / "answers.csv"
    np.savez(data, x=(x - x.mean(0)) / x.std(0))
    assert main([str(network), str(data), "--out", str(out)]) == 0
    assert {row["predicted"] for row in _rows(out)} <= {"0", "1", "2"}
    assert "does not say how inputs were scaled" in capsys.readouterr().out


def test_numbers_are_predicted_in_the_units_of_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = 1000.0 + 50.0 * x[:, 0] - 20.0 * x[:, 1]
    data, out = tmp_path / "prices.csv", tmp_path / "answers.csv"
    lines = [f"{a:.6f},{b:.6f},{c:.6f}" for (a, b), c in zip(x, y, strict=True)]
    data.write_text("\n".join(["width,height,price", *lines]) + "\n")
    settings = replace(USER_BUDGET, hidden=8, epochs=30, lr=0.02)
    network = tmp_path / "network.npz"
    task = task_from_file(data, target=None)
    run_job(ParityJob(task, "eqprop_looped", 42, settings, weights=network))
    assert main([str(network), str(data), "--out", str(out)]) == 0
    found = np.array([[float(row["predicted"]), float(row["label"])] for row in _rows(out)])
    np.testing.assert_allclose(found[:, 1], y, atol=1e-5)
    r2 = 1.0 - ((found[:, 0] - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert r2 > 0.9
    assert f"R² over 60 samples: {r2:.3f}" in capsys.readouterr().out
    cost = _cost_of(gradient, [str(network), str(data)], capsys)
    assert cost == pytest.approx((1.0 - r2) * y.var() / (2 * _scale(network) ** 2), rel=0.02)
    data.write_text("1,2,red\n3,4,red\n")
    assert main([str(network), str(data), "--label", "3", "--out", str(out)]) == 2
    assert "label 'red', but the network predicts numbers" in capsys.readouterr().out


def _cost_of(command: Callable[..., int], words: list[str], capsys: Capture) -> float:
    assert command([*words, "--samples", "60"]) == 0
    return float(capsys.readouterr().out.partition("cost ")[2].partition(";")[0])


def _scale(network: Path) -> float:
    return float(json.loads(checkpoint.load(network)[2])["target_scale"])


def test_answers_never_replace_what_they_are_made_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, data = trained(tmp_path), write_csv(tmp_path / "new.csv", clusters()[0])
    before = network.read_bytes(), data.read_bytes()
    for out in (data, network, tmp_path / "." / "new.csv"):
        assert main([str(network), str(data), "--out", str(out)]) == 2
        assert "would overwrite" in capsys.readouterr().out
    assert (network.read_bytes(), data.read_bytes()) == before


def test_a_file_that_is_no_network_that_relaxes_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "new.npz"
    np.savez(data, x=clusters()[0])
    assert main([str(data), str(data)]) == 2
    assert "is no Settle checkpoint: it holds 'x'." in capsys.readouterr().out
    path = tmp_path / "mlp.npz"
    np.savez(path, head=np.array(json.dumps({"format": FEED_FORWARD, "settings": ""})))
    assert main([str(path), str(data)]) == 2
    assert "is a feed-forward network, which does not relax" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"data": "width,height,depth,kind\n1,2,3,ant\n1,2,4,bee\n"}, "has 3 inputs"),
        ({"data": "width,height,kind\n1,2,dog\n1,2,ant\n", "label": "kind"}, "label 'dog'"),
        ({"data": "width,height\n1,x\n1,2\n"}, "holds 'x' in line 2"),
        ({"data": "width,height\n1,2\n", "label": "breed"}, "has no column 'breed'"),
        ({"scale": [1.0, 0.0]}, "scales an input by 0"),
        ({"mean": [1.0, 2.0, 3.0]}, "has a mean of shape (3,)"),
        ({"names": ["ant"]}, "names 1 classes"),
        ({"target_scale": 0.0}, "scales its target by 0 from 0"),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict, sentence: str
) -> None:
    text, label = change.pop("data", "width,height\n1,2\n"), change.pop("label", None)
    network, data, out = trained(tmp_path, **change), tmp_path / "new.csv", tmp_path / "o" / "a.csv"
    data.write_text(text)
    said = ["--label", label] if label else []
    code = main([str(network), str(data), *said, "--out", str(out)])
    printed = capsys.readouterr().out
    assert sentence in printed
    assert code == 2
    assert not out.exists()
