"""The playground command: what it writes, from what, and what it refuses."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from engine import (
    NumbaBackend,
    Relaxation,
    conv_net,
    energy_transformer,
    initial_params,
    layered,
    looped_mlp,
    predict,
    recurrent_norm,
    resistive,
    save,
)
from experiments.playground.__main__ import main
from experiments.playground.agreement import Knobs, agreement_cases, changed, rounded
from experiments.playground.choices import VIEWS
from experiments.playground.described import check_drawable
from experiments.playground.page import SCRIPTS
from experiments.tasks import TASKS, find_task
from settle.packages import ROOT

DIGITS = find_task("digits")
FEW = ["--epochs", "1", "--hidden", "8"]


class Addresses(HTMLParser):
    """Collect whatever an element refers to, and the data of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.found += [given[k] for k in ("src", "href", "srcset", "data", "action") if k in given]
        assert not any(name.startswith("on") for name in given)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]


def described(page: str) -> dict:
    """Return the data inside a page."""
    (text,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def unpacked(block: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(block["base64"]), f"<{np.dtype(block['dtype']).str[1:]}")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    assert main([*FEW, "--out", str(folder)]) == 0
    assert [path.name for path in folder.iterdir()] == ["playground.html"]
    return (folder / "playground.html").read_text(encoding="utf-8")


def test_the_page_needs_nothing_else(page):
    checker = Addresses()
    checker.feed(page)
    assert checker.found == []
    assert checker.policy.startswith("default-src 'none'; script-src 'sha256-")
    for word in ("http:", "https:", "url(", "@import", "import(", "fetch(", "{{"):
        assert word not in page
    assert len(page) < 300_000


def test_the_page_says_how_many_test_pictures_are_right(tmp_path, capsys):
    params = initial_params(looped_mlp(64, 8, 10), np.random.default_rng(5))
    save(tmp_path / "a.npz", params)
    assert main(["--network", str(tmp_path / "a.npz"), "--seed", "3", "--out", str(tmp_path)]) == 0
    split = DIGITS.load(3)
    right = (predict(NumbaBackend(params.network, params), split.x_test) == split.y_test).mean()
    said = f"recognises {100 * right:.1f}\N{NO-BREAK SPACE}% of 360 test pictures"
    assert said in capsys.readouterr().out
    assert said in (tmp_path / "playground.html").read_text(encoding="utf-8")


def test_the_same_command_writes_the_same_page(page, tmp_path, capsys):
    assert main([*FEW, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "playground.html").read_text(encoding="utf-8") == page
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == f"Open in a browser: {tmp_path / 'playground.html'}"


def test_samples_are_a_test_picture_of_every_class(page):
    samples = described(page)["samples"]
    assert [sample["label"] for sample in samples] == list(range(10))
    raw = {tuple(row) for row in np.rint(_raw(DIGITS.load(42))).astype(int).tolist()}
    assert all(tuple(map(int, sample["pixels"])) in raw for sample in samples)


def _raw(split):
    return split.x_test * split.scale + split.mean


def test_every_script_is_in_the_page():
    held = {path.stem for path in (ROOT / "experiments/playground/page").glob("*.js")}
    assert held == set(SCRIPTS)


def test_a_saved_network_is_in_the_page_bit_for_bit(tmp_path):
    params = initial_params(layered((64, 7, 5, 10)), np.random.default_rng(3))
    save(tmp_path / "mine.npz", params)
    given = ["--network", str(tmp_path / "mine.npz"), "--out", str(tmp_path)]
    assert main(given) == 0
    page = (tmp_path / "playground.html").read_text(encoding="utf-8")
    network = described(page)["network"]
    by_target = {
        (link["source"], link["target"]): unpacked(link["weights"]) for link in network["links"]
    }
    assert np.array_equal(by_target["layer1", "layer2"], params["W_2"].ravel())
    assert np.array_equal(unpacked(network["readout"]["weights"]), params["W_out"].ravel())
    assert network["norm"] == pytest.approx(recurrent_norm(params))
    assert "was read from mine.npz" in page
    assert "it may have learnt from some of them" in page


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (looped_mlp(63, 4, 10), "63 inputs and 10 outputs, but task 'digits' has 64 and 10"),
        (looped_mlp(64, 4, 2), "64 inputs and 2 outputs"),
        (conv_net((8, 8, 1), (4, 4), 10, pooling="mean"), "(InputConvolution) is no matrix"),
        (resistive((64, 5, 10)), "(InputConductance) is no matrix"),
        (energy_transformer(5, 64, 4, outputs=2), "64 inputs and 128 outputs"),
        (looped_mlp(64, 1000, 10), "1,065,000 numbers; a page holds 1,000,000"),
    ],
)
def test_a_network_that_the_page_cannot_show_is_one_sentence(network, said, tmp_path, capsys):
    params = initial_params(network, np.random.default_rng(0))
    save(tmp_path / "mine.npz", params)
    before = sorted(tmp_path.iterdir())
    assert main(["--network", str(tmp_path / "mine.npz"), "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr().out
    assert said in printed
    assert printed.startswith("Error: ")
    assert printed.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_saved_network_is_not_trained(tmp_path, capsys):
    save(tmp_path / "a.npz", initial_params(looped_mlp(64, 4, 10), np.random.default_rng(0)))
    with pytest.raises(SystemExit) as refused:
        main(["--network", str(tmp_path / "a.npz"), "--hidden", "4", "--out", str(tmp_path)])
    assert refused.value.code == 2
    assert "leave --hidden and --epochs out" in capsys.readouterr().err


def test_every_view_is_of_a_task_of_that_size():
    for name, view in VIEWS.items():
        assert TASKS[name].image == (view.size, view.size, 1)
        check_drawable(looped_mlp(view.size**2, 4, 10), TASKS[name])


def test_knobs_change_what_they_say():
    params = initial_params(layered((64, 9, 6, 10)), np.random.default_rng(1), np.float64)
    assert recurrent_norm(changed(params, Knobs(norm=0.4))) == pytest.approx(0.4)
    coarse = changed(params, Knobs(weightBits=2))
    for name in ("W_1", "W_2", "W_out"):
        assert len(np.unique(coarse[name])) <= 3
    assert np.array_equal(coarse["b_1"], params["b_1"])
    assert np.array_equal(changed(params, Knobs()).theta, params.theta)


@pytest.mark.parametrize("signed", [True, False])
def test_rounding_takes_the_nearest_of_its_numbers(signed):
    values = np.linspace(-0.1 if not signed else -1.1, 1.1, 1001)
    found = rounded(values, 4, 1.0, signed=signed)
    grid = np.arange(-7, 8) / 7 if signed else np.arange(16) / 15
    nearest = np.abs(values[:, None] - grid).min(axis=1)
    assert np.abs(found - values) == pytest.approx(nearest)
    assert np.unique(found) == pytest.approx(grid)


def test_cases_are_those_of_the_engine():
    split = DIGITS.load(0)
    params = initial_params(looped_mlp(64, 6, 10), np.random.default_rng(2))
    cases = agreement_cases(params, split, [3, 4, 5, 6])
    assert len(cases) == 3 * 5
    free, nudged = cases[0], cases[1]
    backend = NumbaBackend(params.network, params.astype(np.float64))
    clamped = backend.clamp(split.x_test[[3]].astype(np.float64))
    settled = backend.settle(clamped, relaxation=replace(Relaxation(), max_steps=500, tolerance=0))
    assert unpacked(free["moments"][-1]["state"]) == pytest.approx(settled.state[0], abs=1e-10)
    assert free["moments"][-1]["residual"] <= 1e-12
    assert nudged["knobs"]["beta"] == 0.5
    wanted = (split.y_test[3] + 1) % 10
    assert nudged["knobs"]["target"] == wanted
    answers = [unpacked(case["moments"][-1]["outputs"])[wanted] for case in (free, nudged)]
    assert answers[1] > answers[0]
