"""Are the trends of the literature seen in the sweeps? Measured by rules that no result changes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from experiments.hardware.job import Outcome
from experiments.hardware.sweeps import DEVICES, NARROW, RATIOS, WEIGHT_BITS, defect_label
from experiments.reporting.document import Badge, Cell, Table
from experiments.reporting.number_text import percent

CLOSE = 0.03
"""Accuracies within this count as equal."""


def trends_table(sweeps: Sequence[Outcome]) -> Table:
    """Compare what was published with what the sweeps measured."""
    scores: dict[str, list[float]] = {}
    for outcome in sweeps:
        scores.setdefault(outcome.label, []).append(outcome.accuracy)
    means = {label: float(np.mean(values)) for label, values in scores.items()}
    narrow, wide = "{}-bit weights, {}-bit read-out".format(*NARROW), f"weights {WEIGHT_BITS[-1]}"
    enough, best, least = (f"Roff/Ron {ratio:g}" for ratio in (10.0, RATIOS[-1], RATIOS[0]))
    shared, split = (defect_label(0.1, apart) for apart in (False, True))
    rows: list[tuple[Cell, ...]] = []
    if narrow in means:
        claim = "10-bit parameters with a 4-bit\nread-out still learn (Gower 2025)"
        rule = f"as good as {WEIGHT_BITS[-1]}-bit weights"
        seen = means[narrow] >= means[wide] - CLOSE
        rows.append((claim, rule, _measured(means, narrow, wide), _badge(seen)))
    if enough in means:
        claim = "nonlinear updates are fine if\nRoff / Ron is at least 10 (Müller 2025)"
        seen = means[enough] >= means[best] - CLOSE
        rule = f"as good as {RATIOS[-1]:g}"
        rows.append((claim, rule, _measured(means, enough, best), _badge(seen)))
        seen = means[least] < means[best] - CLOSE
        claim = "and suffer if it is far below"
        rule = f"worse than {RATIOS[-1]:g}"
        rows.append((claim, rule, _measured(means, least, best), _badge(seen)))
    if shared in means:
        claim = (
            "at 10 % defects one crossbar shared by the\nphases holds (92 % on MNIST), one for "
            "each\ndoes not (33 %; Oh, Yoon and Min 2025)"
        )
        seen = means[split] < means[shared] - CLOSE
        rows.append((claim, "two arrays are worse", _measured(means, shared, split), _badge(seen)))
    caption = (
        f"Test accuracies in percent, means over seeds. Worse means by more than "
        f"{100 * CLOSE:g} points, as good the opposite."
    )
    if enough in means:
        left = replace(DEVICES, on_off_ratio=RATIOS[0]).largest_weight
        caption += (
            f" A pair subtracts what its cells conduct when they are off, so a low Roff / Ron does "
            f"harm where weights need more range than it leaves: at {RATIOS[0]:g} they end at "
            f"{left:.2g}, and at {RATIOS[-1]:g} at {DEVICES.weight_range:.2g}."
        )
    header = ("Published", "Seen if", "Here", "Seen")
    return Table("Published trends", header, tuple(rows), caption, 3)


def _measured(means: dict[str, float], *labels: str) -> str:
    return ";\n".join(f"{label}: {percent(means[label])}" for label in labels)


def _badge(seen: bool) -> Badge:
    return Badge("yes", "good") if seen else Badge("no", "bad")
