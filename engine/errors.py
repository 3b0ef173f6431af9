"""What can go wrong, as one sentence that names the object and the value."""

from numbers import Real
from typing import Any

LONGEST_SHOWN = 60


class EngineError(ValueError):
    """A description, an input or a setting that the engine refuses."""


class DivergenceError(EngineError):
    """A relaxation produced a number that is not finite."""


class NudgeWarning(UserWarning):
    """A beta so large that the estimated gradient may be wrong."""


class CheckpointError(EngineError):
    """A file that is not a complete checkpoint of this program."""


def check_count(name: str, value: int) -> None:
    """Refuse a setting that is not a whole number of at least one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise EngineError(f"{name} is {value!r}, expected at least 1, and a whole number.")


def check_number(name: str, value: float) -> None:
    """Refuse a setting that is no real number at all; its range is checked where it is known."""
    if not isinstance(value, Real):
        raise EngineError(f"{name} is {value!r}, expected a number.")


def shown(value: Any) -> str:
    """Return a value as it goes into a sentence: on one line, and not long."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # many levels, or a number of more than 4300 digits
        size = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"<{type(value).__name__}{size}>"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
