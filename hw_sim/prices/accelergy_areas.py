"""Read an area reference table of Accelergy (ART, YAML): what the parts of a chip cover.

A table names components and the area of one of each, in square micrometres. Which part of a chip
that is follows from the name of the component, unless the file says so itself:

    settle:
      areas:
        neuron: pe                             # one component
        memory_bit: {weights_spad: 3072}       # a component, and how many of the part it holds

| components | part |
|---|---|
| mac; or multiplier and adder; and a converter, where there is one | `neuron` |
| cells (cim, rram) | `cell` |
| adc, dac | `converter`, the mean of both |

No name tells how many bits a memory holds. Of several components of a sort the smallest is the
value, and all are the range.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hw_sim.prices.accelergy_names import components, named, sort_of
from hw_sim.prices.checks import check_choice, check_count, check_number, check_table
from hw_sim.prices.reading import ENTRIES


class Area(NamedTuple):
    """Of a component or a part, in square micrometres."""

    name: str
    low: float
    value: float
    high: float

    def plus(self, other: "Area") -> "Area":
        """Return the area of both together."""
        ends = self.low + other.low, self.value + other.value, self.high + other.high
        return Area(f"{self.name} + {other.name}", *ends)


def area_prices(table: Any, said: Any, path: Path) -> dict[str, dict[str, Any]]:
    """Return the areas of a table as prices in the fields of a technology file."""
    where = f"{path}: ART"
    areas = []
    for name, component in components(where, table, "area"):
        area = check_number(f"{where}, {name}", "area", component.get("area"))
        areas.append((name, Area(name, area, area, area)))
    found = _by_names([area for _, area in areas])
    found |= _told(f"{path}: settle, areas", said, areas)
    fields = {"unit": "um2", "node": "not stated", "status": "read"}
    return {
        part: {"low": area.low or area.value, "value": area.value, "high": area.high}
        | fields
        | {"source": f"Accelergy table {path.name}: {area.name}"}
        for part, area in found.items()
    }


def _by_names(areas: Sequence[Area]) -> dict[str, Area]:
    """Return the parts that names of components tell."""
    sorts: dict[str, list[Area]] = {}
    for area in areas:
        sorts.setdefault(sort_of(area.name), []).append(area)
    least = {sort: _least(alike) for sort, alike in sorts.items()}
    found = {part: least[part] for part in ("cell",) if part in least}
    ends = [least[sort] for sort in ("adc", "dac") if sort in least]
    if ends:
        found["converter"] = _mean(ends)
    made_of = ("mac",) if "mac" in least else ("multiplier", "adder")
    if all(sort in least for sort in made_of):
        neuron = least[made_of[0]]
        for more in [*(least[sort] for sort in made_of[1:]), *([_mean(ends)] if ends else [])]:
            neuron = neuron.plus(more)
        found["neuron"] = neuron
    return found


def _least(areas: Sequence[Area]) -> Area:
    """Return the smallest, within the range of all; a zero is no estimate."""
    least = min(areas, key=lambda area: area.value or float("inf"))
    return least._replace(low=min(a.low for a in areas), high=max(a.high for a in areas))


def _mean(areas: Sequence[Area]) -> Area:
    value, name = sum(a.value for a in areas) / len(areas), " and ".join(a.name for a in areas)
    return Area(name, min(a.low for a in areas), value, max(a.high for a in areas))


def _told(where: str, parts: Any, areas: Sequence[tuple[str, Area]]) -> dict[str, Area]:
    """Return the parts that the file maps itself: to a component, or to what some of them hold."""
    found = {}
    for part, given in check_table(where, parts, "of components by part").items():
        check_choice(where, "part", part, ENTRIES["area"])
        place = f"{where}, {part}"
        held = list(given.items()) if isinstance(given, dict) else []
        shares = [_share(place, name, number, areas) for name, number in held or [(given, 1)]]
        found[part] = _least(shares)
    return found


def _share(where: str, name: Any, number: Any, areas: Sequence[tuple[str, Area]]) -> Area:
    """Return the area of one of the parts that a component holds so many of."""
    whole = named(where, name, areas)
    check_count(f"{where}, {whole.name}", "number", number)
    return Area(whole.name, whole.low / number, whole.value / number, whole.high / number)
