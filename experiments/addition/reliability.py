"""How often a recipe groks: the share of seeds, its exact interval, and the curves."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Drawing
from scipy import stats

from experiments.addition.seed_run import GROKKED, MetricRow
from experiments.records import write_bytes, write_text
from experiments.reporting.document import Document, Figure, Section, Table
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.number_text import percent
from experiments.reporting.plot_style import BLUE, SOFT, STYLE, draw_panels, to_png, to_svg
from experiments.statistics import CONFIDENCE

NEARLY_ALL = 0.999


@dataclass(frozen=True)
class Reliability:
    """Share of seeds that grokked, with the interval of Clopper and Pearson."""

    grokked: int
    seeds: int
    low: float
    high: float

    @property
    def fraction(self) -> float:
        """Share of the seeds."""
        return self.grokked / self.seeds

    def sentence(self) -> str:
        """Say it in one line."""
        return (
            f"{self.grokked} of {self.seeds} seeds grokked ({percent(self.fraction)} %; exact "
            f"{CONFIDENCE:.0%} interval {percent(self.low)} % to {percent(self.high)} %)."
        )


def reliability(grokked: int, seeds: int) -> Reliability:
    """Return the share with its exact interval."""
    interval = stats.binomtest(grokked, seeds).proportion_ci(CONFIDENCE, method="exact")
    return Reliability(grokked, seeds, float(interval.low), float(interval.high))


def result_table(summaries: Sequence[Mapping[str, Any]]) -> Table:
    """Return a row for each seed."""
    rows = tuple(
        (
            str(summary["seed"]),
            "yes" if summary["grokked"] else "no",
            percent(summary["best_val_exact"]),
            f"{summary['best_step']:,}",
            percent(summary["test_exact"]),
            f"{summary['steps']:,}",
            f"{summary['elapsed_sec']:.0f}",
        )
        for summary in summaries
    )
    return Table(
        "Seeds",
        ("seed", "grokked", "validation, best (%)", "at step", "test (%)", "steps", "seconds"),
        rows,
        f"Exact sums. The best checkpoint is chosen on 5,000 validation sums and scored on 10,000 "
        f"test sums; from {GROKKED:.0%} of them on, a seed has grokked.",
        text_columns=2,
    )


def write_group(
    folder: Path,
    command: str,
    summaries: Sequence[Mapping[str, Any]],
    curves: Mapping[int, Sequence[MetricRow]],
) -> Reliability:
    """Write what several seeds of one recipe came to: JSON, Markdown and the plot."""
    result = reliability(sum(bool(s["grokked"]) for s in summaries), len(summaries))
    with matplotlib.rc_context(STYLE):
        drawing = draw_curves(curves)
        svg, png = to_svg(drawing), to_png(drawing)
    content = {
        "command": command,
        "params": summaries[0]["params"],
        "grokked": result.grokked,
        "seeds": result.seeds,
        "fraction": result.fraction,
        "interval": [result.low, result.high],
        "nearly_all": sum(s["test_exact"] >= NEARLY_ALL for s in summaries),
        "runs": list(summaries),
    }
    figure = Figure(
        "Grokking curves",
        "Exact sums of the validation part over training, one line for each seed; blue where the "
        "seed grokked.",
        "grokking.png",
        svg,
    )
    lead = (f"{summaries[0]['params']} trained parameters.", result.sentence())
    sections = (Section("Runs", (f"Command: {command}", result_table(summaries), figure)),)
    write_bytes(folder / "grokking.png", png)
    write_text(folder / "grokking.svg", svg)
    page = render_markdown(Document("Reliability of grokking", lead, sections))
    write_text(folder / "report.md", page)
    write_text(folder / "summary.json", json.dumps(content, indent=1))
    return result


def draw_curves(curves: Mapping[int, Sequence[MetricRow]]) -> Drawing:
    """Draw exact sums and right digits on the validation part, one line for each seed."""
    figure, panels = draw_panels(["Exact sums", "Right digits"])
    for axes, field in zip(panels, ("val_exact", "val_token_acc"), strict=True):
        for rows in curves.values():
            solved = max((row.val_exact for row in rows), default=0.0) >= GROKKED
            axes.plot(
                [row.step / 1000 for row in rows],
                [100 * getattr(row, field) for row in rows],
                color=BLUE if solved else SOFT,
                alpha=0.8,
                linewidth=1.2,
            )
        axes.set_xlabel("thousand steps")
        axes.set_ylim(-2, 102)
    panels[0].set_ylabel("validation part (%)")
    return figure
