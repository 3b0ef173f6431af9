"""The work of the parity command: what is run, compared, tuned and printed."""

import argparse
import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TypeAlias, TypeVar

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
from experiments.output import prepare_output
from experiments.parity.circuits import CircuitJob, circuit_job
from experiments.parity.contestants import ParityJob, compile_kernels
from experiments.parity.report_files import print_summary, write_report
from experiments.parity.roster import CONTESTANTS, CONTROLS, LOOPED, PARITY
from experiments.parity.settings import BEST_BASELINE, budget_of, settings_for, usual_seeds
from experiments.parity.tune import (
    GRIDS,
    afterwards_jobs,
    best_baselines,
    choose,
    tuned_names,
    tuning_jobs,
)
from experiments.records import Record, write_text
from experiments.shell import guarded, make_console
from experiments.tasks import TASKS, Task, TaskError, find_task, task_from_file

Job = TypeVar("Job", ParityJob, CircuitJob)
AnyJob: TypeAlias = ParityJob | CircuitJob
OFFLINE = ("digits", "cartpole", "acrobot")
"""Tasks that need no download."""


def run(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Do what the options ask for; return the exit code."""
    console = make_console()

    def work() -> int:
        if options.device is not None:
            pick_device(options.device, "float32")  # or a sentence that it is not here
        if options.tune:
            tune(options, console)
        else:
            compare(options, shlex.join(["python", "-m", "experiments.parity", *given]), console)
        return 0

    return guarded(work, console, (EngineError, TaskError), KEPT)


def compare(options: argparse.Namespace, command: str, console: Console) -> None:
    """Do the runs that are not done yet, write the report and print its tables."""
    given, tasks = _given(options), {task.name: task for task in _tasks(options)}
    given.check_tasks(list(tasks))
    looks = looks_at(options, {name: usual_seeds(name) for name in tasks})
    roster = replace(PARITY, margin=options.margin)
    best = {**BEST_BASELINE, **given.best_baseline}

    def jobs_of(task: str, seeds: range, first: bool) -> list[AnyJob]:
        controls = CONTROLS if first and not options.no_controls else ()
        jobs: list[AnyJob] = []
        for seed, name in product(seeds, (*CONTESTANTS, *controls)):
            settings = given.apply(settings_for(task, name), task, name, LOOPED)
            job = _marked(ParityJob(tasks[task], name, seed, settings), options.data)
            jobs.append(keeping(job, options))
        if options.circuits:
            circuits = (circuit_job(tasks[task], seed, options.epochs) for seed in seeds)
            jobs += [keeping(_marked(job, options.data), options) for job in circuits]
        return jobs

    def done(jobs: list[AnyJob]) -> list[Record]:
        check_jobs(jobs)
        prepare_output(options.out, *FILES)
        return finish(jobs, options.out / "runs", _crew(options, console))

    def summary_of(records: list[Record]) -> ContestSummary:
        return summarise(roster, records, best, len(looks))

    summary = write_report(
        run_looks(looks, jobs_of, done, summary_of, LOOPED, console),
        options.out,
        roster=roster,
        best_baseline=best,
        looks=len(looks),
        command=command,
        machine=describe_machine(),
    )
    print_summary(summary, console, roster)
    console.print(f"The whole report: {options.out / 'report.html'}", soft_wrap=True)
    say_networks(options, console)


def tune(options: argparse.Namespace, console: Console) -> None:
    """Try every point of the grids on the validation split and print the best."""
    given, tasks, folder = _given(options), _tasks(options), options.out / "tuning"
    budgets = {task.name: given.apply(budget_of(task.name), task.name, "") for task in tasks}
    jobs = [_marked(job, options.data) for job in tuning_jobs(tasks, budgets)]
    check_jobs(jobs)
    prepare_output(options.out, "tuning.json")
    crew = _crew(options, console)
    pairs = list(zip(jobs, finish(jobs, folder, crew), strict=True))
    jobs = [_marked(job, options.data) for job in afterwards_jobs(tasks, budgets, choose(pairs))]
    pairs += zip(jobs, finish(jobs, folder, crew), strict=True)
    chosen = choose(pairs)
    print_chosen(chosen, console)
    best = best_baselines(chosen)
    console.print(f"Best backprop baseline: {best}")
    path = options.out / "tuning.json"
    found = {"chosen": chosen, "best_baseline": best, "given": given.as_given()}
    write_text(path, json.dumps(found, indent=1))
    console.print(f"All of it: {path}", soft_wrap=True)
    console.print(f"To use it: --settings {path}", soft_wrap=True)


def _given(options: argparse.Namespace) -> GivenSettings:
    named = {"epochs": options.epochs, "device": options.device}
    return given_settings(options, named, {name for grid in GRIDS for name in tuned_names(grid)})


def _crew(options: argparse.Namespace, console: Console) -> Crew:
    workers = workers_for(options)
    return Crew(options.out, workers, options.fresh, console, compile_kernels, options.scheduler)


def _tasks(options: argparse.Namespace) -> list[Task]:
    names = list(TASKS) if options.tasks == ["all"] else options.tasks
    if names is None:
        names = [] if options.data else list(OFFLINE)
    tasks = [find_task(name) for name in dict.fromkeys(names)]
    if options.data:
        tasks.append(task_from_file(options.data, options.label, options.target))
    return tasks


def _marked(job: Job, data: Path | None) -> Job:
    """Mark a job on a user's file with its checksum, so that other contents are another run."""
    if job.task.name in TASKS or data is None or not data.is_file():
        return job
    checksum = hashlib.sha256(data.read_bytes()).hexdigest()
    return replace(job, settings=replace(job.settings, data=checksum))
