"""Train a resistive network by equilibrium propagation, and say what it gets right.

The settings were chosen on the validation part of MNIST, with 6,000 and 20,000 of its training
images, and for several hidden layers on that of Fashion-MNIST with 20,000 (`docs/circuits.md`).
With --hold-out validation the test part is not looked at. Each seed's network is saved as
`circuit-SEED.npz`, which `python -m experiments.circuit spice` takes. With --spice the voltages of
every phase, in training and in the end, are those that ngspice finds: the circuit is in the loop.
"""

import argparse
import json
import time

import numpy as np
from rich.console import Console

from adapters.spice_backend import SpiceBackend
from adapters.spice_netlist import Parts
from engine import Backend, Network, NumbaBackend, evaluate, fit, initial_params, save
from engine.learning.run import Epoch
from experiments.circuit.recipe import (
    DEEP_AMPLIFICATION,
    INPUT_AMPLIFICATION,
    RATE,
    TOTAL,
    amplification_of,
    circuit,
    settings,
)
from experiments.machine import describe_machine
from experiments.options import add_out, positive, positive_number, seed_count
from experiments.output import prepare_output
from experiments.progress import progress_bars
from experiments.records import write_text
from experiments.shell import make_console
from experiments.tasks import Split, find_task

FIRST_SEED = 42
RECORD = "circuits.json"
PARTS = ("input_amplification", "amplification", "total")
"""What the options say of the circuit, beside its sizes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--task", default="digits", metavar="NAME", help="digits, mnist or fashion_mnist (digits)")
    add(
        "--hidden", nargs="+", type=positive, default=[128], metavar="N", help="nodes of each layer"
    )
    add("--epochs", type=positive, default=20, metavar="N", help="passes over the data (20)")
    add("--batch-size", type=positive, default=32, metavar="N", help="samples of an update (32)")
    add("--samples", type=positive, metavar="N", help="train on so many samples alone")
    add("--rate", type=positive_number, default=RATE, metavar="R", help=f"of Adam ({RATE:g})")
    add(
        "--amplification",
        type=positive_number,
        metavar="A",
        help=f"between layers (1; with several hidden layers {DEEP_AMPLIFICATION:g})",
    )
    add(
        "--input-amplification",
        type=positive_number,
        default=INPUT_AMPLIFICATION,
        metavar="A",
        help=f"of the inputs ({INPUT_AMPLIFICATION:g})",
    )
    add(
        "--total",
        type=positive_number,
        default=TOTAL,
        metavar="S",
        help=f"conductance that meets at a node at the start, on average ({TOTAL:g})",
    )
    add("--spice", choices=("ideal", "shockley"), help="relax by ngspice, with diodes of this kind")
    add("--saturation", type=positive_number, default=1e-14, metavar="A", help="of a diode (1e-14)")
    add("--emission", type=positive_number, default=1.0, metavar="N", help="of a diode (1)")
    add("--hold-out", choices=("test", "validation"), default="test", help="what is judged by")
    add("--seeds", type=seed_count, default=1, metavar="N", help=f"seeds from {FIRST_SEED} on (1)")
    add_out(parser, "results/circuit")


def run(options: argparse.Namespace) -> int:
    """Train with each seed, print and write what came out."""
    console, task = make_console(), find_task(options.task)
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    if options.amplification is None:
        options.amplification = amplification_of(options.hidden)
    parts = {name: getattr(options, name) for name in PARTS}
    prepare_output(options.out, RECORD, *(f"circuit-{seed}.npz" for seed in seeds))
    records = []
    for seed in seeds:
        split = task.load(seed)
        network = circuit(task.inputs, options.hidden, task.classes, **parts)
        records.append(_train(network, split, seed, options, console))
        about = {"task": task.name, "sizes": [task.inputs, *options.hidden, task.classes]}
        whole = about | parts | {"rate": options.rate, "machine": describe_machine()}
        whole |= {"runs": records}
        write_text(options.out / RECORD, json.dumps(whole, indent=1))
    found = np.array([record["accuracy"] for record in records])
    spread = f" ± {100 * found.std(ddof=1):.2f}" if len(found) > 1 else ""
    console.print(
        f"{task.title}, {'-'.join(map(str, about['sizes']))}: {100 * found.mean():.2f}{spread} % "
        f"of the {options.hold_out} part right; seeds: {len(found)}.",
        soft_wrap=True,
    )
    return 0


def _train(
    network: Network, split: Split, seed: int, options: argparse.Namespace, console: Console
) -> dict[str, float | int | str]:
    """Train with a seed; save the network and return what was measured."""
    x_judged, y_judged = split.x_valid, split.y_valid
    if options.hold_out == "test":
        split, x_judged, y_judged = split.joined(), split.x_test, split.y_test
    x, y = split.x_train[: options.samples], split.y_train[: options.samples]
    params = initial_params(network, np.random.default_rng(seed))
    training = settings(params, options.epochs, options.batch_size, seed, options.rate)
    backend: Backend = NumbaBackend(network, params)
    if options.spice is not None:
        backend = SpiceBackend(
            network, params, Parts(options.spice, options.saturation, options.emission)
        )
    began, busy = time.perf_counter(), time.process_time()

    def tell(epoch: Epoch) -> None:
        console.print(f"seed {seed}, epoch {epoch.number}: {epoch.summary()}", soft_wrap=True)

    with progress_bars() as show_bar:
        epochs = fit(
            backend,
            x,
            y,
            training,
            on_epoch=tell,
            progress=lambda done, total, note: show_bar(f"seed {seed}", done, total, note),
        )
    seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    judged = evaluate(backend, x_judged, y_judged, training.settled)
    save(options.out / f"circuit-{seed}.npz", backend.params)
    accuracy = float(judged.accuracy or 0.0)
    console.print(
        f"seed {seed}: {100 * accuracy:.2f} % right; {seconds:.0f} s, of a processor {cpu:.0f} s; "
        f"{epochs[-1].free_steps:.1f} and {epochs[-1].nudged_steps:.1f} sweeps of a sample",
        soft_wrap=True,
    )
    return {
        "seed": seed,
        "relaxed by": f"ngspice, {options.spice} diodes" if options.spice else "the engine",
        "judged by": str(options.hold_out),
        "samples": len(x),
        "accuracy": accuracy,
        "cost": float(judged.cost),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "free_steps": epochs[-1].free_steps,
        "nudged_steps": epochs[-1].nudged_steps,
        "unsettled": epochs[-1].unsettled,
    }
