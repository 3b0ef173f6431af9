"""The tables of predictions and of parallel training."""

from collections.abc import Sequence

import numpy as np

from experiments.benchmark.parallel import LINKS, MANY, ParallelResults, predicted_steps
from experiments.benchmark.prediction import PredictionTime
from experiments.reporting.document import Cell, Table
from experiments.reporting.number_text import NONE


def prediction_table(times: Sequence[PredictionTime]) -> Table:
    """Return what an answer takes, beside what it is held against."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            t.what,
            f"{t.batch:,}",
            f"{1e6 * t.seconds:,.0f}",
            t.rival,
            f"{1e6 * t.rival_seconds:,.0f}",
            t.ratio.text(),
        )
        for t in times
    )
    return Table(
        "Prediction, one thread",
        ("what", "samples", "CPU µs", "against", "CPU µs", "ratio"),
        rows,
        f"The least CPU time of a call, and medians of ratios in turn. {times[0].steps:.1f} steps "
        "on average at the tolerance of outputs; classes are often certain before. The bare "
        "products are as many for every sample.",
        text_columns=1,
    )


def parallel_tables(results: ParallelResults) -> list[Table]:
    """Return what was measured, what the model is fitted to, and what it predicts."""
    return [_scaling_table(results), _sums_table(results), _predicted_table(results)]


def _scaling_table(results: ParallelResults) -> Table:
    alone = results.times.alone
    rows: list[tuple[Cell, ...]] = [
        ("one process", str(batch), f"{1e3 * float(np.median(taken)):.2f}", NONE, NONE, NONE, NONE)
        for batch, taken in alone.items()
    ]
    for s in results.scalings:
        ms = s.seconds
        rows.append(
            (
                f"two processes, {s.kind}",
                str(s.rows),
                f"{1e3 * ms.median:.2f}\n({1e3 * ms.low:.2f} to {1e3 * ms.high:.2f})",
                NONE if s.waited is None else f"{1e3 * s.waited:.2f}",
                s.efficiency.text(),
                f"{1e3 * s.predicted:.2f}",
                f"{s.over_measured:.2f}",
            )
        )
    sizes = "-".join(map(str, results.size.sizes))
    return Table(
        f"Data parallel training, looped {sizes}, one thread a process",
        ("what", "rows each", "step, ms", "in sums, ms", "efficiency", "predicted, ms", "over it"),
        tuple(rows),
        f"{results.parameters:,} parameters; wall-clock, {results.size.rounds} rounds in turns. "
        "Strong scaling shares one batch, weak scaling gives each process as many rows as one "
        "alone. Sums include waiting for the other process.",
        text_columns=1,
    )


def _sums_table(results: ParallelResults) -> Table:
    model = results.model
    rows = tuple(
        (
            f"{size:,}",
            f"{1e6 * float(np.median(taken)):,.0f}",
            f"{1e6 * _fitted(results, size):,.0f}",
        )
        for size, taken in results.times.sums.items()
    )
    return Table(
        "All-reduce of two processes alone",
        ("bytes", "µs", "fitted, µs"),
        rows,
        f"A message takes {1e6 * model.latency:.0f} µs and {model.bandwidth / 1e9:.2f} GB/s; "
        f"a step computes {1e3 * model.fixed:.2f} ms and {1e6 * model.per_row:.1f} µs a row.",
        text_columns=0,
    )


def _fitted(results: ParallelResults, size: int) -> float:
    model = results.model
    return model.seconds(2, 0, size) - model.compute(0)


def _predicted_table(results: ParallelResults) -> Table:
    links = {"as measured here": (results.model.latency, results.model.bandwidth), **LINKS}
    found = {name: predicted_steps(results, *link) for name, link in links.items()}
    rows: list[tuple[Cell, ...]] = []
    for name, steps in found.items():
        for kind, place in (("strong", 1), ("weak", 2)):
            rows.append((name, kind, *(f"{100 * step[place]:.0f}" for step in steps)))
    return Table(
        "PREDICTED efficiency in percent, by number of processes: not measured",
        ("link", "scaling", *map(str, MANY)),
        tuple(rows),
        "By the model of a ring, with the compute time of this core, as if each process had a core "
        "of its own. Latencies and bandwidths but for the first are assumed. A GPU computes "
        "faster, and then waits longer in proportion.",
        text_columns=2,
    )
