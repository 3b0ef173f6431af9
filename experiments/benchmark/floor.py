"""Part 1: a relaxation of 30 fixed steps against the bare matrix products that it contains."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from adapters.torch_arrays import torch
from adapters.torch_backend import TorchBackend
from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Relaxation
from engine.learning.spectral import recurrent_norm
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from experiments.benchmark.timing import Contestant, Spread, TimingEffort, fixed_threads, interleave

STEPS = 30
INPUTS, OUTPUTS = 64, 10
NORM = 0.95
COMPILED_CELLS = ((64, 16), (256, 128), (1024, 128))
"""Where `torch.compile` takes part: it compiles again for every shape."""
EFFORT = TimingEffort(1.5, fewest=3, most=40)

NO_COMPILER = "torch.compile was not measured: it needs a C++ compiler, and there is none."


@dataclass(frozen=True)
class Grid:
    """Which relaxations to measure, and how long."""

    widths: tuple[int, ...] = (64, 256, 1024, 2048)
    batches: tuple[int, ...] = (1, 16, 64, 128, 1024)
    compiled: tuple[tuple[int, int], ...] = COMPILED_CELLS
    effort: TimingEffort = EFFORT


@dataclass(frozen=True)
class FloorCell:
    """One contestant at one shape: its time over that of the bare products of the same round.

    `first_seconds` is the first call, with all compilation; `seconds` the median after it.
    """

    contestant: str
    width: int
    batch: int
    threads: int
    ratio: Spread
    seconds: float
    first_seconds: float


def measure_floor(
    grid: Grid, threads: Sequence[int], on_cell: Callable[[str], None]
) -> tuple[list[FloorCell], list[str]]:
    """Measure every shape with every number of threads; also say what could not be measured."""
    notes = [] if has_compiler() else [NO_COMPILER]
    cells: list[FloorCell] = []
    for count in threads:
        with fixed_threads(count):
            for width in grid.widths:
                for batch in grid.batches:
                    on_cell(f"width {width}, batch {batch}, {count} thread(s)")
                    compiled = has_compiler() and (width, batch) in grid.compiled
                    cells += measure_cell(width, batch, count, grid.effort, compiled)
    return cells, notes


def measure_cell(
    width: int, batch: int, threads: int, effort: TimingEffort, compiled: bool
) -> list[FloorCell]:
    """Measure one shape."""
    times = interleave(prepare(width, batch, compiled), effort, threads)
    bare = times["bare products"]
    return [
        FloorCell(
            name,
            width,
            batch,
            threads,
            taken.over(bare),
            float(np.median(taken.rounds)),
            taken.first,
        )
        for name, taken in times.items()
    ]


def prepare(width: int, batch: int, compiled: bool) -> dict[str, Contestant]:
    """Return what is timed, all in float32."""
    rng = np.random.default_rng(0)
    network = looped_mlp(INPUTS, width, OUTPUTS)
    params = initial_params(network, rng)
    # A weak input and a norm near the cap: no sample settles early, so all do all the steps.
    params["W_rec"][...] *= NORM / recurrent_norm(params)
    x = (0.1 * rng.standard_normal((batch, INPUTS))).astype(np.float32)
    state = rng.standard_normal((batch, width)).astype(np.float32)
    out, weight = np.empty_like(state), params["W_rec"]

    def bare() -> None:
        for _ in range(STEPS):
            np.dot(state, weight, out=out)

    numba, other = NumbaBackend(network, params), TorchBackend(network, params, "cpu")
    clamped = numba.clamp(x)
    loop = EagerLoop(clamped.drive, weight)
    contestants: dict[str, Contestant] = {
        "bare products": bare,
        "Settle, numba": partial(_relax, numba, clamped),
        "torch eager": loop.run,
        "Settle, torch backend": partial(_relax, other, other.clamp(x)),
    }
    if compiled:
        contestants["torch.compile"] = CompiledLoop(clamped.drive, weight).run
    return contestants


def _relax(backend: Backend, clamped: Clamped) -> None:
    backend.settle(clamped, relaxation=Relaxation(STEPS, 0.0))


class EagerLoop:
    """The same steps in torch, residuals included, with every buffer allocated beforehand."""

    def __init__(self, drive: FloatArray, weight: FloatArray) -> None:
        self._drive, self._weight = torch.from_numpy(drive), torch.from_numpy(weight)
        self._image, self._gap = torch.empty_like(self._drive), torch.empty_like(self._drive)
        self._residual = torch.empty(len(drive))

    @torch.inference_mode()
    def run(self) -> torch.Tensor:
        """Return the state after all steps."""
        state, image = torch.tanh(self._drive), self._image
        for _ in range(STEPS):
            torch.addmm(self._drive, state, self._weight, out=image)
            image.tanh_()
            torch.sub(image, state, out=self._gap)
            torch.amax(self._gap.abs_(), 1, out=self._residual)
            state, image = image, state
        return state


class CompiledLoop:
    """The same steps as one function for `torch.compile`."""

    def __init__(self, drive: FloatArray, weight: FloatArray) -> None:
        self._inputs = torch.from_numpy(drive), torch.from_numpy(weight)
        self._loop = torch.compile(_plain_loop, dynamic=False)

    @torch.inference_mode()
    def run(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return state and residuals after all steps."""
        ended: tuple[torch.Tensor, torch.Tensor] = self._loop(*self._inputs)
        return ended


def _plain_loop(drive: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    state = torch.tanh(drive)
    residual = torch.zeros(len(drive))
    for _ in range(STEPS):
        image = torch.tanh(torch.addmm(drive, state, weight))
        # Every residual counts, or the compiler would leave all but the last out.
        residual = torch.maximum(residual, torch.amax((image - state).abs(), 1))
        state = image
    return state, residual


def has_compiler() -> bool:
    """Say whether torch will find a C++ compiler."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))
