"""The same drawing for a phone: its panels below each other, its legend as wide as it."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from experiments.reporting.plot_style import put_legend, to_svg, wrapped

WIDTH = 4.0
"""Of a drawing on a phone, in inches: there it is shown as it is, and letters keep their size."""
MARGIN = 0.5
"""Height of what lies outside of the panels, as in `draw_panels`."""
ENTRY_HEIGHT = 0.18
LONGEST_LABEL = 42
"""Letters below an axis, in one line."""


def phone_svg(figure: Figure) -> str:
    """Return a drawing rearranged for a phone; the figure itself is changed by it."""
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    rows = _rows_of(panels)
    for row in rows:
        _share_labels(row)
    height = MARGIN + len(panels) * (figure.get_figheight() - MARGIN) / max(1, len(rows))
    grid = GridSpec(len(panels), 1, figure=figure)
    for k, axes in enumerate(panels):
        axes.set_subplotspec(grid[k])
        axes.set_xlabel(wrapped(axes.get_xlabel(), LONGEST_LABEL))
    figure.set_size_inches(WIDTH, height)
    _fold_legends(figure)
    return to_svg(figure)


def _rows_of(panels: list[Axes]) -> list[list[Axes]]:
    """Return the panels as they stand side by side."""
    rows: dict[int, list[Axes]] = {}
    for axes in panels:
        place = axes.get_subplotspec()
        assert place is not None
        rows.setdefault(place.rowspan.start, []).append(axes)
    return list(rows.values())


def _share_labels(row: list[Axes]) -> None:
    """Give panels the label and the names on their axis that only the first of a row has."""
    first, *others = row
    for axes in others:
        axes.set_ylabel(axes.get_ylabel() or first.get_ylabel())
        axes.tick_params(axis="y", labelleft=True)


def _fold_legends(figure: Figure) -> None:
    """Set legends in two columns, or in one where those are wider than the drawing."""
    for legend in list(figure.legends):
        handles = [handle for handle in legend.legend_handles if handle is not None]
        legend.remove()
        columns = min(2, len(handles))
        folded = put_legend(figure, handles, columns)
        if folded.get_window_extent().width > figure.bbox.width:
            folded.remove()
            columns = 1
            put_legend(figure, handles, columns)
        lines = -(-len(handles) // columns)
        figure.set_figheight(figure.get_figheight() + ENTRY_HEIGHT * (lines - 1))
