"""What can go wrong, as one sentence that names the object and the value."""

from typing import Any

import numpy as np

MOST = 2**31 - 1
"""Largest count of anything."""
LONGEST_SHOWN = 60


class EngineError(ValueError):
    """A description, an input or a setting that the engine refuses."""


class DivergenceError(EngineError):
    """A relaxation produced a number that is not finite."""


class NudgeWarning(UserWarning):
    """A beta so large that the estimated gradient may be wrong."""


class PoolingWarning(UserWarning):
    """A pooling whose winners may change while a network relaxes."""


class CheckpointError(EngineError):
    """A file that is not a complete checkpoint of this program."""


def check_count(name: str, value: int) -> None:
    """Refuse a setting that is not a whole number of at least one, or that no array could have."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise EngineError(f"{name} is {value!r}, expected at least 1, and a whole number.")
    if value > MOST:
        raise EngineError(f"{name} is {value}, expected at most {MOST}.")


def check_seed(seed: int) -> None:
    """Refuse a seed that no generator takes."""
    if seed < 0:
        raise EngineError(f"seed is {seed}, expected zero or more.")


def shown(value: Any) -> str:
    """Return a value as it goes into a sentence: on one line, and not long."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # many levels, a number of more than 4300 digits, or a faulty `__repr__`
        size = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"<{type(value).__name__}{size}>"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def reason(error: Exception) -> str:
    """Return the first sentence of what an exception says, without its full stop."""
    text = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
    return text or type(error).__name__
