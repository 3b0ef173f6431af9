"""Read an energy reference table of Accelergy (ERT, YAML, versions 0.3 and 0.4) as a technology.

A table names components and what an action of each takes, in pJ. Which event that is follows from
the name of the component, its last part, unless the file says so itself:

    settle:
      events: {activation: lut.read, mac: [multiplier.multiply, adder.add]}   # sums
      areas: {memory_bit: {spad: 3072}}     # see `accelergy_areas`, for a file with an ART, too
      others: digital_45nm    # a shipped technology, for all that the file does not describe
      bits: 16                # width of the words of its memories; prices then grow with bits

| components | actions | events |
|---|---|---|
| mac; or multiplier and adder | compute, mac..., mult..., add | `mac`; an adder `addition` |
| of weights or filters, else any memory | read; write, fill, update | weights and learning words |
| of inputs, outputs, psums, else any memory | the same | states |
| adc, dac | convert, read, drive | `conversion`, the mean of both |
| cells (cim, rram) | read, compute | `cell_read` |
| DRAM | read | `off_chip` |

Of several memories the one that takes least is the value, as it is nearest to the multipliers; the
others are the range. Of several actions of a component (`mac_random`, `mac_gated`) the first is the
value. An action with several arguments is their mean, as in Accelergy's own summary, and their
range. What a component takes idle is not read, as a table has no times.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import shown
from hw_sim.prices.accelergy_areas import area_prices
from hw_sim.prices.accelergy_names import components, named, sort_of
from hw_sim.prices.checks import (
    TechnologyError,
    check_choice,
    check_count,
    check_known,
    check_number,
    check_table,
)
from hw_sim.prices.reading import ENTRIES
from hw_sim.prices.technology import (
    MOST_BITS,
    Technology,
    shipped_technologies,
    technology_from,
)

READS, WRITES = r"read|access$", r"write|fill|update"
COMPUTES, CONVERTS = r"compute|mac|mult|process", r"convert|read|drive"
Rule = tuple[tuple[str, str], ...]
"""Sorts of components and their actions, which are summed."""
DEFAULTS: Mapping[str, Sequence[Rule]] = {
    "mac": ((("mac", COMPUTES),), (("multiplier", COMPUTES), ("adder", "add"))),
    "addition": ((("adder", "add"),),),
    "weight_read": ((("weights", READS),), (("memory", READS),)),
    "weight_write": ((("weights", WRITES),), (("memory", WRITES),)),
    "trace_read": ((("weights", READS),), (("memory", READS),)),
    "trace_write": ((("weights", WRITES),), (("memory", WRITES),)),
    "state_read": ((("states", READS),), (("memory", READS),)),
    "state_write": ((("states", WRITES),), (("memory", WRITES),)),
    "conversion": ((("adc", CONVERTS),), (("dac", CONVERTS),)),
    "cell_read": ((("cell", f"{READS}|{COMPUTES}"),),),
    "off_chip": ((("dram", READS),),),
}
"""By event: rules of which the first that finds something gives the value, all the range."""
WORDS = ("weight", "state", "trace")
"""What grows with bits, by the first part of the name of an event."""


class Action(NamedTuple):
    """What an action takes, in pJ, over all its arguments."""

    name: str
    """`component.action`, with all parts of the component."""
    low: float
    value: float
    high: float

    @property
    def component(self) -> str:
        """Its component, with all parts of the name."""
        return self.name.rpartition(".")[0]

    def does(self, sort: str, actions: str) -> bool:
        """Whether it is one of these actions of such a component."""
        verb = self.name.rpartition(".")[2].lower()
        return sort_of(self.component) == sort and re.match(actions, verb) is not None


def technology_from_table(content: Mapping[str, Any], path: Path) -> Technology:
    """Return the technology of a table, or say in one sentence what is wrong with it."""
    where = f"{path}: ERT"
    actions = _actions(where, content["ERT"])
    said = check_table(
        f"{path}: settle", content.get("settle", {}), "with events, areas, others, bits"
    )
    check_known(f"{path}: settle", "entry", said, ("events", "areas", "others", "bits"))
    bits = said.get("bits")
    if bits is not None:
        check_count(f"{path}: settle", "bits", bits, MOST_BITS)
    found = {
        event: f for event, rules in DEFAULTS.items() if (f := _by_rules(event, rules, actions))
    }
    found |= _told(f"{path}: settle, events", said.get("events", {}), actions)
    if not found:
        raise TechnologyError(f"{where} has no component that is known by its name.")
    energy = {event: _entry(event, parts, bits, path) for event, parts in found.items()}
    areas = {}
    if "ART" in content or "areas" in said:
        areas = area_prices(content.get("ART"), said.get("areas", {}), path)
    unstated = "Times" if areas else "Times, areas"
    name = actions[0].name.partition(".")[0]
    table = {
        "title": f"Accelergy table {path.name}",
        "note": f"An access is taken to be one word. {unstated} and leakage are not stated.",
        "energy": energy,
        "area": areas,
        "reference_bits": bits or 8,
    }
    technology = technology_from(name, table, str(path))
    return _completed(technology, f"{path}: settle", said.get("others"))


def _completed(technology: Technology, where: str, others: Any) -> Technology:
    """Add the prices of a shipped technology where there are none, or say how to ask for them."""
    if others is None:
        remedy = (
            "name actions in 'settle: events' or components in 'areas', or a technology for "
            "the rest in 'others'"
        )
        return replace(technology, remedy=remedy)
    shipped = shipped_technologies()
    check_choice(where, "others", others, tuple(shipped))
    stated = [section for section in ("energy", "area") if technology.prices[section]]
    filled = {s: {**shipped[others].prices[s], **technology.prices[s]} for s in stated}
    note = f"{technology.note} What the file does not describe has the prices of {others}."
    return replace(technology, note=note, prices={**technology.prices, **filled})


def _actions(where: str, table: Any) -> list[Action]:
    """Return every action of every component, in the order of the file."""
    found: list[Action] = []
    for name, component in components(where, table, "actions"):
        place, listed = f"{where}, {shown(name)}", component.get("actions")
        if not isinstance(listed, list):
            raise TechnologyError(f"{place} has actions {shown(listed)}, expected a list.")
        energies: dict[str, list[float]] = {}
        for action in listed:
            said = check_table(f"{place}, action", action, "with name and energy")
            if not isinstance(said.get("name"), str):
                raise TechnologyError(f"{place} has an action {shown(said.get('name'))}.")
            energy = check_number(f"{place}, {shown(said['name'])}", "energy", said.get("energy"))
            energies.setdefault(said["name"], []).append(energy)
        found += [
            Action(f"{name}.{action}", min(e), sum(e) / len(e), max(e))
            for action, e in energies.items()
        ]
    if not found:
        raise TechnologyError(f"{where} has no actions.")
    return found


def _by_rules(event: str, rules: Sequence[Rule], actions: Sequence[Action]) -> list[Action]:
    """Return what an event is made of by the names of components, with its range."""
    cases: list[list[Action]] = []
    for rule in rules:
        parts = [[a for a in actions if a.does(*which)] for which in rule]
        if all(parts):
            cases.append([_nearest(candidates) for candidates in parts])
    if not cases:
        return []
    if event == "conversion":
        return [_mean([a for case in cases for a in case])]
    chosen, rest = cases[0], [a for case in cases[1:] for a in case]
    return chosen if len(chosen) > 1 else [_ranging(chosen[0], rest)]


def _nearest(candidates: Sequence[Action]) -> Action:
    """Return the component that takes least, by its first action, within the range of all."""
    first: dict[str, Action] = {}
    for action in candidates:
        first.setdefault(action.component, action)
    least = min(first.values(), key=lambda a: a.value or inf)  # a zero is no estimate
    return _ranging(least, candidates)


def _ranging(action: Action, others: Sequence[Action]) -> Action:
    """Return an action within the range of others, too."""
    every = [action, *others]
    return action._replace(low=min(a.low for a in every), high=max(a.high for a in every))


def _mean(parts: Sequence[Action]) -> Action:
    mean = parts[0]._replace(
        name=" and ".join(a.name for a in parts), value=sum(a.value for a in parts) / len(parts)
    )
    return _ranging(mean, parts)


def _told(where: str, events: Any, actions: Sequence[Action]) -> dict[str, list[Action]]:
    """Return the events that the file maps itself: to one action, or to a list that is summed."""
    found = {}
    for event, given in check_table(where, events, "of actions by event").items():
        check_choice(where, "event", event, ENTRIES["energy"])
        wanted, every = (
            given if isinstance(given, list) else [given],
            [(a.name, a) for a in actions],
        )
        found[event] = [named(f"{where}, {event}", name, every) for name in wanted]
    return found


def _entry(event: str, parts: Sequence[Action], bits: int | None, path: Path) -> dict[str, Any]:
    """Return a price in the fields of a technology file."""
    low, value, high = (sum(column) for column in list(zip(*parts, strict=True))[1:])
    source = f"Accelergy table {path.name}: {' + '.join(a.name for a in parts)}"
    entry = {"low": low or value, "value": value, "high": high}  # a range from zero has no middle
    entry |= {"unit": "pJ", "node": "not stated", "source": source, "status": "read"}
    word = event.partition("_")[0]
    return entry | {"scales": word if bits and word in WORDS else "none"}
