"""A technology that begins with what a shipped one states, and says only where it differs.

    [my_chip]
    extends = "digital_45nm"
    title = "My chip"

A price, a table and a stage of the machine that the file states replaces the one of that name as a
whole; all others are those of the shipped technology.
"""

from collections.abc import Mapping
from typing import Any

from engine.errors import shown
from hw_sim.prices.checks import TechnologyError, check_choice, check_table

GROUPS = ("energy", "latency", "power", "area", "endurance", "tables", "machine")
"""Entries of a technology that hold others by name."""


def extended(where: str, table: Mapping[str, Any], shipped: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of a technology with all that it takes over from a shipped one."""
    own = dict(table)
    name = own.pop("extends")
    check_choice(where, "extends", name, tuple(shipped))
    begun = {entry: value for entry, value in shipped[name].items() if entry != "title"}
    # Prices that scale with bits are stated for words of this width: another would rescale them.
    bits = begun["reference_bits"]
    if own.get("reference_bits", bits) != bits:
        raise TechnologyError(
            f"{where} has reference_bits {shown(own['reference_bits'])} and extends '{name}', "
            f"whose prices are for {bits}."
        )
    begun["note"] = own.get("note", f"Extends {name}.")
    for group in GROUPS:
        if group in own:
            begun[group] = _merged(f"{where}, {group}", begun.get(group, {}), own.pop(group))
    return begun | own


def _merged(where: str, begun: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """Return the entries of a group; what hides behind the stages of a machine is a group, too."""
    merged = {**begun, **check_table(where, own, "of its entries")}
    if "behind" in begun and "behind" in own:
        merged["behind"] = _merged(f"{where} behind", begun["behind"], own["behind"])
    return merged
