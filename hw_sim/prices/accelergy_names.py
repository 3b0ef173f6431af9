"""What a component of Accelergy's tables is, by the last part of its name."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from engine.errors import shown
from hw_sim.prices.checks import TechnologyError, check_table

SORTS = {
    "dram": r"dram|hbm",
    "mac": r"mac(_|$)",
    "multiplier": r"mult",
    "adder": r"adder",
    "adc": r"(^|_)adc",
    "dac": r"(^|_)dac",
    "cell": r"cim|rram|reram|memristor|cell",
    "weights": r"weight|filter",
    "states": r"ifmap|ofmap|psum|input|output|activation|state",
    "memory": r"glb|buf|sram|reg|spad|scratchpad|(^|_)rf",
}
"""Of components, by what their names hold; the first that fits."""

Found = TypeVar("Found")


def sort_of(component: str) -> str:
    """Return what a component is; empty where its name does not tell."""
    last = uncounted(component).rpartition(".")[2].lower()
    return next((sort for sort, held in SORTS.items() if re.search(held, last)), "")


def uncounted(name: str) -> str:
    """Return a name without how many there are: `chip.mac` of `chip.mac[1..168]`."""
    return re.sub(r"\[.*?\]", "", name)


def named(where: str, name: Any, every: Iterable[tuple[str, Found]]) -> Found:
    """Return what a name means, which may leave out how many there are, and the system."""
    plain = {uncounted(full): found for full, found in every}
    fits = [f for n, f in plain.items() if isinstance(name, str) and f".{n}".endswith(f".{name}")]
    if len(fits) != 1:
        known = ", ".join(n.split(".", 1)[1] for n in plain)
        raise TechnologyError(f"{where} is {shown(name)}, expected one of {known}.")
    return fits[0]


def components(where: str, table: Any, of: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return every component by its name, in the order of the file, or refuse the table."""
    tables = check_table(where, table, "with tables").get("tables")
    if not isinstance(tables, list) or not tables:
        raise TechnologyError(
            f"{where} has tables {shown(tables)}, expected a list of components (version 0.3 on)."
        )
    found = []
    for component in tables:
        said = check_table(f"{where}, table", component, f"with name and {of}")
        name = said.get("name")
        if not isinstance(name, str) or not name.isprintable() or "." not in name:
            raise TechnologyError(f"{where} has a component {shown(name)}, expected system.name.")
        found.append((name, said))
    return found
