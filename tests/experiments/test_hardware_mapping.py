"""Tiles, cores, throughput and levels of memory in the report of a run."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.learning.optimizer import Adam
from engine.model.builders import looped_mlp
from experiments.hardware.__main__ import main
from experiments.hardware.contest import check_prices
from experiments.hardware.sample_tables import Run
from experiments.hardware.throughput_tables import levels, memory_table
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.tile_traffic import traffic_of
from hw_sim.counts import Footprint, OpCounts, WordCount, optimizer_counts
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import shipped_technologies

SMALL = ["--set", "hidden=6", "--set", "epochs=1", "--set", "batch_size=8", "--seeds", "1"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clouds on tiles of 4 x 3 and on cores of 4."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("mapping")
    y = np.arange(60) % 3
    np.savez(folder / "clouds.npz", x=rng.standard_normal((60, 4)) + 2.0 * np.eye(4)[y], y=y)
    chips = ["--substrate", "crossbar", "--substrate", "spiking"]
    given = ["--data", str(folder / "clouds.npz"), *SMALL, *chips, "--no-sweeps", "--workers", "1"]
    sizes = ["--tiles", "4x3", "--neurons-per-core", "4"]
    assert main([*given, *sizes, "--out", str(folder / "out")]) == 0
    return folder / "out"


def test_the_floor_plan_of_every_chip_with_tiles_or_cores_is_in_the_report(report: Path) -> None:
    content = json.loads((report / "report.json").read_text())
    tiles, cores = content["mappings"]
    assert (tiles["substrate"], tiles["part"], cores["part"]) == ("crossbar", "tile", "core")
    blocks = [spot["holds"] for spot in tiles["spots"]]
    assert blocks == ["W_in"] * 2 + ["W_rec"] * 4 + ["W_out"] * 2
    assert tiles["utilisation"] == pytest.approx((4 * 6 + 6 * 6 + 6 * 3) / (8 * 12))
    assert [spot["used"] for spot in cores["spots"]] == [4, 4, 1]
    ran = next(r for r in content["runs"] if r["learner"] == "eqprop")
    hops = sum(n for *_, kind, n in ran["inference"] if kind == "hop")
    assert sum(spot["busy"] for spot in tiles["spots"]) == pytest.approx(hops / ran["n_test"])
    moved = traffic_of(looped_mlp(4, 6, 3), (4, 3))
    once = int(moved.input.sum() + moved.readout.sum())
    steps, rest = divmod(hops - ran["n_test"] * once, int(moved.step.sum()))
    assert rest == 0
    assert ran["n_test"] < steps <= 60 * ran["n_test"]
    assert all(spot["busy"] > 0 for spot in cores["spots"])
    page = (report / "report.md").read_text()
    for part in (
        "plots/floor_plan.png",
        "8 tiles",
        "4 x 3 pairs",
        "3 cores",
        "Traffic on the mesh",
    ):
        assert part in page


def test_throughput_is_the_inverse_of_time_and_no_less_in_a_pipeline(report: Path) -> None:
    content = json.loads((report / "report.json").read_text())
    found = {(t["substrate"], t["learner"]): t for t in content["throughputs"]}
    assert len(found) == 2 * 3
    for contest in content["contests"]:
        ours = found[contest["substrate"], "eqprop"]
        for what, time in (("inference", "inference_latency_s"),
                           ("training", "training_sample_latency_s")):  # fmt: skip
            assert ours[what]["alone"] == pytest.approx(1 / contest[time]["nominal"])
            assert ours[what]["pipelined"] >= ours[what]["alone"]
    assert found["crossbar", "eqprop"]["inference"]["stage"] == "conversion"
    assert found["spiking", "eqprop"]["inference"]["in_flight"] == 1
    page = (report / "report.md").read_text()
    for part in ("longest stage", "Memory by level", "analog cells", "across the border"):
        assert part in page


def test_levels_hold_all_words_and_bits() -> None:
    memory = WordCount(states=50, weights=100, traces=300, cells=200, wide=7, wide_bits=90)
    design = Design(looped_mlp(4, 6, 3), 8, 6, memory)
    found = levels(design).values()
    assert sum(words for words, _, _ in found) == memory.words
    assert sum(bits for _, bits, _ in found) == design.memory_bits
    events = [kind for _, _, kinds in found for kind in kinds]
    assert len(set(events)) == len(events)


def test_learning_words_are_gradients_and_what_the_optimizer_keeps() -> None:
    """A gradient of each weight and two moments of Adam, which are written as often as read."""
    network = looped_mlp(4, 6, 3)
    memory = Footprint(("state",), ("weight", "gradient")).count(network, Adam(0.1).moments)
    found = levels(Design(network, 8, 8, memory))
    assert found["gradients"][0] == network.size
    assert found["optimizer"][0] == 2 * network.size
    counts = OpCounts()
    counts.add("nudged", "hidden", "trace_write", 7)
    counts.add("update", "hidden", "trace_read", 5)  # of the gradient, by the update
    counts += optimizer_counts(network, Adam(0.1), 3)
    counts.add("input", "border", "off_chip", network.inputs)  # of one sample
    technology = shipped_technologies()["digital_45nm"]
    bill = Bill(technology, Design(network, 8, 8, memory), counts)
    run = Run("digital", technology, "eqprop", bill, bill, 1)
    uses = {row[2]: row[6] for row in memory_table([run]).rows}
    assert (uses["gradients"], uses["optimizer"]) == ("12", f"{3 * 2 * 2 * network.size:,}")


def test_a_technology_without_the_area_of_tiles_is_refused_before_any_work() -> None:
    technology = shipped_technologies()["rram_crossbar"]
    area = {name: p for name, p in technology.prices["area"].items() if name != "converter"}
    lacking = replace(technology, prices={**technology.prices, "area": area})
    known = {"rram_crossbar": lacking}
    whole, cut = CrossbarConfig(), CrossbarConfig(tile_rows=8)
    check_prices(["crossbar"], {"crossbar": whole}, known, None)
    with pytest.raises(TechnologyError, match="has no area price for 'converter'"):
        check_prices(["crossbar"], {"crossbar": cut}, known, None)


@pytest.mark.parametrize("size", ["128", "0x4", "4x", "x", "-1x4", "4x4x4", "1.5x2"])
def test_tiles_have_rows_and_columns(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([f"--tiles={size}"])
    assert stopped.value.code == 2
    assert f"'{size}' is not a number of rows and of columns" in capsys.readouterr().err
