"""The work of the playground command: a network is trained or read, and put into a page."""

import argparse

import numpy as np
from rich.console import Console

from engine import (
    EngineError,
    NumbaBackend,
    Params,
    Training,
    evaluate,
    fit,
    initial_params,
    load,
    looped_mlp,
)
from experiments.options import FIRST_SEED
from experiments.output import prepare_output
from experiments.playground.agreement import agreement_cases
from experiments.playground.choices import EPOCHS, HIDDEN, VIEWS
from experiments.playground.described import check_drawable, describe
from experiments.playground.page import Words, render_page
from experiments.progress import progress_bars
from experiments.records import write_text
from experiments.shell import guarded, make_console
from experiments.tasks import Split, Task, TaskError, find_task

PAGE = "playground.html"


def run(options: argparse.Namespace) -> int:
    """Write the page; return the exit code."""
    console = make_console()

    def work() -> int:
        prepare_output(options.out, PAGE)
        task = find_task(options.task)
        saved = _saved(options, task)
        split = task.load(options.seed)
        params = saved or _trained(options, task, split, console)
        found = evaluate(NumbaBackend(params.network, params), split.x_test, split.y_test)
        about = _judged(options, task, found.accuracy or 0.0, len(split.x_test))
        words = Words(about, _made(options, params))
        view = VIEWS[task.name]
        samples = _samples(split, options.seed)
        described = describe(params, split, view, samples)
        described["agreement"] = agreement_cases(params, split, samples)
        path = options.out / PAGE
        write_text(path, render_page(described, words, view.size))
        console.print(about, soft_wrap=True)
        console.print(f"Open in a browser: {path}", soft_wrap=True)
        return 0

    return guarded(work, console, (EngineError, TaskError), "Nothing was written.")


def _saved(options: argparse.Namespace, task: Task) -> Params | None:
    """Read the network that was asked for, or refuse it."""
    if options.network is None:
        return None
    params, _, _ = load(options.network)
    check_drawable(params.network, task)
    return params


def _trained(options: argparse.Namespace, task: Task, split: Split, console: Console) -> Params:
    """Train a looped network on the training and the validation part."""
    network = looped_mlp(task.inputs, options.hidden or HIDDEN, task.classes)
    params = initial_params(network, np.random.default_rng(options.seed))
    backend, whole = NumbaBackend(network, params), split.joined()
    training = Training(epochs=options.epochs or EPOCHS, seed=options.seed)
    with progress_bars() as show:
        fit(
            backend,
            whole.x_train,
            whole.y_train,
            training,
            progress=lambda done, total, note: show("training", done, total, note),
        )
    console.print(f"Trained on {len(whole.x_train):,} pictures of {task.title}.")
    return backend.params


def _samples(split: Split, seed: int) -> list[int]:
    """Draw a test picture of every class, whatever the network makes of it."""
    order = np.random.default_rng(seed).permutation(len(split.y_test))
    return [int(order[split.y_test[order] == label][0]) for label in np.unique(split.y_test)]


def _judged(options: argparse.Namespace, task: Task, accuracy: float, pictures: int) -> str:
    """Say how well the network does, and what that is worth."""
    share = f"{100 * accuracy:.1f}\N{NO-BREAK SPACE}% of {pictures:,} test pictures of {task.title}"
    if options.network is None:
        return f"The network below recognises {share}."
    return f"The network below recognises {share}; it may have learnt from some of them."


def _made(options: argparse.Namespace, params: Params) -> str:
    """Say where the network comes from."""
    sizes = ", ".join(str(layer.size) for layer in params.network.layers)
    if options.network is not None:
        return f"The network, of {sizes} units, was read from {options.network.name}."
    seed = "" if options.seed == FIRST_SEED else f", seed {options.seed}"
    epochs = options.epochs or EPOCHS
    return (
        f"The network has {params.network.inputs} inputs, {sizes} units and {params.theta.size:,} "
        f"parameters, trained by equilibrium propagation for {epochs} epochs{seed}."
    )
