"""Blocks of rows over the cores of the machine change no bit."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from engine import SGD, Relaxation, Training
from engine.learning.run import Run
from engine.learning.training import train_step
from hw_sim.chips import cells, host_cores
from hw_sim.chips.crossbar import MIDDLING, CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SpikingBackend
from hw_sim.chips.substrate import Substrate
from hw_sim.chips.wires import seen_conductances
from tests.hw_sim.chips.patches import NETWORKS, batch_of, params_of

TRAINING = Training(
    epochs=1, beta=0.25, optimizer=SGD(0.5), cap=None, free=Relaxation(6, 0.01),
    nudged=Relaxation(4, 0.01, displaced=False),
)  # fmt: skip
CHIPS: dict[str, tuple[Any, Any]] = {
    "digital": (DigitalBackend, DigitalConfig(10, 8, 14)),
    "crossbar": (CrossbarBackend, MIDDLING),
    "events": (SpikingBackend, None),
}


def _trained(make: Any, config: Any, name: str) -> Substrate:
    """Two steps of training, and an answer."""
    network = NETWORKS[name]
    x, y = batch_of(network, samples=7)
    chip: Substrate = make(network, params_of(network), config)
    run = Run.start(network, 1, np.float64, 0)
    for _ in range(2):
        train_step(chip, x, y, TRAINING, run, 2)
    chip.predict(chip.settle(chip.clamp(x), relaxation=TRAINING.free))
    return chip


def _cut(count: int, used: list[int]) -> Any:
    def row_blocks(rows: int, work: int) -> list[slice]:
        parts = min(count, rows)
        used.append(parts)
        return [slice(*ends) for ends in pairwise(rows * k // parts for k in range(parts + 1))]

    return row_blocks


@pytest.mark.parametrize(("make", "config"), CHIPS.values(), ids=CHIPS)
@pytest.mark.parametrize("name", ["patches", "tokens"])
def test_blocks_change_no_bit(
    make: Any, config: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, used = [], list[int]()
    monkeypatch.setattr(cells, "STREAM", 8)  # so that small blocks have several streams
    for count in (1, 2, 3):
        monkeypatch.setattr(host_cores, "row_blocks", _cut(count, used))
        found.append(_trained(make, config, name))
    assert {1, 2, 3} <= set(used)
    for other in found[1:]:
        np.testing.assert_array_equal(other.params.theta, found[0].params.theta)
        assert dict(other.counts) == dict(found[0].counts)
        assert other.saturated == found[0].saturated
    assert found[0].saturated.get("accumulator", 1) > 0


@pytest.mark.parametrize("tile", [(0, 0), (7, 5), (0, 9)])
def test_an_array_in_pieces_has_the_same_drops(
    tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether tiles go over the cores, or pieces of the only row of them."""
    found, used = [], list[int]()
    cells = np.random.default_rng(0).random((50, 23))
    for count in (1, 2, 3):
        monkeypatch.setattr(host_cores, "row_blocks", _cut(count, used))
        found.append(seen_conductances(cells, 1e-2, tile))
    assert set(used) == {1, 2, 3}
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.parametrize("upwards", [False, True])
@pytest.mark.parametrize("rows", [3, 60])
def test_a_piece_comes_after_all_that_it_needs(
    rows: int, upwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those left of it, and those above it or below it; also where rows are few."""
    monkeypatch.setattr(host_cores, "row_blocks", _cut(3, []))
    done = np.zeros((rows, 10), bool)

    def run(down: slice, across: slice) -> None:
        before = done[down.stop :] if upwards else done[: down.start]
        assert before[:, across].all()
        assert done[down, : across.start].all()
        assert not done[down, across].any()
        done[down, across] = True

    host_cores.over_pieces(run, rows, 10, work=1, upwards=upwards)
    assert done.all()
