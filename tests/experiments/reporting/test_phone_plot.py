"""A drawing for a phone: everything is there, below each other and within its edges."""

from itertools import pairwise

import matplotlib
import pytest

from experiments.reporting.phone_plot import WIDTH, phone_svg
from experiments.reporting.plot_style import (
    BLUE,
    STYLE,
    add_legend,
    draw_panels,
    is_leftmost,
    to_svg,
    wrapped,
)

LONG = "a quantity with a name that is longer than any phone is wide (in some unit)"


def drawing(panels: int, entries: tuple[str, ...]):
    with matplotlib.rc_context(STYLE):
        figure, places = draw_panels([f"Panel {k}" for k in range(panels)])
        for k, axes in enumerate(places):
            axes.plot([0, 1], [0, k])
            axes.set_xlabel(LONG)
            axes.tick_params(labelleft=is_leftmost(axes))
            if is_leftmost(axes):
                axes.set_ylabel("score")
        add_legend(figure, [(entry, BLUE, "-") for entry in entries])
        to_svg(figure)
    return figure, places


@pytest.mark.parametrize("panels", [1, 2, 5])
def test_panels_stand_below_each_other_each_with_its_labels(panels):
    figure, places = drawing(panels, ("one", "two"))
    tall = figure.get_figheight()
    with matplotlib.rc_context(STYLE):
        phone_svg(figure)
    boxes = [axes.get_position() for axes in places]
    assert len({round(box.x0, 6) for box in boxes}) == 1
    assert all(upper.y0 > lower.y1 for upper, lower in pairwise(boxes))
    assert all(axes.get_ylabel() == "score" for axes in places)
    assert all(axes.yaxis.get_tick_params()["labelleft"] for axes in places)
    assert figure.get_figwidth() == WIDTH
    assert figure.get_figheight() >= tall


@pytest.mark.parametrize(
    ("entries", "columns"),
    [(("a", "b", "c"), 2), ((LONG[:40], LONG[:39], LONG[:38]), 1), (("a",), 1)],
)
def test_nothing_reaches_over_the_edge(entries, columns):
    figure, places = drawing(3, entries)
    with matplotlib.rc_context(STYLE):
        phone_svg(figure)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(entries)
    assert len({round(text.get_window_extent().x0) for text in legend.get_texts()}) == columns
    for artist in (legend, *(axes.xaxis.label for axes in places)):
        box = artist.get_window_extent()
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_titles_are_folded_and_not_cut():
    assert wrapped("A short one") == "A short one"
    folded = wrapped(LONG)
    assert folded.replace("\n", " ") == LONG
    assert max(map(len, folded.split("\n"))) <= 30
    assert len(wrapped("x" * 75).split("\n")) == 3


def test_paths_have_two_digits_after_the_point():
    figure, _ = drawing(1, ("one",))
    with matplotlib.rc_context(STYLE):
        svg = to_svg(figure)
    assert ' d="M' in svg
    for path in svg.split(' d="')[1:]:
        numbers = path[: path.index('"')].split()
        assert all(len(n.partition(".")[2]) <= 2 for n in numbers)
