import json
import math

import numpy as np
import pytest

from adapters.torch_arrays import torch
from engine.backend import Backend
from experiments import benchmark


@pytest.fixture(autouse=True)
def same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_ratios_are_finite_and_in_order():
    ratios = benchmark.measure(8, 4, 3)
    assert [ratio.contestant for ratio in ratios] == ["numba", "torch"]
    for ratio in ratios:
        assert (ratio.width, ratio.batch) == (8, 4)
        assert 0.0 < ratio.low <= ratio.median <= ratio.high
        assert math.isfinite(ratio.high)


def test_ratios_are_quartiles_of_each_round_over_its_own_products(monkeypatch):
    costs = {"bare": iter((9, 1, 2, 4)), "numba": iter((9, 3, 4, 4)), "torch": iter((9, 5, 8, 8))}
    clock, order = [0.0], []

    def contestant(name):
        def run():
            clock[0] += next(costs[name])
            order.append(name)

        return run

    monkeypatch.setattr(benchmark, "prepare", lambda *_: {name: contestant(name) for name in costs})
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: clock[0])
    numba, compared = benchmark.measure(8, 4, 3)
    assert order == ["bare", "numba", "torch"] * 4  # the first round only warms up
    assert (numba.low, numba.median, numba.high) == (1.5, 2.0, 2.5)
    assert (compared.low, compared.median, compared.high) == (3.0, 4.0, 4.5)


@pytest.mark.parametrize("width", [8, 64])
def test_every_sample_of_every_backend_does_all_the_steps(width, monkeypatch):
    steps, relax = [], Backend.relax

    def spy(self, *arguments, **options):
        equilibrium = relax(self, *arguments, **options)
        steps.append(equilibrium.steps)
        return equilibrium

    monkeypatch.setattr(Backend, "relax", spy)
    contestants = benchmark.prepare(width, 16)
    for run in contestants.values():
        run()
    assert contestants.keys() == {"bare", "numba", "torch"}
    np.testing.assert_array_equal(steps, np.full((2, 16), benchmark.STEPS))


def test_the_command_writes_what_it_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "WIDTHS", (8, 12))
    monkeypatch.setattr(benchmark, "BATCHES", (4,))
    given = ["--rounds", "2", "--threads", "1", "--out", str(tmp_path / "out")]
    assert benchmark.main(given) == 0
    content = json.loads((tmp_path / "out" / "benchmark.json").read_text(encoding="utf-8"))
    assert content["threads"] == 1
    found = [(r["contestant"], r["width"], r["batch"]) for r in content["ratios"]]
    assert found == [("numba", 8, 4), ("torch", 8, 4), ("numba", 12, 4), ("torch", 12, 4)]
    assert all(0.0 < r["low"] <= r["median"] <= r["high"] for r in content["ratios"])
    printed = capsys.readouterr().out
    assert "30 steps over the bare matrix products, float32, 1 thread(s)" in printed
    assert f"{content['ratios'][0]['median']:.2f}" in printed


@pytest.mark.parametrize("option", ["--rounds", "--threads"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5"])
def test_a_senseless_number_is_refused(option, value, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        benchmark.main([f"{option}={value}"])
    assert stopped.value.code == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .endswith(f"error: argument {option}: '{value}' is not a whole number of at least 1")
    )
    assert list(tmp_path.iterdir()) == []
