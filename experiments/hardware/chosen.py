"""What the options of the command choose: network, settings, task, chips and prices."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

from engine.errors import EngineError, shown
from experiments.hardware.applicable import unused_on
from experiments.hardware.contest import check_prices
from experiments.hardware.job import make_rival
from experiments.hardware.kept_runs import file_checksum
from experiments.hardware.own_network import (
    OwnNetwork,
    check_fits,
    find_network,
    runnable_substrates,
    token_task,
)
from experiments.hardware.pairing import check_paired, priced_chips
from experiments.hardware.settings import CONV, LEARNERS, Settings, changed
from experiments.tasks import Task, TaskError, find_task, images_from_file, task_from_file
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.crossbar import CROSSBAR
from hw_sim.chips.digital import DIGITAL
from hw_sim.chips.spiking import SPIKING
from hw_sim.prices.cell_presets import PRESETS, priced_with
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import Technology, load_technologies, shipped_technologies
from hw_sim.prices.yaml_file import load_yaml


@dataclass(frozen=True)
class Chosen:
    """What the options of a command choose; each part is found, or refused, when asked for."""

    options: argparse.Namespace

    @cached_property
    def own(self) -> OwnNetwork | None:
        """The user's own network, if there is one."""
        return find_network(self.options.network)

    @cached_property
    def settings(self) -> Settings:
        """Of all runs: a preset first, then `--set`, then the options for one chip."""
        options = self.options
        settings = self.own.settings if self.own else Settings()
        if options.cells:
            settings = changed(settings, PRESETS[options.cells].assignments(CROSSBAR.name))
        settings = changed(settings, [*options.set, *_chip_assignments(options)])
        for learner, chip in product(LEARNERS, CHIPS):  # refuse what the engine refuses
            settings.chosen(learner, chip, options.network).training(0)
            make_rival(learner, settings)
        return settings

    @cached_property
    def task(self) -> Task:
        """The task, which has to fit the user's own network."""
        own, options = self.own, self.options
        if own is not None and own.reads_tokens:
            if options.data:
                raise TaskError(
                    f"network {own.title} reads tokens: it is run on sequences, not files."
                )
            return token_task(own)
        sees_images = options.network == CONV or (own is not None and own.sees_images)
        read = images_from_file if sees_images else task_from_file
        task = read(options.data) if options.data else find_task(options.task)
        if own is not None:
            check_fits(own, task)
        return task

    @cached_property
    def data(self) -> str:
        """Checksum of the user's data; empty for a task of the command."""
        return file_checksum(self.options.data) if self.options.data else ""

    @cached_property
    def substrates(self) -> list[str]:
        """Names of the chips: those asked for, or all for which there is a technology."""
        asked = list(dict.fromkeys(self.options.substrate or ()))
        if self.own is not None and (asked or self.own.refused):
            return runnable_substrates(self.own, asked, self.settings)
        found = asked or priced_chips(self.technologies, self.priced_in)
        if self.own is not None:
            return runnable_substrates(self.own, found, self.settings)
        return found

    @cached_property
    def _technologies(self) -> tuple[dict[str, Technology], list[str] | None]:
        shipped, asked = shipped_technologies(), dict.fromkeys(self.options.technology or ())
        if self.options.cells:
            preset = PRESETS[self.options.cells]
            shipped = {name: priced_with(found, preset) for name, found in shipped.items()}
        known, chosen = shipped, []
        for text in asked:
            if text in shipped:
                chosen.append(text)
            else:
                own = _own_technologies(Path(text))
                for name in own:
                    if name in known:
                        raise TechnologyError(
                            f"{text}: technology {shown(name)} has the name of another one: "
                            "give it a name of its own."
                        )
                known = {**known, **own}
                chosen += list(own)
        return known, chosen or None

    @property
    def technologies(self) -> Mapping[str, Technology]:
        """All technologies by name."""
        return self._technologies[0]

    @property
    def priced_in(self) -> list[str] | None:
        """The names of those that were asked for; `None` for those of each chip."""
        return self._technologies[1]

    def check(self) -> None:
        """Refuse what does not fit together, before any work."""
        _ = self.settings, self.task
        check_paired(self.substrates, self.technologies, self.priced_in)
        unused = unused_on(self.options, self.substrates)
        if unused:
            raise EngineError(f"{unused}.")
        try:
            check_prices(self.substrates, self.settings.chips, self.technologies, self.priced_in)
        except TechnologyError as error:
            if self.options.substrate or self.priced_in is None:
                raise
            said = str(error).rstrip(".")
            raise TechnologyError(f"{said}; --substrate says which chips it is for.") from None


def _chip_assignments(options: argparse.Namespace) -> list[str]:
    """Return what the options for one chip set."""
    found: dict[str, int] = {}
    if options.bits:
        if len(options.bits) > 2:
            raise EngineError(f"--bits takes one or two widths, not {len(options.bits)}.")
        names = (f"{DIGITAL.name}.weight_bits", f"{DIGITAL.name}.state_bits")
        found |= dict(zip(names, options.bits, strict=False))
    if options.tiles:
        names = (f"{CROSSBAR.name}.tile_rows", f"{CROSSBAR.name}.tile_columns")
        found |= dict(zip(names, options.tiles, strict=True))
    if options.neurons_per_core is not None:
        found[f"{SPIKING.name}.neurons_per_core"] = options.neurons_per_core
    return [f"{name}={value}" for name, value in found.items()]


def _own_technologies(path: Path) -> dict[str, Technology]:
    if path.suffix == ".toml":
        return load_technologies(path)
    if path.suffix not in (".yaml", ".yml"):
        raise TechnologyError(f"there is no technology '{path}'.")
    found = load_yaml(path)
    return {found.name: found}
