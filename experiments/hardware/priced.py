"""What was priced: task, network, training, chips, prices and cells of a report."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from engine.couplings.link import INPUT, OUTPUT
from engine.model.network import Network
from experiments.hardware.job import Outcome
from experiments.hardware.network_drawing import boxes_of, draw_network
from experiments.hardware.report_tables import LEARNER_TITLES, STATUS_TONES
from experiments.reporting.document import Badge, Block, Table
from experiments.reporting.number_text import NONE
from hw_sim.prices.cell_presets import PRESETS
from hw_sim.prices.technology import Technology

UNSTATED = ("seed", "device")
"""Settings of a chip that are said elsewhere, or only where they are set."""


def priced_rows(
    task: str,
    outcomes: Sequence[Outcome],
    technologies: Mapping[str, Technology],
    networks: Mapping[str, Network],
    skip: Collection[str] = (),
) -> list[tuple[str, str]]:
    """Return what a report is about, line by line; settings that a grid moves are left out."""
    first = outcomes[0]
    settings, eqprop = first.settings, networks["eqprop"]
    seeds = sorted({o.seed for o in outcomes})
    rates = {(o.learner, o.substrate): o.settings["lr"] for o in outcomes}
    rows = [
        (
            "Task",
            f"{task}: {first.n_train:,} training, {first.n_valid:,} validation and "
            f"{first.n_test:,} test samples",
        ),
        *(
            (f"Network of {LEARNER_TITLES[learner]}", _network_text(networks[learner]))
            for learner in LEARNER_TITLES
            if learner in networks and (learner == "eqprop" or networks[learner] != eqprop)
        ),
        *(
            ("Network of the trends", _network_text(network))
            for name, network in networks.items()
            if name == "sweep"
        ),
        (
            "Training",
            f"{_epochs_text(settings['epochs'])} in batches of {settings['batch_size']}, Adam; "
            "learning rates " + _rates_text(rates),
        ),
        (
            "Relaxation of EqProp",
            f"beta {settings['beta']:g}, at most {settings['free_steps']} free and "
            f"{settings['nudged_steps']} nudged steps, tolerance {settings['tolerance']:g}, "
            f"spectral cap {settings['cap']:g}",
        ),
        ("Seeds", _seeds_text(seeds)),
    ]
    for substrate in dict.fromkeys(o.substrate for o in outcomes):
        chip = next(o for o in outcomes if o.substrate == substrate).settings[substrate]
        rows.append((f"Chip {substrate}", _chip_text(substrate, chip, skip)))
    rows += [(f"Technology {name}", found.title) for name, found in technologies.items()]
    return rows


def priced_blocks(
    task: str,
    outcomes: Sequence[Outcome],
    technologies: Mapping[str, Technology],
    networks: Mapping[str, Network],
    cells: str = "",
    skip: Collection[str] = (),
) -> list[Block]:
    """Return a table of what was priced, the network as a drawing, and the cells it is made of."""
    rows = tuple(priced_rows(task, outcomes, technologies, networks, skip))
    blocks: list[Block] = [Table("Task, training, chips", ("What", "Which"), rows, text_columns=2)]
    blocks.append(draw_network(networks["eqprop"]))
    return [*blocks, _cells_table(cells)] if cells else blocks


def _cells_table(name: str) -> Table:
    preset = PRESETS[name]
    rows = tuple(
        (setting, stated.source, Badge(stated.status, STATUS_TONES[stated.status]),
         f"{stated.value:g}")
        for setting, stated in preset.settings.items()
    )  # fmt: skip
    caption = (
        f"{preset.title}. What is not stated here is as the crossbar has it; the prices of a read "
        "and of a write stand with all others."
    )
    return Table(f"Cells {name}", ("Setting", "Source", "Status", "Value"), rows, caption, 3)


def _network_text(network: Network) -> str:
    held = ", ".join(
        text if name in (INPUT, OUTPUT) else f"{name} {text}"
        for name, text in boxes_of(network).items()
    )
    return f"{held}; {network.size:,} parameters"


def _chip_text(substrate: str, chip: Mapping[str, Any], skip: Collection[str]) -> str:
    moved = {name for name in chip if name in skip or f"{substrate}.{name}" in skip}
    shown = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in chip.items()
        if name not in moved and name not in UNSTATED and value is not None
    ]
    shown += [f"device {chip['device']}"] if chip.get("device") else []
    return ", ".join(shown) or NONE


def _rates_text(rates: Mapping[tuple[str, str], float]) -> str:
    """Return one rate of a learner if all its chips share it, else each with its chip."""
    said = []
    for learner in dict.fromkeys(who for who, _ in rates):
        own = {chip: rate for (who, chip), rate in rates.items() if who == learner}
        if len(set(own.values())) == 1:
            text = f"{next(iter(own.values())):g}"
        else:
            text = ", ".join(f"{rate:g} on {chip}" for chip, rate in own.items())
        said.append(f"{LEARNER_TITLES[learner].split(',')[0]} {text}")
    return "; ".join(said)


def _seeds_text(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return str(seeds[0])
    is_run = list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    said = f"{seeds[0]} to {seeds[-1]}" if is_run else ", ".join(map(str, seeds))
    return f"{len(seeds)}: {said}"


def _epochs_text(epochs: int) -> str:
    return "1 epoch" if epochs == 1 else f"{epochs} epochs"
