"""Which chips a technology prices: those it is made for, where that is known."""

from collections.abc import Iterable, Mapping, Sequence

from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.chip import Chip
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import Technology


def chips_of(technology: Technology, technologies: Mapping[str, Technology]) -> list[str]:
    """Return the chips that a technology is made for.

    A shipped one has its own. One that extends it has those too, and any other whose events it
    prices by what it adds. Of any other file nothing is known: it is for all.
    """
    begun = technologies.get(technology.extends or technology.name)
    if begun is None or not any(begun.name in chip.technologies for chip in CHIPS.values()):
        return list(CHIPS)
    return [
        name
        for name, chip in CHIPS.items()
        if begun.name in chip.technologies or (_prices(technology, chip) > _prices(begun, chip))
    ]


def technologies_of(
    substrate: str, technologies: Mapping[str, Technology], asked: Sequence[str] | None
) -> list[str]:
    """Return the technologies that a chip is priced in: its own, or those asked for."""
    if asked is None:
        return list(CHIPS[substrate].technologies)
    return [name for name in asked if substrate in chips_of(technologies[name], technologies)]


def priced_chips(technologies: Mapping[str, Technology], asked: Sequence[str] | None) -> list[str]:
    """Return the chips that the technologies asked for are made for; all, if none is asked for."""
    return [name for name in CHIPS if technologies_of(name, technologies, asked)]


def check_paired(
    substrates: Sequence[str],
    technologies: Mapping[str, Technology],
    asked: Sequence[str] | None,
) -> None:
    """Refuse a technology of a chip that is left out, and a chip that none of them prices."""
    for name in asked or ():
        chips = chips_of(technologies[name], technologies)
        if not set(chips) & set(substrates):
            raise TechnologyError(
                f"technology '{name}' is of the {_listed(chips)} chip, and only "
                f"{_listed(substrates)} is run."
            )
    for substrate in substrates:
        if not technologies_of(substrate, technologies, asked):
            raise TechnologyError(
                f"the {substrate} chip is priced by none of the technologies that were asked for."
            )


def _prices(technology: Technology, chip: Chip) -> bool:
    return set(chip.events) <= set(technology.prices["energy"])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
