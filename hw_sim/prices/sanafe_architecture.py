"""Read an architecture of SANA-FE (YAML) as a technology.

| SANA-FE | energy | time |
|---|---|---|
| synapse `process_spike`, dendrite `update` | `mac` | `busy_synapse` |
| soma `access_neuron` and `update_neuron` | `activation` | `busy_update` |
| soma `spike_out` | `spike_out` | `busy_spike` |
| axon `message_out`, `message_in` | `message`, both | `busy_send`, `busy_receive` |
| tile `hop`, mean of four directions | `hop` | |
| `latency_sync`, fixed or by tiles | | `barrier` |

A dendrite behind the buffer is updated with the soma. SANA-FE takes the first unit of a section
unless told otherwise: that is the value, others of its model are the range. Learning and the border
it does not know: those prices are those of `loihi_like`, with their own sources.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import shown
from hw_sim.events import KINDS, WAITS
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import (
    Technology,
    shipped_technologies,
    technology_from,
)

DIRECTIONS = ("north", "east", "south", "west")
NOT_DESCRIBED = (
    "state_read", "state_write", "weight_read", "weight_write", "trace_read", "trace_write",
    "off_chip", "compare", "divide", "random",
)  # fmt: skip
Table = dict[str, Any]
ROW = ("at", "low", "value", "high")
STEPS: Table = {"unit": "ns", "node": "not stated", "between": "steps", "beyond": "extend"}
BEHIND = {"busy_synapse": [kind for kind in KINDS if kind not in WAITS]}
"""A step waits for its busiest core and for the barrier; all else happens meanwhile."""


def technology_from_architecture(content: Table, path: Path) -> Technology:
    """Read the first core of the first tile of a file, or refuse it in one sentence."""
    where = str(path)
    chip = _table(f"{where}: architecture", content["architecture"])
    tile = _listed(f"{where}: architecture", "tile", chip)[0]
    core = _Core(f"{where}: core", _listed(f"{where}: tile", "core", tile)[0])
    name = chip.get("name")
    energy = core.energies() | {"hop": _hop(f"{where}: tile", tile)}
    said = {"source": f"SANA-FE architecture {path.name}", "status": "read"}
    source, tables = {"node": "not stated"} | said, {}
    latency = {kind: entry | source for kind, entry in core.latencies().items()}
    steps = _barrier(f"{where}: architecture", chip)
    if len(steps) == 1:
        latency["barrier"] = steps[0] | source
    else:
        latency["barrier"] = {"table": "barrier", "over": "tiles"}
        rows = [{name: row[name] for name in ROW} | said for row in steps]
        tables["barrier"] = STEPS | {"rows": rows}
    table = {
        "title": f"SANA-FE architecture {name}",
        "note": "Learning and the border are not described: their prices are those of loihi_like.",
        "energy": {kind: entry | source for kind, entry in energy.items()},
        "latency": latency,
        "tables": tables,
        "machine": {kind: {"per": "chip"} for kind in WAITS} | {"behind": BEHIND},
    }
    found = technology_from(name if isinstance(name, str) else "", table, where)
    other = shipped_technologies()["loihi_like"].prices["energy"]
    priced = {kind: other[kind] for kind in NOT_DESCRIBED} | dict(found.prices["energy"])
    return replace(found, prices={**found.prices, "energy": priced})


@dataclass(frozen=True)
class _Core:
    where: str
    content: Table

    @property
    def early(self) -> bool:
        """Whether dendrites are updated by each event, before the buffer, and not with the soma."""
        given = _attributes(self.where, self.content)
        place, inside = given.get("buffer_position"), given.get("buffer_inside_unit", False)
        if place not in ("soma", "dendrite") or inside:
            raise TechnologyError(
                f"{self.where} has buffer_position {shown(place)} and buffer_inside_unit "
                f"{shown(inside)}, expected a buffer before the 'soma' or the 'dendrite'."
            )
        return bool(place == "soma")

    def energies(self) -> dict[str, Table]:
        """Return low, value and high of each kind, in pJ."""
        synapse, soma = self._synapse_and_soma("energy")
        sent = [("axon_out", "energy_message_out"), ("axon_in", "energy_message_in")]
        found = {"mac": synapse, "activation": soma, "message": sent}
        found["spike_out"] = [("soma", "energy_spike_out")]
        return {kind: _entry(*self._cost(parts), "pJ", 1e12) for kind, parts in found.items()}

    def latencies(self) -> dict[str, Table]:
        """Return low, value and high of each kind, in ns."""
        synapse, soma = self._synapse_and_soma("latency")
        found = {"busy_synapse": synapse, "busy_update": soma}
        found["busy_spike"] = [("soma", "latency_spike_out")]
        found["busy_send"] = [("axon_out", "latency_message_out")]
        found["busy_receive"] = [("axon_in", "latency_message_in")]
        return {kind: _entry(*self._cost(parts), "ns", 1e9) for kind, parts in found.items()}

    def _synapse_and_soma(self, what: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Return what an event meets and what an update takes, as sections and attributes."""
        synapse = [("synapse", f"{what}_process_spike")]
        soma = [("soma", f"{what}_access_neuron"), ("soma", f"{what}_update_neuron")]
        (synapse if self.early else soma).append(("dendrite", f"{what}_update"))
        return synapse, soma

    def _cost(self, parts: list[tuple[str, str]]) -> tuple[float, float, float]:
        """Return low, value and high of a sum, in SI units."""
        spreads = [self._spread(section, name) for section, name in parts]
        low, value, high = (sum(column) for column in zip(*spreads, strict=True))
        return low, value, high

    def _spread(self, section: str, name: str) -> tuple[float, float, float]:
        where = f"{self.where}: {section}"
        found = [_attributes(where, unit) for unit in _listed(self.where, section, self.content)]
        alike = [unit for unit in found if unit.get("model") == found[0].get("model")]
        costs = [_number(where, name, unit.get(name)) for unit in alike]
        least = min((cost for cost in costs if cost > 0.0), default=0.0)
        return min(least, costs[0]), costs[0], max(costs)


