from dataclasses import replace

import numpy as np
import pytest

from experiments.contest.runs import arrange_runs
from experiments.vision.plots import draw_confusions, draw_filters, draw_layer_cosines, tiled
from experiments.vision.published import PUBLISHED
from experiments.vision.report import write_report
from experiments.vision.roster import CONTESTANTS, EQPROP, VISION
from experiments.vision.tables import layer_cosines, layers_table
from tests.experiments.parity.parity_records import make_record

RNG = np.random.default_rng(0)


def make_records(measures):
    return [
        replace(make_record(task, name, seed, 0.9), majority_rate=0.1, measures=measures)
        for task in ("mnist", "cifar10")
        for name in CONTESTANTS
        for seed in (42, 43)
    ]


def test_a_filter_stands_where_its_number_says():
    filters = RNG.normal(size=(11, 3, 3, 1))
    mosaic = tiled(filters)
    assert mosaic.shape == (2 * 4 - 1, 8 * 4 - 1)
    np.testing.assert_array_equal(mosaic[4:7, 8:11], filters[10, :, :, 0])
    assert np.isnan(mosaic[3]).all()


def test_three_channels_are_colours_each_filter_in_its_own_range():
    filters = RNG.normal(size=(4, 5, 5, 3)) * np.array([1e-3, 1.0, 50.0, 0.0])[:, None, None, None]
    mosaic = tiled(filters)
    assert mosaic.shape == (5, 4 * 6 - 1, 3)
    assert mosaic.min() >= 0.0
    assert mosaic.max() <= 1.0
    for k in range(3):
        picture = mosaic[:, 6 * k : 6 * k + 5]
        assert np.abs(picture - 0.5).max() == pytest.approx(0.5)
        np.testing.assert_allclose(
            np.corrcoef(picture.ravel(), filters[k].ravel())[0, 1], 1.0, rtol=1e-9
        )
    np.testing.assert_array_equal(mosaic[:, 18:23], 0.5)


def test_the_lowest_cosine_of_all_seeds_is_listed_bottom_to_top():
    first, second = make_records({})[:2]
    first = replace(first, measures={"layer_cosines": {"1": [0.9, 0.99, 1.0], "10": [1, 1, 1]}})
    second = replace(second, measures={"layer_cosines": {"1": [0.95, 0.7, 1.0]}})
    assert layer_cosines([first, second]) == [(1, [0.9, 0.7, 1.0]), (10, [1, 1, 1])]
    table = layers_table(arrange_runs(VISION, [first, second]))
    assert table.header == ("Task", "Epoch", "Layer 1", "Layer 2", "Read-out")
    assert table.rows[0] == ("MNIST", "1", "0.9000", "0.7000", "1.0000")


def test_runs_that_measured_nothing_are_reported_without_their_plots(tmp_path):
    runs = arrange_runs(VISION, make_records({}))
    assert draw_layer_cosines(runs) is None
    assert draw_filters(VISION, runs) is None
    assert draw_confusions(runs) is None
    summary = write_report(make_records({}), tmp_path, "command", {"cpu": "any"})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for result in PUBLISHED:
        assert (f'<a href="{result.address}"' in page) == bool(result.address)
    assert sum(bool(result.address) for result in PUBLISHED) == 5
    assert [task.name for task in summary.tasks] == ["mnist", "cifar10"]
    assert not (tmp_path / "plots" / "filters.png").exists()


def test_the_same_records_in_another_order_give_the_same_files(tmp_path):
    measures = {
        "names": ["a", "b", "c"],
        "confusion": [[5, 1, 0], [0, 6, 0], [0, 2, 4]],
        "filters": RNG.normal(size=(4, 3, 3, 3)).tolist(),
        "layer_cosines": {"1": [0.999, 0.9], "2": [1.0, 1.0]},
    }
    records = make_records(measures)
    for place, made in (("one", records), ("two", records[::-1])):
        write_report(made, tmp_path / place, "command", {"cpu": "any"})
    files = [path for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert {path.stem for path in files} >= {"filters", "confusion", "layer_cosine", "table"}
    for path in files:
        other = tmp_path / "two" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == other.read_bytes(), path


def test_confusions_of_all_seeds_are_added():
    measures = {"names": ["a", "b"], "confusion": [[30, 10], [0, 40]]}
    figure = draw_confusions(arrange_runs(VISION, make_records(measures)[:2]))
    (axes,) = figure.axes
    assert sorted(text.get_text() for text in axes.texts) == ["100", "25", "75"]
    assert make_records({})[0].contestant == EQPROP
