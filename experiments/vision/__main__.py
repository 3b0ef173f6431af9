"""Train convolutional networks by EqProp and by backprop on the same images, and compare them.

Without options: 10,000 images of Fashion-MNIST and its whole test part, three seeds, in under eight
minutes on two cores. The images are read from $SETTLE_DATA/fashion_mnist or downloaded; without
either, scikit-learn's digits stand in. Finished runs are kept in the output folder: a second call
goes on where the first one stopped.
"""

import argparse
import hashlib
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from joblib import cpu_count
from rich.console import Console

from adapters.torch_arrays import pick_device
from engine.errors import EngineError
from experiments.contest.finish import KEPT, Crew, finish
from experiments.contest.grid import print_chosen
from experiments.contest.report_files import FILES
from experiments.machine import describe_machine
from experiments.options import (
    add_out,
    add_workers,
    command_parser,
    named_path,
    parse,
    positive,
    seed_count,
)
from experiments.output import prepare_output
from experiments.records import write_text
from experiments.shell import guarded, make_console
from experiments.tasks import MissingDataError, Task, TaskError, find_task, images_from_file
from experiments.vision.contestants import VisionJob, compile_kernels
from experiments.vision.report import TABLE, print_summary, write_report
from experiments.vision.roster import FULL, VISION_TASKS
from experiments.vision.settings import NETWORKS, settings_for
from experiments.vision.tune import choose, contestants_on, tuning_jobs

FIRST_SEED = 42
USUAL, STAND_IN = "fashion_mnist_10k", "digits"
DEVICES = ("cpu", "cuda", "mps")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, given = parse(_parser(), arguments)
    console = make_console()

    def work() -> int:
        if options.device is not None:
            pick_device(options.device, "float32")  # or a sentence that it is not here
        if options.tune:
            tune(options, console)
        else:
            compare(options, shlex.join(["python", "-m", "experiments.vision", *given]), console)
        return 0

    return guarded(work, console, (EngineError, TaskError), KEPT)


def compare(options: argparse.Namespace, command: str, console: Console) -> None:
    """Do the runs that are not done yet, write the report and print its tables."""
    prepare_output(options.out, *FILES, TABLE)
    tasks, overrides = _tasks(options, console), _overrides(options)
    jobs = []
    for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
        for task in tasks:
            for name in contestants_on(task.name):
                settings = replace(settings_for(task.name, name), **overrides)
                jobs.append(_marked(VisionJob(task, name, seed, settings), options.data))
    _check_networks(jobs)
    records = finish(jobs, options.out / "runs", _crew(options, console))
    summary = write_report(records, options.out, command, describe_machine())
    print_summary(records, summary, console)
    console.print(f"The whole report: {options.out / 'report.html'}", soft_wrap=True)
    console.print(f"The table for a README: {options.out / TABLE}", soft_wrap=True)


def tune(options: argparse.Namespace, console: Console) -> None:
    """Try every point of the grids on the validation split and print the best."""
    path = options.out / "tuning.json"
    prepare_output(options.out, path.name)
    tasks, overrides = _tasks(options, console), _overrides(options)
    folder, crew = options.out / "tuning", _crew(options, console)
    jobs = [_marked(job, options.data) for job in tuning_jobs(tasks, overrides)]
    _check_networks(jobs)
    chosen = choose(zip(jobs, finish(jobs, folder, crew), strict=True))
    print_chosen(chosen, console)
    write_text(path, json.dumps({"chosen": chosen}, indent=1))
    console.print(f"All of it: {path}", soft_wrap=True)
    console.print("To use it, enter it in experiments/vision/settings.py.")


def _crew(options: argparse.Namespace, console: Console) -> Crew:
    shared = options.device in ("cuda", "mps")  # one device for all
    workers = options.workers or (1 if shared else cpu_count())
    return Crew(options.out, workers, options.fresh, console, compile_kernels)


def _tasks(options: argparse.Namespace, console: Console) -> list[Task]:
    names = [*(options.tasks or ()), *(FULL if options.full else ())]
    tasks = [find_task(name, VISION_TASKS) for name in dict.fromkeys(names)]
    if options.data:
        tasks.append(images_from_file(options.data))
    return tasks or [_usual_task(console)]


def _usual_task(console: Console) -> Task:
    """Return the task of a call without any, or the one that stands in for it."""
    try:
        VISION_TASKS[USUAL].load(FIRST_SEED)
    except MissingDataError as error:
        console.print(
            f"Digits of 8x8 pixels stand in for Fashion-MNIST, since {error}", soft_wrap=True
        )
        return VISION_TASKS[STAND_IN]
    return VISION_TASKS[USUAL]


def _overrides(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the options change in every setting."""
    layers = NETWORKS[options.network] if options.network else None
    given = {"epochs": options.epochs, "device": options.device, "layers": layers}
    return {name: value for name, value in given.items() if value is not None}


def _check_networks(jobs: Sequence[VisionJob]) -> None:
    """Refuse images that a network cannot take, before anything is trained."""
    for job in {job.task.name: job for job in jobs}.values():
        _ = job.network


def _marked(job: VisionJob, data: Path | None) -> VisionJob:
    """Mark a job on a user's file with its checksum, so that other contents are another run."""
    if job.task.name in VISION_TASKS or data is None or not data.is_file():
        return job
    checksum = hashlib.sha256(data.read_bytes()).hexdigest()
    return replace(job, settings=replace(job.settings, data=checksum))


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.vision", __doc__)
    add = parser.add_argument
    add("--tasks", nargs="+", metavar="NAME", help=f"tasks: {', '.join(VISION_TASKS)}")
    add("--full", action="store_true", help=f"the whole table, in hours: {', '.join(FULL)}")
    add(
        "--data",
        type=named_path,
        metavar="FILE",
        help="your own images: .npz with x (samples, height, width, channels) and y",
    )
    add("--network", choices=NETWORKS, help="dchn: 128-256-512-512 as published, for a GPU")
    add("--device", choices=DEVICES, help="EqProp on torch, there (default: compiled kernels)")
    add("--seeds", type=seed_count, default=3, metavar="N", help=f"seeds from {FIRST_SEED} on (3)")
    add("--epochs", type=positive, metavar="N", help="epochs in place of those of the settings")
    add_out(parser, "results/vision")
    add("--fresh", action="store_true", help="repeat runs that are already in the folder")
    add_workers(parser, "runs")
    parser.set_defaults(workers=None)  # it depends on the device
    add("--tune", action="store_true", help="choose the settings on the validation split instead")
    return parser


if __name__ == "__main__":
    sys.exit(main())
