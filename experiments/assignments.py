"""Settings by name: `key=value`, as `--set` takes it, for the dataclasses that hold settings."""

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any, TypeVar

from engine.errors import EngineError
from experiments.options import meant

Owner = TypeVar("Owner")

REFUSALS = {"int": "no whole number", "float": "no number", "bool": "neither true nor false"}

LARGEST = 1e9
"""Beyond which no setting makes sense, unless it is among the unbounded ones."""


def split_assignment(assignment: str) -> tuple[str, str]:
    """Return key and text of `key=value`."""
    key, equals, text = assignment.partition("=")
    if not equals:
        raise EngineError(f"--set {assignment}: expected key=value.")
    return key.strip(), text.strip()


def assigned(
    owner: Owner,
    name: str,
    text: str,
    said: str,
    *,
    fixed: Collection[str] = (),
    bounded: bool = True,
) -> Owner:
    """Return settings with the field `name` read from a text, in the type that it is declared with.

    `said` is how the user named it, for the sentence that refuses it; fields that are `fixed` are
    set by other means.
    """
    kinds = {f.name: f.type for f in fields(owner) if f.name not in fixed}  # type: ignore[arg-type]
    if name not in kinds:
        known = f"known: {', '.join(kinds)}{meant(name, kinds) or '.'}"
        raise EngineError(f"{said}: there is no such setting; {known}")
    value = _value(text, str(kinds[name]), said, bounded)
    return replace(owner, **{name: value})  # type: ignore[type-var]


def _value(text: str, kind: str, said: str, bounded: bool) -> Any:
    kind = kind.removeprefix("<class '").removesuffix("'>")
    if kind.endswith("| None") and text.lower() == "none":
        return None
    if kind.startswith("str"):
        return text
    try:
        if kind == "bool":
            return {"true": True, "false": False}[text.lower()]
        number = float(text) if kind.startswith("float") else int(text)
    except (ValueError, KeyError):
        if kind.endswith("| str"):
            return text
        raise EngineError(f"{said}: '{text}' is {_refusal(kind)}.") from None
    if bounded and abs(number) > LARGEST:
        raise EngineError(f"{said}: '{text}' is beyond {LARGEST:g}.")
    return number


def _refusal(kind: str) -> str:
    """Say in words what a text is not."""
    or_none = " and not none" if kind.endswith("| None") else ""
    return f"{REFUSALS[kind.partition(' ')[0]]}{or_none}"
