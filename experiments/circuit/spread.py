"""Let devices and diodes differ from their design: train ideally and load, or train in place.

A specimen is a circuit whose conductances are off by factors of their own (the logarithm of a
factor is normal, with the deviation --mismatch), or whose diodes bend beside zero (normal, with
the deviation --diode-spread in volts; hidden nodes have a few volts). Each is loaded with what the
ideal circuit learned, and a second one just like it learns by itself, from the same start and by
the same local rule: no synapse knows its factor. Both are judged on held-out data. Finished
specimens are kept in the output folder: the same command goes on where it was stopped.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from experiments.circuit.specimens import Design, Specimen, Study, Tried
from experiments.circuit.spread_report import PLOT, draw_spread, spread_table
from experiments.machine import describe_machine
from experiments.options import FIRST_SEED, add_out, add_seeds, positive, positive_number
from experiments.output import prepare_output
from experiments.progress import Show, progress_bars
from experiments.records import write_bytes, write_text
from experiments.reporting.markdown_page import render_block
from experiments.reporting.terminal_table import rich_table
from experiments.shell import make_console
from experiments.tasks import Task, find_task

RECORD, TABLE = "spread.json", "spread.md"
MISMATCHES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
DIODE_SPREADS = (0.0, 1.0, 2.0, 4.0, 8.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--task", default="digits", metavar="NAME", help="digits, mnist or fashion_mnist (digits)")
    add("--hidden", nargs="+", type=positive, default=[128], metavar="N", help="nodes of a layer")
    add("--epochs", type=positive, default=20, metavar="N", help="passes over the data (20)")
    add("--batch-size", type=positive, default=32, metavar="N", help="samples of an update (32)")
    add("--samples", type=positive, metavar="N", help="train on so many samples alone")
    add("--mismatch", nargs="+", type=_spread, default=MISMATCHES, metavar="S", help="of devices")
    add(
        "--diode-spread",
        nargs="+",
        type=_spread,
        default=DIODE_SPREADS,
        metavar="V",
        help="of the thresholds of diodes, in volts",
    )
    add("--draws", type=positive, default=5, metavar="N", help="specimens of each spread, seed (5)")
    add(
        "--window",
        type=positive_number,
        default=100.0,
        metavar="R",
        help="largest conductance of a device over its smallest (100)",
    )
    add("--hold-out", choices=("test", "validation"), default="test", help="what is judged by")
    add_seeds(parser, 3)
    add_out(parser, "results/spread")


def run(options: argparse.Namespace) -> int:
    """Try out every specimen that is not done yet; print, draw and write what came out."""
    console, task, design = make_console(), find_task(options.task), _design(options)
    prepare_output(options.out, RECORD, TABLE, PLOT)
    record, wanted = options.out / RECORD, _specimens(options)
    done = _kept(record, design)
    missing = [specimen for specimen in wanted if specimen not in done]
    if len(missing) < len(wanted):
        count = len(wanted) - len(missing)
        console.print(f"{count} of {len(wanted)} specimens were done before.", soft_wrap=True)
    if record.exists() and not done:
        console.print(f"{record} is of another design, and is replaced.", soft_wrap=True)
    _try_out(missing, done, design, task, record, options.told)
    outcomes = [done[specimen] for specimen in wanted]
    table = spread_table(outcomes, task.title, design)
    console.print(rich_table(table, console.width))
    write_text(options.out / TABLE, render_block(table) + "\n")
    write_bytes(options.out / PLOT, draw_spread(outcomes))
    console.print(f"The plot: {options.out / PLOT}; every specimen: {record}", soft_wrap=True)
    return 0


def _try_out(
    missing: list[Specimen],
    done: dict[Specimen, Tried],
    design: Design,
    task: Task,
    record: Path,
    command: str,
) -> None:
    """Train what is missing, and write the record after each specimen."""
    with progress_bars() as show:
        for seed in sorted({specimen.seed for specimen in missing}):
            study, mine = Study(design, task, seed), [s for s in missing if s.seed == seed]
            study.train_ideally(_batches(show, f"seed {seed}, ideal"))
            for count, specimen in enumerate(mine, start=1):
                began = time.process_time()
                outcome = study.try_out(specimen, _batches(show, f"seed {seed}, in place"))
                done[specimen] = outcome
                write_text(record, _as_json(design, done, command))
                note = (
                    f"mismatch {specimen.device:g}, diodes {specimen.diode:g} V: "
                    f"{outcome.loaded:.2%} loaded, {outcome.in_place:.2%} in place, "
                    f"{time.process_time() - began:.1f} s"
                )
                show(f"seed {seed}", count, len(mine), note)


def _batches(show: Show, title: str) -> Callable[[int, int, str], None]:
    """Tell now and then how far one training is: without a total, no batch gets a line."""
    return lambda done, total, _: show(title, done, None, f"{done:,} of {total:,} batches")


def _design(options: argparse.Namespace) -> Design:
    if options.window <= 1.0:
        raise EngineError(f"the window is {options.window:g}, expected more than 1.")
    return Design(
        options.task,
        tuple(options.hidden),
        options.epochs,
        options.batch_size,
        options.samples,
        options.window,
        options.hold_out,
    )


def _specimens(options: argparse.Namespace) -> list[Specimen]:
    """Return each spread of devices with ideal diodes, and each of diodes with ideal devices.

    Without any spread all draws are the same: there is one.
    """
    devices = [(float(spread), 0.0) for spread in options.mismatch]
    diodes = [(0.0, float(spread)) for spread in options.diode_spread]
    return [
        Specimen(device, diode, draw, seed)
        for seed in range(FIRST_SEED, FIRST_SEED + options.seeds)
        for device, diode in dict.fromkeys(devices + diodes)
        for draw in range(options.draws if device or diode else 1)
    ]


def _spread(text: str) -> float:
    """Return a finite number of zero or more, for `type=` of an option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a number of zero or more")
    return value


def _as_json(design: Design, done: dict[Specimen, Tried], command: str) -> str:
    about: dict[str, Any] = {"command": command, "design": design.as_dict()}
    whole = about | {"machine": describe_machine()}
    return json.dumps(whole | {"outcomes": [asdict(one) for one in done.values()]}, indent=1)


def _kept(record: Path, design: Design) -> dict[Specimen, Tried]:
    """Return the outcomes of earlier calls, if they were of this very design."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        if found["design"] != design.as_dict():
            return {}
        outcomes = [
            Tried(**(fields | {"specimen": Specimen(**fields["specimen"])}))
            for fields in found["outcomes"]
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return {outcome.specimen: outcome for outcome in outcomes}
