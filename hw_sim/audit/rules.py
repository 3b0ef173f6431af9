"""The two rules of an audit, and the first access that breaks one.

    constant memory   the words that are touched are the same for any number of steps
    locality          a word of a synapse depends only on the states of its two ends, on words of
                      its own, and on words that no sample changes (tables, coefficients)

EqProp keeps both rules by construction. Backprop stores words for each step, and its synapses read
deltas: words that are no state of either end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from engine.errors import EngineError
from hw_sim.audit.recording import Trace, Word


class AuditError(EngineError):
    """An access that a local algorithm of constant memory does not make."""


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
