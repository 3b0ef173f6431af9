"""Memory that records: the kernels of a chip, run as plain Python, say what they read and write.

A value that is read from a word carries that word with it through every calculation; when a result
is written, its words are what the write depends on. (What only decides a branch is not followed.)
"""

import math
import operator
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Word = tuple[Any, ...]
"""Address of a word: the name of its array, then its indices."""


class Value:
    """A number, and the words of memory that it was computed from."""

    __slots__ = ("number", "words")

    def __init__(self, number: Any, words: frozenset[Word]) -> None:
        self.number, self.words = number, words

    def __abs__(self) -> "Value":
        return Value(abs(self.number), self.words)

    def __neg__(self) -> "Value":
        return Value(-self.number, self.words)

    def __index__(self) -> int:
        return int(self.number)

    def __repr__(self) -> str:
        return f"Value({self.number})"


def _operation(apply: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Value, Any], Value]:
    def operate(self: Value, other: Any) -> Value:
        pair = (number_of(other), self.number) if swapped else (self.number, number_of(other))
        return Value(apply(*pair), self.words | words_of(other))

    return operate


def _comparison(apply: Callable[[Any, Any], bool]) -> Callable[[Value, Any], bool]:
    return lambda self, other: apply(self.number, number_of(other))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "lshift", "rshift", "and_", "xor"):
    for _side, _swapped in (("", False), ("r", True)):
        _method = f"__{_side}{_name.rstrip('_')}__"
        setattr(Value, _method, _operation(getattr(operator, _name), _swapped))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Value, f"__{_name}__", _comparison(getattr(operator, _name)))


def number_of(value: Any) -> Any:
    """Return the bare number."""
    return value.number if isinstance(value, Value) else value


def words_of(value: Any) -> frozenset[Word]:
    """Return the words that a number depends on."""
    return value.words if isinstance(value, Value) else frozenset()


@dataclass
class Trace:
    """Everything that an execution touched, and what each write depended on."""

    touched: set[Word] = field(default_factory=set)
    writes: list[tuple[Word, frozenset[Word]]] = field(default_factory=list)


class Memory:
    """An array whose words record their accesses in `trace`."""

    def __init__(self, name: str, values: Any, trace: Trace) -> None:
        self.name, self._trace = name, trace
        self._values = np.array(values)
        self.shape = self._values.shape

    def __getitem__(self, index: Any) -> Value:
        address, place = self._address(index)
        self._trace.touched.add(address)
        return Value(self._values[place].item(), frozenset({address}) | _index_words(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        address, place = self._address(index)
        self._trace.touched.add(address)
        self._trace.writes.append((address, words_of(value)))
        self._values[place] = number_of(value)

    def numbers(self) -> Any:
        """Return the contents as a plain array."""
        return self._values.copy()

    def _address(self, index: Any) -> tuple[Word, tuple[int, ...]]:
        place = tuple(int(number_of(i)) for i in (index if isinstance(index, tuple) else (index,)))
        return (self.name, *place), place


def _index_words(index: Any) -> frozenset[Word]:
    parts = index if isinstance(index, tuple) else (index,)
    return frozenset().union(*(words_of(part) for part in parts))


def recorded(bundle: Any, trace: Trace, plain: Iterable[str] = (), prefix: str = "") -> Any:
    """Return a named tuple whose arrays record, but for the fields that are `plain`.

    A tuple inside is named before its fields, with a point between.
    """
    kept = set(plain)

    def wrap(name: str, value: Any) -> Any:
        if hasattr(value, "_fields"):
            return recorded(value, trace, kept, f"{prefix}{name}.")
        is_memory = isinstance(value, np.ndarray) and name not in kept
        return Memory(prefix + name, value, trace) if is_memory else value

    pairs = zip(bundle._fields, bundle, strict=True)
    return type(bundle)(*(wrap(name, value) for name, value in pairs))


def interpreted(module: types.ModuleType) -> dict[str, Any]:
    """Return the names of a module of kernels, whose functions are plain Python.

    They call plain Python: functions that the module imports from its own package are
    interpreted where they were written, and what these import, too.
    """
    return _interpreted(module, {})


def _interpreted(module: types.ModuleType, done: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Interpret a module unless it is `done`, by name."""
    if module.__name__ in done:
        return done[module.__name__]
    names = done[module.__name__] = dict(vars(module))
    names["math"] = _Mathematics
    for name, found in vars(module).items():
        plain = getattr(found, "py_func", found)  # itself, where compilation is off
        if not isinstance(plain, types.FunctionType):
            continue
        if plain.__module__ == module.__name__:
            names[name] = types.FunctionType(plain.__code__, names, name)
        elif sys.modules[plain.__module__].__package__ == module.__package__:
            home = _interpreted(sys.modules[plain.__module__], done)
            names[name] = home[plain.__name__]
    return names


class _Mathematics:
    """The functions of `math` that kernels use, for numbers that carry words."""

    @staticmethod
    def tanh(value: Any) -> Value:
        return Value(math.tanh(number_of(value)), words_of(value))

    @staticmethod
    def exp(value: Any) -> Value:
        return Value(math.exp(number_of(value)), words_of(value))

    @staticmethod
    def log(value: Any) -> Value:
        return Value(math.log(number_of(value)), words_of(value))

    @staticmethod
    def sqrt(value: Any) -> Value:
        return Value(math.sqrt(number_of(value)), words_of(value))

    @staticmethod
    def floor(value: Any) -> Value:
        return Value(math.floor(number_of(value)), words_of(value))
