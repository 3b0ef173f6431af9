"""A saved network answers for raw samples as its engine does for scaled ones."""

import csv
from pathlib import Path

import numpy as np
import pytest

from engine import NumbaBackend, predict_proba
from engine.learning import checkpoint
from experiments.predict.__main__ import main
from tests.experiments.saved_networks import NAMES, clusters, trained, write_csv


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
