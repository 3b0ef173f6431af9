"""The registry: a property is a sentence of theory, a strategy and one small function.

    @theory("Two samples do not see each other.", cases())
    def samples_are_apart(case: Case) -> None:
        assert ...

A module with properties has to be imported in `experiments/fuzz/catalogue.py` to be found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st


@dataclass(frozen=True)
class Theory:
    """A property that holds for everything its strategy draws."""

    name: str
    sentence: str
    examples: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    """Raise, by an assertion or otherwise, where the sentence is not true."""


THEORIES: dict[str, Theory] = {}


def theory(
    sentence: str, examples: st.SearchStrategy[Any]
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Enter the function in the registry under its own name."""

    def enter(check: Callable[[Any], None]) -> Callable[[Any], None]:
        name = str(getattr(check, "__name__", check))
        THEORIES[name] = Theory(name, sentence, examples, check)
        return check

    return enter
