"""A measured number beside the largest value it may have, and tables of such numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One measured error or difference, and the threshold it is held to."""

    name: str
    value: float
    threshold: float

    @property
    def passed(self) -> bool:
        """Whether it keeps to the threshold; NaN does not."""
        return self.value <= self.threshold


def format_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def format_metrics(metrics: Iterable[Metric]) -> str:
    """Return `| Metric | Value | Threshold |`."""
    rows = [(m.name, f"{m.value:.2e}", f"{m.threshold:.0e}") for m in metrics]
    return format_table(("Metric", "Value", "Threshold"), rows)
