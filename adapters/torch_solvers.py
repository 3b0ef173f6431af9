"""The relaxation loop and its solvers on torch tensors.

A sample that has settled keeps its state. What the loop holds is the state of the samples, and for
`anderson` their last few steps: nothing grows with the number of steps.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from adapters.torch_arrays import torch
from adapters.torch_drives import is_dense
from adapters.torch_phase import Phase
from adapters.torch_products import GRAIN, LARGE, is_fast
from engine.equilibrium import Relaxation
from engine.errors import EngineError, check_count
from engine.model.network import Network

Tensor = torch.Tensor
Ended: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor | None]

RIDGE = 100.0
"""Ridge of the Anderson weights, in units of the rounding of the precision."""


@dataclass(frozen=True)
class Pace:
    """When the loop asks whether samples still move: to ask another device is to wait for it.

    A settled sample is masked in any case, so that no answer depends on the pace.
    """

    check_every: int
    """Steps from one question to the next."""
    gathers: bool = True
    """Whether only the samples that move go on; else the shapes stay as they are."""

    def __post_init__(self) -> None:
        check_count("check_every", self.check_every)

    @staticmethod
    def of(device: torch.device) -> "Pace":
        """Return what suits a device: the CPU answers at once, to ask another is to wait."""
        return Pace(1) if device.type == "cpu" else Pace(8, gathers=False)


class Solver(Protocol):
    """How the next state follows from `T(s)`, for the samples that still move."""

    def select(self, rows: Tensor) -> None:
        """Forget all other samples."""

    def advance(self, state: Tensor, image: Tensor, residual: Tensor) -> Tensor:
        """Return the next state, given `image = T(state)`."""


def settle(phase: Phase, state: Tensor, relaxation: Relaxation, pace: Pace | None = None) -> Ended:
    """Relax every sample until it settles or runs out of steps.

    Returns the state `(samples, units)`, the evaluations of `T` and the residual, `(samples,)`, and
    the drive of the last of them `(samples, units)`, if the phase keeps it.
    """
    pace, phase = pace or Pace.of(state.device), phase.solved(relaxation.solver)
    solver = make_solver(phase.network, relaxation, state)
    if pace.gathers and pace.check_every == 1:
        return _settle_gathered(phase, solver, state, relaxation)
    return _settle_masked(phase, solver, state, relaxation, pace.check_every)


def _settle_masked(
    phase: Phase, solver: Solver, state: Tensor, relaxation: Relaxation, check_every: int
) -> Ended:
    """Go on with all samples, and let those that have settled keep what they have."""
    begun = state
    steps = torch.zeros(len(state), dtype=torch.int64, device=state.device)
    residual, moving = torch.zeros_like(state[:, 0]), torch.ones_like(state[:, 0], dtype=torch.bool)
    for step in range(1, relaxation.max_steps + 1):
        image = phase.image(state, step == 1 and phase.origin is not None)
        reach = (image - state).abs_().amax(-1)
        steps, residual = steps + moving, torch.where(moving, reach, residual)
        moving = moving & (reach > relaxation.tolerance)  # false for NaN, which stops the sample
        if step % check_every == 0 and step < relaxation.max_steps and not moving.any():
            break
        state = torch.where(moving[:, None], solver.advance(state, image, reach), state)
    # The first state is the caller's, which is not to be written into. A state that stays is driven
    # as it was when it settled.
    return (state.clone() if state is begun else state), steps, residual, phase.drive_heard


def _settle_gathered(phase: Phase, solver: Solver, state: Tensor, relaxation: Relaxation) -> Ended:
    """Go on with the samples that move: all of them have taken as many steps.

    The others leave as soon as that makes the batch smaller by a grain; until then they are carried
    along, and what becomes of them is not looked at.
    """
    last, left = relaxation.max_steps, len(state)
    steps = torch.full((left,), last, device=state.device)
    ended: tuple[Tensor, ...] = ()
    places, counted, grain = steps, None, 0  # set when the first samples settle
    for step in range(1, last + 1):
        image = phase.image(state, step == 1 and phase.origin is not None)
        reach = (image - state).abs_().amax(-1)
        moving = reach > relaxation.tolerance  # false for NaN, which stops the sample
        if counted is not None:
            moving &= counted
        if step == last:
            state = torch.where(moving[:, None], solver.advance(state, image, reach), state)
            break
        count = int(torch.count_nonzero(moving))
        if count < left:
            if not ended:
                ended = tuple(map(torch.empty_like, _held(phase, state, reach)))
                places, grain = torch.arange(left, device=state.device), _grain(phase, state)
            done = ~moving if counted is None else counted & ~moving
            there = _store(_held(phase, state, reach), done, places, ended)
            steps.index_fill_(0, there, step)
            if count == 0:
                return _ended(ended, steps)
            left, counted = count, moving
            size = -(-count // grain) * grain
            # To leave takes as long as to go along for a step, if that is a fast one.
            if size < len(state) and (grain == 1 or step + 1 < last):
                rows = moving.sort(descending=True, stable=True).indices[:size]
                phase = phase.select(rows)
                solver.select(rows)
                state, image, reach, places, counted = (
                    kept.index_select(0, rows) for kept in (state, image, reach, places, counted)
                )
        state = solver.advance(state, image, reach)
    held = _held(phase, state, reach)
    if counted is None:  # none has left
        return _ended(held, steps)
    _store(held, counted, places, ended)
    return _ended(ended, steps)


def _grain(phase: Phase, state: Tensor) -> int:
    """Return the rows in a bunch: few numbers of rows, where a kernel is made for each of them."""
    network = phase.network
    if not (is_dense(network) and is_fast(state)):
        return 1
    largest = max((network.links[coupling.name].macs for coupling in network.recurrent), default=0)
    return GRAIN * max(1, len(state) // (8 * GRAIN)) if GRAIN * largest >= LARGE else 1


def _held(phase: Phase, state: Tensor, residual: Tensor) -> tuple[Tensor, ...]:
    """Put together what is known of every sample that is held."""
    drive = phase.drive_heard
    return (state, residual) if drive is None else (state, residual, drive)


def _ended(held: tuple[Tensor, ...], steps: Tensor) -> Ended:
    state, residual, *drives = held
    return state, steps, residual, drives[0] if drives else None


def _store(
    held: tuple[Tensor, ...], mask: Tensor, places: Tensor, ended: tuple[Tensor, ...]
) -> Tensor:
    """Copy the samples of the mask to their places, and return those."""
    rows = mask.nonzero()[:, 0]
    there = places.index_select(0, rows)
    for into, part in zip(ended, held, strict=True):
        into.index_copy_(0, there, part.index_select(0, rows))
    return there


class FixedPoint:
    """`s + damping (T(s) - s)`."""

    def __init__(self, damping: float) -> None:
        self._damping = damping

    def select(self, rows: Tensor) -> None:
        """Nothing to forget."""

    def advance(self, state: Tensor, image: Tensor, residual: Tensor) -> Tensor:
        """Go all the way to the image, or a part of it."""
        return image if self._damping == 1.0 else state + self._damping * (image - state)


class Anderson:
    """The mixture of the last steps of a sample whose displacements cancel best.

        minimise |sum_i a_i g_i|^2, sum_i a_i = 1, g = T(s) - s      s <- sum_i a_i T(s_i)

    Where a mixture brought a larger residual, the sample goes back to the plain step from the
    state before it, and starts a new history.
    """

    def __init__(self, network: Network, memory: int, like: Tensor, displaced: bool) -> None:
        samples, units = like.shape
        self._memory = memory
        self._images = like.new_zeros(samples, memory, units)
        self._directions = like.new_zeros(samples, memory, units)
        self._residuals = like.new_ones(samples, memory)
        self._gram = like.new_zeros(samples, memory, memory)
        self._held = torch.zeros(samples, dtype=torch.int64, device=like.device)
        self._slot = 0
        self._range: tuple[Tensor, ...] = ()  # the next step brings displacements back to theirs
        if not displaced:
            edges = [(layer.size, layer.rule.low, layer.rule.high) for layer in network.layers]
            low = torch.cat([like.new_full((size,), low) for size, low, _ in edges])
            high = torch.cat([like.new_full((size,), high) for size, _, high in edges])
            self._range = low, high

    def select(self, rows: Tensor) -> None:
        """Forget the history of all other samples."""
        self._images = self._images.index_select(0, rows)
        self._directions = self._directions.index_select(0, rows)
        self._residuals = self._residuals.index_select(0, rows)
        self._gram = self._gram.index_select(0, rows)
        self._held = self._held.index_select(0, rows)

    def advance(self, state: Tensor, image: Tensor, residual: Tensor) -> Tensor:
        """Mix, or go back where the last mixture made things worse."""
        # A mixture of one is the plain step: going back from it would return to the same state.
        worse = (self._held > 1) & (residual > self._residuals[:, self._slot])
        plain = self._images[:, self._slot].clone()
        self._slot = (self._slot + 1) % self._memory
        self._remember(image, image - state, residual)
        self._held = torch.where(worse, 0, (self._held + 1).clamp(max=self._memory))
        # Differences from the newest image keep the rounding of large weights off the state.
        offsets = self._images - image[:, None]
        mixture = image + (self._weights(residual)[..., None] * offsets).sum(1)
        mixture = torch.where(mixture.isfinite(), mixture, image)
        if self._range:
            mixture = mixture.clamp(*self._range)
        return torch.where(worse[:, None], plain, mixture)

    def _remember(self, image: Tensor, displacement: Tensor, residual: Tensor) -> None:
        """Write a step over the oldest, with its displacement scaled to a residual of one."""
        direction = displacement / residual[:, None]
        self._images[:, self._slot] = image
        self._directions[:, self._slot] = direction
        self._residuals[:, self._slot] = residual
        products = (self._directions * direction[:, None]).sum(-1)
        self._gram[:, self._slot], self._gram[..., self._slot] = products, products

    def _weights(self, residual: Tensor) -> Tensor:
        """Weights of the steps that are held, `(samples, memory)`."""
        slots = torch.arange(self._memory, device=residual.device)
        valid = (self._slot - slots) % self._memory < self._held[:, None]
        ratio = valid * residual[:, None] / self._residuals
        gram = self._gram * (valid[:, None] & valid[..., None])
        # The systems are tiny: double precision costs nothing, and mps leaves them to the cpu.
        home = torch.device("cpu") if gram.device.type == "mps" else gram.device
        gram = gram.to(home).double()
        diagonal = gram.diagonal(dim1=-2, dim2=-1)
        diagonal *= 1.0 + RIDGE * torch.finfo(residual.dtype).eps
        diagonal += (~valid).to(home)
        solved: Tensor = torch.linalg.solve_ex(gram, ratio.to(home).double())[0]
        weights = solved.to(ratio.dtype).to(ratio.device) * ratio
        return weights / weights.sum(-1, keepdim=True)


def make_solver(network: Network, relaxation: Relaxation, like: Tensor) -> Solver:
    """Build the solver of a relaxation, for states of the shape and device of `like`."""
    if relaxation.solver == "ode":
        raise EngineError("torch has no solver 'ode': NumbaBackend integrates in time.")
    if relaxation.solver == "anderson":
        return Anderson(network, relaxation.memory, like, bool(relaxation.displaced))
    return FixedPoint(relaxation.damping)
