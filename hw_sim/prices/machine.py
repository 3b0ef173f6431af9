"""The machine that a technology builds: how much of each kind of work is done at once.

The stages of a sample follow one another. Nothing of it overlaps but what the machine hides behind
a stage (`behind`); stages may work on different samples at once where the machine says so.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import shown
from hw_sim.events import KINDS
from hw_sim.prices.checks import (
    TechnologyError,
    check_choice,
    check_count,
    check_known,
    check_table,
)

PER = ("chip", "unit", "line", "array", "tile", "launch")


@dataclass(frozen=True)
class Resource:
    """What works off one kind of event: so many, at each part of the machine."""

    per: str = "chip"
    """`chip`; `unit`, at the end of a link where the work arrives; `line` of an array, a row or a
    column, and of each tile where arrays are cut; `array`, whose cells all work at once; `tile`,
    a router; or `launch`, for all units of a place and all samples of a batch, and in an update
    for all weights of a place."""
    count: int = 1
    shared_by: int = 1
    """Units or lines, of one tile, that take turns with one."""

    def turns(self, parts: int) -> int:
        """Return how many rounds it takes until each of so many parts had its turn."""
        return -(-min(parts, self.shared_by) // self.count)

    def lanes(self, parts: int) -> int:
        """Return how many work at once on behalf of so many parts."""
        return self.count * -(-parts // self.shared_by)


@dataclass(frozen=True)
class Machine:
    """The stages of a machine, in their order, and what hides behind them."""

    stages: Mapping[str, Resource] = field(default_factory=dict)
    """By kind of event."""
    behind: Mapping[str, str] = field(default_factory=dict)
    """Of each kind that takes no time of its own: the stage during which it happens."""
    batch: int = 1
    """Samples that share a launch."""
    overlaps: bool = False
    """Whether stages may work on different samples at once, in a pipeline."""
    stated: bool = False
    """Whether the machine has a table; what a machine without one does not time is hidden."""

    def times(self, kind: str) -> bool:
        """Return whether a kind of event takes time, or refuse one that is forgotten."""
        if self.stated and kind not in self.stages and kind not in self.behind:
            raise TechnologyError(
                f"the machine says neither how long '{kind}' takes nor what it hides behind."
            )
        return kind in self.stages


def read_machine(where: str, table: Any, latencies: Collection[str]) -> Machine:
    """Read `[technology.machine]`; without it what takes time is worked off one at a time."""
    if table is None:
        return Machine(dict.fromkeys(latencies, Resource()))
    where = f"{where}, machine"
    check_table(where, table, "of stages")
    stages: dict[str, Resource] = {}
    for kind, fields in table.items():
        if kind not in ("behind", "batch", "overlaps"):
            stages[kind] = _resource(f"{where} of {shown(kind)}", kind, fields, latencies)
    for kind in latencies:
        if kind not in stages:
            raise TechnologyError(f"{where} has no stage for the latency of {shown(kind)}.")
    batch = table.get("batch", 1)
    check_count(where, "batch", batch)
    overlaps = table.get("overlaps", False)
    if not isinstance(overlaps, bool) or (overlaps and batch > 1):
        raise TechnologyError(
            f"{where} has overlaps {shown(overlaps)} and batch {batch}, expected true or false, "
            "and false where a batch goes through all stages together."
        )
    hidden = _hidden(where, table.get("behind", {}), stages)
    return Machine(stages, hidden, batch, overlaps, stated=True)


def _resource(where: str, kind: str, fields: Any, latencies: Collection[str]) -> Resource:
    if kind not in latencies:
        raise TechnologyError(f"{where}: there is no latency of that name.")
    check_table(where, fields, "with per")
    check_known(where, "field", fields, ("per", "count", "shared_by"))
    check_choice(where, "per", fields.get("per"), PER)
    if fields["per"] == "tile" and kind != "hop":
        raise TechnologyError(f"{where} is per tile: only a hop is worked off by routers.")
    for name in ("count", "shared_by"):
        check_count(where, name, fields.get(name, 1))
    return Resource(**fields)


def _hidden(where: str, table: Any, stages: Collection[str]) -> dict[str, str]:
    """Return behind what each kind hides: the table lists the kinds of each stage."""
    where, hidden = f"{where} behind", {}
    for stage, kinds in check_table(where, table, "of lists of kinds").items():
        if stage not in stages:
            raise TechnologyError(f"{where} {shown(stage)}: there is no such stage.")
        if not isinstance(kinds, list):
            raise TechnologyError(f"{where} {shown(stage)} is {shown(kinds)}, expected a list.")
        for kind in kinds:
            check_choice(f"{where} {shown(stage)}", "kind", kind, KINDS)
            if kind in stages or kind in hidden:
                raise TechnologyError(f"{where} {shown(stage)} has {shown(kind)}, stated twice.")
            hidden[kind] = stage
    return hidden
