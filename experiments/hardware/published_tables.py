"""Published chips in the report: what was published, what Settle says, and why they differ."""

from dataclasses import asdict
from typing import Any

from experiments.hardware.published import publications
from experiments.hardware.report_tables import STATUS_TONES, prices_table, range_text
from experiments.reporting.document import Badge, Bullets, Cell, Table
from experiments.reporting.number_text import in_units
from hw_sim.prices.technology import published_technologies


def published_figures() -> Table:
    """Compare each published figure with the same by Settle."""
    rows = tuple(
        (
            figure.chip, figure.quantity, Badge(figure.status, STATUS_TONES[figure.status]),
            in_units(figure.published, figure.unit), range_text(figure.settle, figure.unit),
            f"{figure.ratio:.3g}",
        )
        for publication in publications()
        for figure in publication.figures
    )  # fmt: skip
    header = ("Chip", "Figure", "Status", "Published", "Settle", "Ratio")
    caption = (
        "Settle's figures are its counts times prices, with the range of the prices. A ratio is "
        "Settle over the publication; the status is that of the published figure."
    )
    return Table("Published figures, computed again", header, rows, caption, 3)


def figure_values() -> list[dict[str, Any]]:
    """Return every figure as plain values."""
    return [
        asdict(figure) | {"ratio": figure.ratio}
        for publication in publications()
        for figure in publication.figures
    ]


def differences() -> Bullets:
    """Say why each figure differs from what was published."""
    return Bullets(
        tuple(
            f"{figure.chip}, {figure.quantity}: {figure.why}."
            for publication in publications()
            for figure in publication.figures
        )
    )


def published_parameters() -> tuple[Table, Table]:
    """List what the publications state, and the prices of their own."""
    rows: list[tuple[Cell, ...]] = []
    for publication in publications():
        for p in publication.parameters:
            status = Badge(p.status, STATUS_TONES[p.status])
            rows.append((publication.title, p.name, p.value, p.source, status))
        priced = publication.technology
        rows.append((publication.title, "prices", priced.name, priced.title, "each its own"))
    header = ("Chip", "Parameter", "Value", "Source", "Status")
    stated = Table("Parameters of the publications", header, tuple(rows), text_columns=5)
    return stated, prices_table(list(published_technologies().values()))
