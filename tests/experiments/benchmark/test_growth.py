"""Where lines of growth cross, what backprop stores, and the page that shows both."""

import pytest

from experiments.benchmark import growth
from experiments.benchmark.crossings import find_crossings
from experiments.benchmark.growth import GrowthPoint, run_probe
from experiments.benchmark.growth_plot import draw_growth
from experiments.benchmark.probe import Setting, TrainingFootprint
from experiments.benchmark.report_tables import crossings_table, growth_table
from experiments.reporting.number_text import NONE


def line(learner, values, seconds, extra, axis="depth"):
    return [
        GrowthPoint(
            axis,
            Setting(learner, **{axis: value}),
            TrainingFootprint(seconds(value), 10**9, round(extra(value))),
        )
        for value in values
    ]


DEPTHS = (1, 2, 4, 8, 16)
POINTS = [
    *line("eqprop", DEPTHS, lambda n: 4.0 * n, lambda n: 4e6 * n**0.5),
    *line("backprop", DEPTHS, lambda n: 1.0 * n, lambda n: 1e6 * n),
    *line("bptt", DEPTHS, lambda n: 0.4 * n**2, lambda n: 9e6 * n),
]


def test_power_laws_cross_where_their_formulas_do():
    """4 sqrt(n) = n at 16, the last point, where neither needs less; 4 n = 0.4 n^2 at 10."""
    found = {(c.rival, c.quantity): c for c in find_crossings(POINTS)}
    assert found["bptt", "time"].values == pytest.approx((10.0,))
    assert found["bptt", "time"].text() == "depth above 10"
    assert found["bptt", "memory"].text() == "everywhere"
    assert found["backprop", "time"].text() == "nowhere"
    assert found["backprop", "time"].last == 4.0
    farther = [*POINTS, *line("eqprop", (64,), lambda n: 1.0, lambda n: 4e6 * n**0.5)]
    farther += line("backprop", (64,), lambda n: 9.0, lambda n: 1e6 * n)
    memory = next(c for c in find_crossings(farther) if c.quantity == "memory")
    assert memory.values == pytest.approx((16.0,))
    assert memory.text() == "depth above 16"


def test_a_line_that_crosses_back_says_both_places():
    seconds = {1: 2.0, 2: 0.5, 4: 2.0}
    points = line("eqprop", seconds, seconds.get, lambda n: 1.0)
    points += line("backprop", seconds, lambda n: 1.0, lambda n: 1.0)
    found = next(c for c in find_crossings(points) if c.quantity == "time")
    assert found.values == pytest.approx((2**0.5, 2**1.5))
    assert found.text() == "it changes at depth 1.41, 2.83"
    later = [p for p in points if p.value > 1]
    (first, _) = find_crossings(later)[::-1]
    assert first.text() == "depth below 2.83"


def test_the_memory_of_backprop_grows_with_depth_by_what_it_stores():
    """Of each layer at least its output has to wait for the way back."""
    few, many = (
        run_probe(Setting("backprop", width=64, depth=depth, batch=4096)) for depth in (2, 12)
    )
    outputs = 10 * 4096 * 64 * 4
    assert many.extra - few.extra > 0.9 * outputs
    assert many.seconds > few.seconds


def test_the_page_shows_all_learners_and_where_they_cross():
    crossings = find_crossings(POINTS)
    picture = draw_growth(POINTS, crossings)
    assert picture.png.startswith(b"\x89PNG")
    assert picture.figure.path == "plots/growth.png"
    assert draw_growth([], []) is None
    rows = growth_table(POINTS).rows
    assert rows[0] == ("depth", "1", "4000.0", "4.0", "1000.0", "1.0", "400.0", "9.0")
    assert growth_table(POINTS[:6]).rows[1][-1] == NONE
    assert ("time", "depth", "BPTT", "depth above 10", "10.00 to 0.62") in crossings_table(
        crossings
    ).rows


def test_the_axes_reach_as_far_as_they_are_said_to():
    ends = {axis: (values[0], values[-1]) for axis, values in growth.WHOLE.axes.items()}
    assert ends == {
        "steps": (10, 1000),
        "width": (256, 8192),
        "depth": (1, 16),
        "batch": (1, 4096),
    }
