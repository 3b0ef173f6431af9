"""Numbers as the reports print them. Fractions become percent, differences percentage points."""

import math
from collections.abc import Sequence
from typing import Any

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
"""Stands where there is no number."""
PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"), (1e-15, "f"))


def percent(mean: float, std: float = math.nan) -> str:
    """Return `97.04 ± 0.35`; without a deviation the mean alone."""
    return f"{100 * mean:.2f}" if math.isnan(std) else f"{100 * mean:.2f} ± {100 * std:.2f}"


def points(difference: float) -> str:
    """Return a signed difference in percentage points."""
    # Adding zero turns a negative zero into a positive one.
    return _with_minus(f"{round(100 * difference, 2) + 0.0:+.2f}")


def points_between(difference: float, interval: tuple[float, float]) -> str:
    """Return a difference with its interval, both in percentage points."""
    return f"{points(difference)}\n({points(interval[0])} to {points(interval[1])})"


def probability(p: float) -> str:
    """Return a p-value with three digits after the point, or that it is below them."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def number(value: float, digits: int = 1) -> str:
    """Return a number with a fixed count of digits after the point, a dash for NaN."""
    return NONE if math.isnan(value) else _with_minus(f"{value:,.{digits}f}")


def setting(values: Sequence[Any]) -> str:
    """Return the value of a setting, or all of them if runs differ."""
    return " / ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def in_units(value: float, unit: str) -> str:
    """Return a physical value with a prefix, such as `3.2 µJ`."""
    if value == 0.0:
        return f"0 {unit}"
    value = float(f"{value:.3g}")  # 999.7 nJ is 1 µJ
    scale, prefix = next((p for p in PREFIXES if abs(value) >= p[0]), PREFIXES[-1])
    return f"{value / scale:.3g} {prefix}{unit}"


def _with_minus(text: str) -> str:
    return text.replace("-", MINUS)
