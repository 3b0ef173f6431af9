"""Watch a trained circuit settle in time: ngspice (`.tran`) beside the engine's equation of motion.

Every node has a capacitance to ground. In the free phase the sources are switched on with all nodes
at zero volts; in the nudged one the current sources of the outputs, at the free voltages. A circuit
has settled when every node stays within a fraction of the largest change of any. The engine counts
time in units of RC: the capacitance over 1 S, the leak of a node. With ideal diodes the settling
times have to agree to one percent.
"""

import argparse
import csv
import io
import json
from dataclasses import asdict

import numpy as np
from rich.console import Console

from adapters.spice_netlist import Parts, check_circuit
from adapters.spice_run import SpiceError, find_ngspice
from engine.learning.checkpoint import load
from engine.model.params import Params
from experiments.circuit.asked import add_circuit, parts_of, samples_of, sizes_of
from experiments.circuit.watching import Conditions, Settling, Watcher
from experiments.circuit.waveform_plot import Waveforms, draw_courses
from experiments.machine import describe_machine
from experiments.options import add_out, positive_number
from experiments.output import prepare_output
from experiments.records import write_bytes, write_text
from experiments.reporting.picture import take_picture
from experiments.shell import make_console
from golden.metric import format_table

GOAL = 0.01
"""Largest difference of two settling times, over that of the engine, with ideal diodes."""
RECORD, PLOT, WAVES = "transient.json", "transient.png", "waveforms.csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_circuit(parser)
    add = parser.add_argument
    farad, share = "of every node, in farads (1e-6)", "of the largest change of a voltage (1e-3)"
    add("--capacitance", type=positive_number, default=1e-6, metavar="F", help=farad)
    add("--fraction", type=positive_number, default=1e-3, metavar="X", help=share)
    add_out(parser, "results/transient")


def run(options: argparse.Namespace) -> int:
    """Write the netlists, run them, and print how long the circuit takes to settle."""
    console, parts = make_console(), parts_of(options)
    params = load(options.network)[0].astype(np.float64)
    check_circuit(params.network)
    if options.fraction >= 1.0:
        raise SpiceError(f"the fraction is {options.fraction:g}, expected less than one.")
    x, y = samples_of(params, options)
    find_ngspice()
    phases = ("free",) if y is None else ("free", "nudged")
    names = [f"{phase}-{k}.cir" for k in options.samples for phase in phases]
    prepare_output(options.out, RECORD, PLOT, WAVES, *names)

    def keep(name: str, text: str) -> None:
        write_text(options.out / name, text)
        console.print(f"Written: {options.out / name}; it runs in ngspice ...", soft_wrap=True)

    watch = Watcher(
        params, Conditions(options.capacitance, options.fraction, options.beta), keep, parts
    )
    courses, found = [], []
    for row, sample in enumerate(options.samples):
        for course, settling in watch.phases(sample, x[row], None if y is None else y[row]):
            courses.append(course)
            found.append(settling)
    _write(params, parts, options, courses, found)
    return _judge(found, parts, options, console)


def _judge(
    found: list[Settling], parts: Parts, options: argparse.Namespace, console: Console
) -> int:
    """Print how long each phase took; return the exit code."""
    heads = ("sample", "phase", "ngspice, s", "engine, s", "engine, RC", "largest V", "apart, V",
             "from the fixed point, V")  # fmt: skip
    rows = [
        (
            s.sample, s.phase, f"{s.spice_s:.5g}", f"{s.engine_s:.5g}", f"{s.time_constants:.4g}",
            f"{s.largest_v:.4g}", f"{s.apart_v:.2g}", f"{s.end_v:.2g}",
        )
        for s in found
    ]  # fmt: skip
    console.print(format_table(heads, rows))
    console.print(
        f"Settled: every node within {options.fraction:g} of the largest change of a voltage. RC "
        f"is {options.capacitance:g} F / 1 S = {options.capacitance:g} s.",
        soft_wrap=True,
    )
    worst = max(abs(s.spice_s / s.engine_s - 1) for s in found)
    if parts != Parts():
        console.print(f"Settling times differ by {worst:.2%}. These parts are not ideal: no goal.")
        return 0
    verdict = "reached" if worst <= GOAL else "missed"
    console.print(f"Settling times differ by {worst:.2%}, goal {GOAL:.0%}: {verdict}.")
    return 0 if worst <= GOAL else 1


def _write(
    params: Params,
    parts: Parts,
    options: argparse.Namespace,
    courses: list[Waveforms],
    found: list[Settling],
) -> None:
    """Write the record, all voltages and the plot."""
    record = {
        "command": options.told,
        "sizes": sizes_of(params.network),
        "parts": asdict(parts),
        "capacitance_f": options.capacitance,
        "fraction": options.fraction,
        "machine": describe_machine(),
        "phases": [asdict(settling) for settling in found],
    }
    write_text(options.out / RECORD, json.dumps(record, indent=1))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("phase", "time_s", "unit", "ngspice_v", "engine_v"))
    for course in courses:
        for at, spice, engine in zip(*course.spice, course.engine.voltages, strict=True):
            for unit, (v, w) in enumerate(zip(spice, engine, strict=True)):
                writer.writerow((course.title, f"{at:.9g}", unit, f"{v:.9g}", f"{w:.9g}"))
    write_text(options.out / WAVES, text.getvalue())
    drawing = draw_courses(courses, [settling.engine_s for settling in found])
    picture = take_picture("transient", "How the circuit settles", "", drawing)
    write_bytes(options.out / PLOT, picture.png)
