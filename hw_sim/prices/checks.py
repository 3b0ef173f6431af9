"""How a technology file is refused: one sentence that names the place and the value."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from engine.errors import shown

LEAST_PRICE, MOST_PRICE = 1e-18, 1e18
"""In the unit of a price, if it is not zero."""
MOST_PARALLEL = 10**12
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that no text needs: all controls but the tab and the end of a line."""


class TechnologyError(ValueError):
    """A technology file that cannot be used, or an event without a price, as one sentence."""


def check_number(where: str, name: str, number: Any) -> float:
    """Return a price as it is stated, from a range in which no bill overflows."""
    real = isinstance(number, int | float) and not isinstance(number, bool)
    if not (real and (number == 0 or LEAST_PRICE <= number <= MOST_PRICE)):
        raise TechnologyError(
            f"{where} has {name} {shown(number)}, expected zero, or from {LEAST_PRICE:g} to "
            f"{MOST_PRICE:g}."
        )
    return float(number)


def check_table(where: str, found: Any, of: str) -> Mapping[str, Any]:
    """Return a table, or say what stands in its place."""
    if not isinstance(found, dict):
        raise TechnologyError(f"{where} is {shown(found)}, expected a table {of}.")
    return found


def check_choice(where: str, field: str, found: Any, known: tuple[str, ...]) -> None:
    """Refuse a word that is none of those known."""
    if found not in known:
        raise TechnologyError(f"{where} has {field} {shown(found)}; {listed(found, known)}")


def check_known(where: str, what: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse an entry that nobody would read."""
    unknown = set(found) - set(known)
    if unknown:
        first = min(unknown)
        raise TechnologyError(
            f"{where} has the unknown {what} {shown(first)}; {listed(first, known)}"
        )


def listed(found: Any, known: Sequence[str]) -> str:
    """Return what is known, and which of it may have been meant, as the end of a sentence."""
    near = get_close_matches(found, known, 1) if isinstance(found, str) else []
    return f"known: {', '.join(known)}" + (f"; did you mean {near[0]}?" if near else ".")


def check_words(where: str, field: str, text: Any) -> None:
    """Refuse what is no text, or has characters that no text needs."""
    if not isinstance(text, str) or not text or CONTROL.search(text):
        raise TechnologyError(f"{where} has {field} {shown(text)}, expected words.")


def check_count(where: str, name: str, value: Any, most: int = MOST_PARALLEL) -> None:
    """Refuse what is no whole number from one on."""
    if not is_count(value, most):
        raise TechnologyError(f"{where} has {name} {shown(value)}, expected from 1 to {most}.")


def is_count(value: Any, most: int = MOST_PARALLEL) -> bool:
    """Whether a value is a whole number from 1 to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
