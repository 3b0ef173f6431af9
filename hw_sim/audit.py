"""An execution audit: which words of memory does each update read and write?

The kernels of a substrate run once more as plain Python, on memory that records. A value that is
read from a word carries that word with it through every calculation; when a result is written, its
words are what the write depends on. (What only decides a branch is not followed.) Two rules:

    constant memory   the words that are touched are the same for any number of steps
    locality          a word of a synapse depends only on the states of its two ends, on words of
                      its own, and on words that no sample changes (tables, coefficients)

EqProp keeps both rules by construction. Backprop stores words for each step, and its synapses read
deltas: words that are no state of either end.
"""

import math
import operator
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.errors import EngineError

Word = tuple[Any, ...]
"""Address of a word: the name of its array, then its indices."""


class AuditError(EngineError):
    """An access that a local algorithm of constant memory does not make."""


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
    """Return the functions of a module of kernels as plain Python that calls plain Python."""
    names = dict(vars(module))
    names["math"] = _Mathematics
    for name, found in vars(module).items():
        plain = getattr(found, "py_func", found)  # itself, where compilation is off
        if isinstance(plain, types.FunctionType) and plain.__module__ == module.__name__:
            names[name] = types.FunctionType(plain.__code__, names, name)
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
    def floor(value: Any) -> Value:
        return Value(math.floor(number_of(value)), words_of(value))


@dataclass(frozen=True)
class Rules:
    """What the synapses of one array may read.

    `synapses` names arrays of synapses `[i, j]` or `[j]`; `own` those whose word at the same place
    is their own too. `source` and `target` name the states of the two ends: word `[n, i]` and
    `[n, j]` of any sample. `constants` are words that no sample changes. Where a block is shared,
    `gather (positions, rows)` says which unit of the source each position reads: then the two ends
    of a write are `gather[p, i]` and `p columns + j`, at one position `p`.
    """

    synapses: tuple[str, ...]
    own: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    gather: Any = None
    columns: int = 0


def check_locality(trace: Trace, rules: Rules) -> int:
    """Refuse the first write of a synapse that depends on a foreign word; return the writes."""
    checked = 0
    for address, words in trace.writes:
        if address[0] not in rules.synapses:
            continue
        checked += 1
        found = sorted(words, key=str)
        position = _position(found, rules)
        for word in found:
            if not _is_local(address, word, rules, position):
                raise AuditError(
                    f"the update of {_text(address)} read {_text(word)}, which is neither a state "
                    "of its two ends nor a word of its own."
                )
    if checked == 0:
        raise AuditError(f"no word of {', '.join(rules.synapses)} was written: nothing was proven.")
    return checked


def _position(words: Iterable[Word], rules: Rules) -> int:
    """Return the position at which a write met its target; 0 where there is only one."""
    if rules.gather is None or len(rules.gather) == 1:
        return 0
    return next((word[-1] // rules.columns for word in words if word[0] in rules.target), 0)


def _is_local(synapse: Word, word: Word, rules: Rules, position: int) -> bool:
    name, place = word[0], word[1:]
    if name in rules.constants:
        return True
    if name in (synapse[0], *rules.own):
        return place == synapse[1:]
    if name in rules.source and len(synapse) == 3:
        row = synapse[1]
        if place[-1] == (row if rules.gather is None else rules.gather[position, row]):
            return True
    return name in rules.target and place[-1] == position * rules.columns + synapse[-1]


def check_constant_memory(execute: Callable[[int], Trace], steps: tuple[int, ...]) -> int:
    """Refuse an execution that touches other words with more steps; return how many it touches."""
    first = execute(steps[0]).touched
    for count in steps[1:]:
        more = sorted(execute(count).touched - first, key=str)
        if more:
            raise AuditError(
                f"with {count} steps in place of {steps[0]} the working set grew by {len(more)} "
                f"words, the first of them {_text(more[0])}."
            )
    return len(first)


def _text(word: Word) -> str:
    return f"{word[0]}[{', '.join(map(str, word[1:]))}]"
