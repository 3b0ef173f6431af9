"""Cells of a Liberty file: areas, leakage, and what a change of an output takes.

A toggle of a net takes `C V^2 / 2`, with the capacitances of the pins that it drives, and what the
library says is lost inside the driving cell at that load. Wires have no capacitance here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hw_sim.rtl.plan import RtlError

_TOKEN = re.compile(r'"[^"]*"|[{}();:,]|[^\s{}();:,"]+')
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SLEW = 1
"""Which of the transition times of a table: the second fastest."""


@dataclass(frozen=True)
class Loss:
    """Energy inside a cell for a change of a pin, over the load of its output."""

    loads_pf: tuple[float, ...]
    energies_pj: tuple[float, ...]

    def at(self, load_pf: float) -> float:
        """Return the energy at a load, on straight lines between those of the table."""
        return float(np.interp(load_pf, self.loads_pf, self.energies_pj))


@dataclass
class Cell:
    """One kind of gate."""

    area_um2: float = 0.0
    leakage_nw: float = 0.0
    capacitance_pf: dict[str, float] = field(default_factory=dict)
    losses: dict[str, list[Loss]] = field(default_factory=dict)
    """By pin, each the mean of a rise and a fall; of an output one for each related input."""

    def loss_pj(self, pin: str, load_pf: float) -> float:
        """Return the mean over what may have caused the change."""
        found = [loss.at(load_pf) for loss in self.losses.get(pin, [])]
        return sum(found) / len(found) if found else 0.0


@dataclass(frozen=True)
class Library:
    """The cells of a process."""

    name: str
    volts: float
    cells: dict[str, Cell]


@dataclass
class _Group:
    kind: str
    name: str
    values: dict[str, str] = field(default_factory=dict)
    groups: list["_Group"] = field(default_factory=list)

    def of(self, *kinds: str) -> Iterator["_Group"]:
        return (group for group in self.groups if group.kind in kinds)


def read_library(path: Path) -> Library:
    """Read a Liberty file in pF, V and nW, or say why not."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RtlError(f"{path} cannot be read: {error.strerror or error}.") from None
    tokens = _TOKEN.findall(_COMMENT.sub("", text).replace("\\\n", " "))
    if tokens[:1] != ["library"]:
        raise RtlError(f"{path} is no Liberty file of cells.")
    root, _ = _group(tokens, 0)
    units = root.values.get("capacitive_load_unit", ""), root.values.get("leakage_power_unit", "")
    if units != ("1 pf", "1nW") or root.values.get("voltage_unit") != "1V":
        raise RtlError(f"{path} has units {units}, expected 1 pf and 1nW at 1V.")
    cells = {group.name: _cell(group) for group in root.of("cell")}
    return Library(root.name, float(root.values["nom_voltage"]), cells)


def _group(tokens: list[str], at: int) -> tuple[_Group, int]:
    """Read `kind (name) { ... }` from `at` on; return it and where it ends."""
    close = tokens.index(")", at)
    found = _Group(tokens[at], " ".join(tokens[at + 2 : close]))
    at = close + 2
    while tokens[at] != "}":
        if tokens[at + 1] == ":":
            end = tokens.index(";", at)
            found.values[tokens[at]] = " ".join(tokens[at + 2 : end]).strip('"')
            at = end + 1
            continue
        close = tokens.index(")", at)
        if tokens[close + 1 : close + 2] == ["{"]:
            inner, at = _group(tokens, at)
            found.groups.append(inner)
            continue
        inside = (token.strip('"') for token in tokens[at + 2 : close] if token != ",")
        found.values[tokens[at]] = " ".join(inside)
        at = close + 1 + (tokens[close + 1] == ";")
    return found, at + 1


def _cell(group: _Group) -> Cell:
    area, leakage = (float(group.values.get(k, 0)) for k in ("area", "cell_leakage_power"))
    cell = Cell(area, leakage)
    for pin in group.of("pin"):
        cell.capacitance_pf[pin.name] = float(pin.values.get("capacitance", 0))
        cell.losses[pin.name] = [_loss(power) for power in pin.of("internal_power") if power.groups]
    return cell


def _loss(power: _Group) -> Loss:
    """Return the mean of a rise and a fall."""
    tables = list(power.of("rise_power", "fall_power", "power"))
    energies: list[tuple[float, ...]] = []
    loads: tuple[float, ...] = (0.0,)
    for table in tables:
        values = _numbers(table.values["values"])
        if "index_2" in table.values:  # loads by transition times
            loads = _numbers(table.values["index_1"])
            values = tuple(np.reshape(values, (len(loads), -1))[:, SLEW])
        else:
            values = (values[SLEW],)
        energies.append(values)
    return Loss(tuple(loads), tuple(float(e) for e in np.mean(energies, axis=0)))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(number) for number in re.split(r"[,\s]+", text.strip()))
