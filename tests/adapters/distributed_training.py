"""What processes do together in tests: new ones have to import it (`run_together`)."""

import os
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from adapters.torch_backend import TorchBackend
from adapters.torch_module import EqPropModule
from adapters.torch_parallel import ParallelError, Team
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.run import Epoch
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training, fit, train_step
from engine.model.builders import looped_mlp
from engine.model.params import initial_params

SAMPLES, UPDATES = 12, 6
TRAINED, BATCH = 25, 8
"""The last batch has one sample: one of two processes has nothing to do."""
LENGTH = 1003
TRAINING = Training(
    epochs=3, batch_size=BATCH, free=Relaxation(300, 1e-11), nudged=Relaxation(300, 1e-11)
)


def build() -> nn.Sequential:
    """Torch layers before and after the network that settles; the same weights everywhere."""
    torch.manual_seed(0)
    params = initial_params(looped_mlp(4, 8, 3), np.random.default_rng(0), np.float64)
    core = EqPropModule(params, free=Relaxation(200, 1e-10))
    return nn.Sequential(nn.Linear(5, 4), core, nn.Linear(8, 3)).double()


def train(model: nn.Module, core: EqPropModule, rank: int, processes: int) -> None:
    """Take Adam steps on this process' share of each batch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(1)
    for _ in range(UPDATES):
        x = torch.randn(SAMPLES, 5, generator=generator, dtype=torch.float64)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        mine = slice(rank, None, processes)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[mine]), y[mine]).backward()
        optimizer.step()
        core.enforce(SpectralCap(0.9))


def train_module(team: Team) -> np.ndarray:
    """Train the model as torch does it; return its parameters."""
    model = build()
    train(DistributedDataParallel(model), model[1], team.rank, team.count)
    return nn.utils.parameters_to_vector(model.parameters()).detach().numpy()


def backend(kind: str, seed: int = 0) -> Backend:
    """A tiny network on the compiled backend or on torch."""
    network = looped_mlp(4, 8, 3)
    params = initial_params(network, np.random.default_rng(seed), np.float64)
    return (
        NumbaBackend(network, params) if kind == "numba" else TorchBackend(network, params, "cpu")
    )


def data() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels."""
    rng = np.random.default_rng(5)
    return rng.standard_normal((TRAINED, 4)), rng.integers(3, size=TRAINED)


def train_backend(team: Team | None, kind: str) -> tuple[np.ndarray, list[Epoch]]:
    """Train by `fit`, with a team or alone; return the parameters and what was measured."""
    trained = backend(kind)
    history = fit(trained, *data(), TRAINING, step=train_step if team is None else team.step)
    return trained.params.theta.copy(), [replace(epoch, seconds=0.0) for epoch in history]


def die(team: Team) -> None:
    """End one process in the middle of a training, as a lack of memory does."""

    def step(*arguments: Any) -> Any:
        run = arguments[4]
        if team.rank == 1 and run.step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return team.step(*arguments)

    fit(backend("numba"), *data(), TRAINING, step=step)


def fail(team: Team) -> None:
    """Raise in one process."""
    if team.rank == 1:
        raise ValueError("no bread today")
    team.wait()


def differ(team: Team, what: str) -> None:
    """Train with something that is not the same in all processes."""
    seed = team.rank if what == "parameters" else 0
    chosen = replace(TRAINING, decay={"W_in": 0.1 * team.rank}) if what == "settings" else TRAINING
    x, y = data()
    # No cap at the start may hide that they differ.
    fit(backend("numba", seed), x, y, replace(chosen, cap=None), step=team.step)


def sums(team: Team, length: int) -> np.ndarray:
    """Add up arrays that differ from process to process."""
    array = torch.from_numpy(np.random.default_rng(team.rank).standard_normal(length))
    team.add(array)
    return array.numpy()


def refusal(team: Team, what: str) -> str:
    """Return what is said to processes that differ."""
    try:
        differ(team, what)
    except ParallelError as error:
        return str(error)
    return "nothing"


def everything(team: Team) -> dict[str, Any]:
    """Do all that ends well: a process takes long to start."""
    return {
        "rank": team.rank,
        "module": train_module(team),
        "sum": sums(team, LENGTH),
        **{kind: train_backend(team, kind) for kind in ("numba", "torch")},
        **{what: refusal(team, what) for what in ("parameters", "settings")},
    }
