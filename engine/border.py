"""The border of the package: what a call says of its arguments is held against what it gets.

The annotations of a public function or dataclass are its border. `checked` reads them once and
refuses an argument of another kind in one sentence, before any work. What lies within a kind (a
range, the shape of an array) is checked where it is known.
"""

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial, wraps
from inspect import signature
from numbers import Real
from typing import (
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

from engine.errors import EngineError, shown

Checked = TypeVar("Checked", bound=Callable[..., Any])
Fits = Callable[[Any], bool]


def checked(target: Checked) -> Checked:
    """Let a function, a method or a dataclass refuse arguments of another kind than it says."""
    title = target.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    if not is_dataclass(target):
        guarded: Checked = _guarded(target, target, title)
        return guarded
    made: Any = target
    made.__init__ = _guarded(made.__init__, made, title)
    return target


def _guarded(function: Any, annotated: Any, title: str) -> Any:
    kinds: dict[str, tuple[Fits, str]] = {}
    positions: list[tuple[str, Fits, str]] = []

    def read_annotations() -> None:
        """Fill the tables at the first call, when every class that is named exists."""
        hints = get_type_hints(annotated)
        for name in signature(function).parameters:
            hint = hints.get(name, Any)
            kinds[name] = _test_of(hint), _words(hint)
        positions.extend((name, *kind) for name, kind in kinds.items())

    @wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        if not positions:
            read_annotations()
        # More or fewer values than parameters is for Python to say, as of any function.
        for (name, fits, words), value in zip(positions, values, strict=False):
            if not fits(value):
                raise EngineError(f"{title}: {name} is {shown(value)}, expected {words}.")
        for name, value in named.items():
            if name in kinds and not kinds[name][0](value):
                words = kinds[name][1]
                raise EngineError(f"{title}: {name} is {shown(value)}, expected {words}.")
        return function(*values, **named)

    return call


def _test_of(hint: Any) -> Fits:
    """Return the test that a value of the annotated kind passes."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _any_of(tuple(_test_of(part) for part in arguments))
    if origin is Literal:
        return partial(_is_instance, tuple({type(option) for option in arguments}))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return partial(_is_series, tuple, _test_of(arguments[0]))
    if origin is tuple:
        return partial(_is_tuple, tuple(_test_of(part) for part in arguments))
    if origin is not None and isinstance(origin, type) and issubclass(origin, np.ndarray):
        return partial(_is_instance, np.ndarray)
    if origin is Callable:
        return callable
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_is_mapping, *(_test_of(part) for part in arguments))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return partial(_is_series, Sequence, _test_of(arguments[0]))
    kind = origin or hint
    if kind in (Any, ClassVar) or not isinstance(kind, type) or _is_open(kind):
        return _is_anything
    return _PLAIN.get(kind, partial(_is_instance, kind))


def _any_of(tests: tuple[Fits, ...]) -> Fits:
    """Join tests; those for an instance become one, which is quicker than to try each."""
    kinds = [t.args[0] for t in tests if isinstance(t, partial) and t.func is _is_instance]
    if len(kinds) == len(tests):
        return partial(_is_instance, tuple(kinds))
    return partial(_is_any, tests)


def _is_open(kind: type) -> bool:
    """Tell whether only type checkers know the kind, so that no value can be held against it."""
    if is_typeddict(kind) or kind.__module__.startswith("numpy."):  # of ArrayLike and DTypeLike
        return kind not in (np.ndarray, np.random.Generator)
    protocol = getattr(kind, "_is_protocol", False)
    return protocol and not getattr(kind, "_is_runtime_protocol", False)


def _is_anything(value: Any) -> bool:
    return True


def _is_any(tests: tuple[Fits, ...], value: Any) -> bool:
    return any(test(value) for test in tests)


def _is_instance(kind: type | tuple[type, ...], value: Any) -> bool:
    return isinstance(value, kind)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, Real)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_series(kind: type, item: Fits, value: Any) -> bool:
    is_series = isinstance(value, kind) and not isinstance(value, str | bytes)
    return is_series and all(item(part) for part in value)


def _is_tuple(items: tuple[Fits, ...], value: Any) -> bool:
    fits = isinstance(value, tuple) and len(value) == len(items)
    return fits and all(item(part) for item, part in zip(items, value, strict=True))


def _is_mapping(key: Fits, item: Fits, value: Any) -> bool:
    return isinstance(value, Mapping) and all(key(k) and item(v) for k, v in value.items())


_PLAIN: dict[type, Fits] = {
    int: _is_whole,
    float: _is_number,
    bool: _is_truth,
    type(None): partial(_is_instance, type(None)),
}
_WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}


def _words(hint: Any) -> str:
    """Say what an annotation asks for."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(part) for part in arguments))
    if origin is Literal:
        return " or ".join(dict.fromkeys(_words(type(option)) for option in arguments))
    if hint is type(None):
        return "None"
    if hint in _WORDS:
        return _WORDS[hint]
    kind = origin or hint
    if kind is Callable:
        return "a function"
    if isinstance(kind, type) and issubclass(kind, np.ndarray):
        return "a numpy array"
    name = getattr(kind, "__name__", str(kind))
    parts = ", ".join(_words(part) for part in arguments if part is not Ellipsis)
    return f"a {name} of ({parts})" if parts else f"a {name}"
