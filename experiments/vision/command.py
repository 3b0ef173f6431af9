"""The work of the vision command: what is run, compared, tuned and printed."""

import argparse
import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from rich.console import Console

from adapters.torch_arrays import pick_device
from engine.errors import EngineError
from experiments.contest.finish import KEPT, Crew, finish, keeping, say_networks, workers_for
from experiments.contest.given_settings import GivenSettings, check_jobs, given_settings
from experiments.contest.grid import print_chosen
from experiments.contest.looks import looks_at, run_looks
from experiments.contest.report_files import FILES
from experiments.contest.summary import ContestSummary, summarise
from experiments.machine import describe_machine
from experiments.options import FIRST_SEED
from experiments.output import prepare_output
from experiments.records import Record, write_text
from experiments.shell import guarded, make_console
from experiments.tasks import MissingDataError, Task, TaskError, find_task, images_from_file
from experiments.vision.choices import FULL, NETWORKS, VISION_TASKS
from experiments.vision.contestants import VisionJob, compile_kernels
from experiments.vision.report import TABLE, print_summary, write_report
from experiments.vision.roster import EQPROP, roster_for
from experiments.vision.settings import settings_for
from experiments.vision.tune import GRID, budget_for, choose, contestants_on, tuning_jobs

SEEDS = 3
"""If nothing is said."""
USUAL, STAND_IN = "fashion_mnist_10k", "digits"


def run(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Do what the options ask for; return the exit code."""
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
    given, tasks = _given(options), {task.name: task for task in _tasks(options, console)}
    given.check_tasks(list(tasks))
    looks = looks_at(options, dict.fromkeys(tasks, SEEDS))

    def jobs_of(task: str, seeds: range, first: bool) -> list[VisionJob]:
        jobs = []
        for seed, name in product(seeds, contestants_on(task)):
            settings = given.apply(settings_for(task, name), task, name)
            job = _marked(VisionJob(tasks[task], name, seed, settings), options.data)
            jobs.append(keeping(job, options))
        return jobs

    def done(jobs: list[VisionJob]) -> list[Record]:
        check_jobs(jobs)
        return finish(jobs, options.out / "runs", _crew(options, console))

    def summary_of(records: list[Record]) -> ContestSummary:
        return summarise(roster_for(records), records, {}, len(looks))

    records = run_looks(looks, jobs_of, done, summary_of, EQPROP, console)
    summary = write_report(records, options.out, command, describe_machine(), len(looks))
    print_summary(records, summary, console)
    console.print(f"The whole report: {options.out / 'report.html'}", soft_wrap=True)
    say_networks(options, console)
    console.print(f"The table for a README: {options.out / TABLE}", soft_wrap=True)


def tune(options: argparse.Namespace, console: Console) -> None:
    """Try every point of the grids on the validation split and print the best."""
    path = options.out / "tuning.json"
    prepare_output(options.out, path.name)
    given, tasks = _given(options), _tasks(options, console)
    folder, crew = options.out / "tuning", _crew(options, console)
    budgets = {task.name: given.apply(budget_for(task.name), task.name, "") for task in tasks}
    jobs = [_marked(job, options.data) for job in tuning_jobs(tasks, budgets)]
    check_jobs(jobs)
    chosen = choose(zip(jobs, finish(jobs, folder, crew), strict=True))
    print_chosen(chosen, console)
    write_text(path, json.dumps({"chosen": chosen, "given": given.as_given()}, indent=1))
    console.print(f"All of it: {path}", soft_wrap=True)
    console.print(f"To use it: --settings {path}", soft_wrap=True)


def _given(options: argparse.Namespace) -> GivenSettings:
    layers = NETWORKS[options.network] if options.network else None
    named = {"epochs": options.epochs, "device": options.device, "layers": layers}
    return given_settings(options, named, GRID)


def _crew(options: argparse.Namespace, console: Console) -> Crew:
    return Crew(options.out, workers_for(options), options.fresh, console, compile_kernels)


def _tasks(options: argparse.Namespace, console: Console) -> list[Task]:
    names = [*(options.tasks or ()), *(FULL if options.full else ())]
    tasks = [find_task(name, VISION_TASKS) for name in dict.fromkeys(names)]
    if options.data:
        tasks.append(images_from_file(options.data, options.label))
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


def _marked(job: VisionJob, data: Path | None) -> VisionJob:
    """Mark a job on a user's file with its checksum, so that other contents are another run."""
    if job.task.name in VISION_TASKS or data is None or not data.is_file():
        return job
    checksum = hashlib.sha256(data.read_bytes()).hexdigest()
    return replace(job, settings=replace(job.settings, data=checksum))