def _hop(where: str, tile: Table) -> Table:
    names = [f"energy_{way}_hop" for way in DIRECTIONS]
    paid = [_number(where, name, _attributes(where, tile).get(name)) for name in names]
    mean = sum(paid) / len(paid)
    least = min((cost for cost in paid if cost > 0.0), default=0.0)
    return _entry(least, mean, max(paid), "pJ", 1e12)


def _barrier(where: str, chip: Table) -> list[Table]:
    """Return the times of synchronisation, each from so many tiles on; one that is fixed, or 0."""
    given = _attributes(where, chip)
    model, found = given.get("sync_model", "fixed"), given.get("latency_sync")
    if model == "fixed":
        value = 0.0 if found is None else _number(where, "latency_sync", found)
        return [_entry(value, value, value, "ns", 1e9)]
    by_tiles = dict(enumerate(found)) if isinstance(found, list) else found
    if not (model == "table" and isinstance(by_tiles, dict) and by_tiles) or not all(
        isinstance(tiles, int) and tiles >= 0 for tiles in by_tiles
    ):
        raise TechnologyError(
            f"{where} has sync_model {shown(model)} and latency_sync {shown(found)}, expected "
            "'fixed' and a number, or 'table' and times by tiles."
        )
    first = max((tiles for tiles in by_tiles if tiles <= 1), default=min(by_tiles))
    times = {n: _number(where, "latency_sync", by_tiles[n]) for n in sorted(by_tiles) if n >= first}
    return [
        _entry(time, time, time, "ns", 1e9) | ({"at": max(1, n)} if len(times) > 1 else {})
        for n, time in times.items()
    ]


def _entry(low: float, value: float, high: float, unit: str, scale: float) -> Table:
    return {"low": scale * low, "value": scale * value, "high": scale * high, "unit": unit}


def _attributes(where: str, owner: Table) -> Table:
    return _table(f"{where} attributes", owner.get("attributes"))


def _listed(where: str, section: str, owner: Table) -> list[Table]:
    """Return the tables of a section, at least one."""
    found = owner.get(section)
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list) or not found:
        raise TechnologyError(f"{where} has {section} {shown(found)}, expected a list of units.")
    return [_table(f"{where}: {section}", unit) for unit in found]


def _table(where: str, found: Any) -> Table:
    if not isinstance(found, dict):
        raise TechnologyError(f"{where} is {shown(found)}, expected a table.")
    return found


def _number(where: str, name: str, found: Any) -> float:
    """Return a cost; YAML takes 1e-9 without a point for text."""
    try:
        number = float(found) if isinstance(found, str | int | float) else -1.0
    except ValueError:
        number = -1.0
    if isinstance(found, bool) or not 0.0 <= number < 1.0:
        raise TechnologyError(
            f"{where} has {name} {shown(found)}, expected joules or seconds from 0 to below 1."
        )
    return number
