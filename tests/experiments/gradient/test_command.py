"""The gradient of a saved network, block by block, against autograd."""

import re
from pathlib import Path

import numpy as np
import pytest

from adapters.torch_autograd import implicit_gradient
from experiments.gradient.__main__ import main
from experiments.gradient.command import agreements
from experiments.saved_network import read_network
from experiments.vision.gradient import exact_gradient
from tests.experiments.saved_networks import NAMES, clusters, trained, write_csv


def _cosines(text: str) -> dict[str, float]:
    found = re.findall(r"│ (\w+) +│ +[\d,]+ +│ +(-?[\d.]+)", text)
    return {name: float(cosine) for name, cosine in found}


def _labelled(folder: Path) -> Path:
    x, y = clusters()
    return write_csv(folder / "mine.csv", x, [NAMES[k] for k in y])


def test_each_block_is_compared_and_a_rough_estimate_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, data = trained(tmp_path), _labelled(tmp_path)
    assert main([str(network), str(data)]) == 0
    printed = capsys.readouterr().out
    fine = _cosines(printed)
    assert set(fine) == {"all", "W_in", "b", "W_rec", "W_out", "b_out"}
    assert min(fine.values()) > 0.99
    assert "90 samples" in printed
    assert main([str(network), str(data), "--estimator", "one_sided", "--beta", "50"]) == 0
    rough = _cosines(capsys.readouterr().out)
    assert rough["W_in"] < fine["W_in"]
    assert rough["W_out"] == pytest.approx(1.0, abs=1e-4)  # that of the free state has no nudge


def test_the_exact_gradient_is_that_of_the_implicit_function_theorem(tmp_path: Path) -> None:
    saved, (x, y) = read_network(trained(tmp_path)), clusters(12)
    params, targets = saved.params.astype(float), np.eye(3)[y]
    inputs = saved.inputs(x).astype(float)
    trusted = implicit_gradient(params.network, params, inputs, targets)
    np.testing.assert_allclose(exact_gradient(params, inputs, targets), trusted, atol=1e-7)
    whole, *blocks = agreements(saved, 2 * trusted, trusted)
    assert whole.cosine == pytest.approx(1.0)
    assert {round(row.error, 9) for row in blocks} == {1.0}
    assert sum(row.size for row in blocks) == whole.size


def test_samples_without_labels_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, data = trained(tmp_path), write_csv(tmp_path / "new.csv", clusters()[0])
    assert main([str(network), str(data)]) == 2
    assert "the file has no labels" in capsys.readouterr().out
