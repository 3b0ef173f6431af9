"""Defects to seed, one or more in every layer that computes; each is patched in from outside."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.arrays import FloatArray, IntArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.compiled.program import Results
from engine.couplings.dense import Dense
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Clamped, Equilibrium, Plan, Relaxation
from engine.learning.estimator import Report
from engine.learning.optimizer import Adam
from engine.learning.spectral import SpectralCap
from engine.model.network import Network
from engine.model.params import Params
from experiments.fuzz import description, phases, strategies
from hw_sim.chips import digital_kernels, event_kernels
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.counts import OpCounts
from hw_sim.prices.bill import Bill

Defect = Callable[[pytest.MonkeyPatch], None]


class WrongSign(NumbaBackend):
    """One coupling sends its signals with the opposite sign."""

    def _load(self, params: Params) -> None:
        super()._load(params)
        for coupling in self.network.recurrent[-1:]:
            self._params[coupling.name][...] *= -1.0


class Impatient(NumbaBackend):
    """The last sample of a batch is called converged, wherever it is."""

    _relax = Backend._relax  # one phase after the other

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: Any
    ) -> Equilibrium:
        found = super()._relax_one(clamped, beta, relaxation, start)
        if len(found.steps) > 1:
            early = super()._relax_one(clamped, beta, replace(relaxation, max_steps=2), start)
            found.state[-1] = early.state[-1]
        return found


class Leaking(NumbaBackend):
    """A batch starts where the last one ended, if that fits."""

    _left: Any = None

    _relax = Backend._relax  # one phase after the other

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: Any
    ) -> Equilibrium:
        if start is None and self._left is not None and len(self._left) == len(clamped.x):
            start = self._left
        found = super()._relax_one(clamped, beta, relaxation, start)
        self._left = found.state
        return found


class Stale(NumbaBackend):
    """The drive that a free phase ended with is handed on, whatever solved it."""

    def _rooms(self, plan: Plan, samples: int) -> list[Results]:
        first, *others = super()._rooms(plan, samples)
        return [first._replace(drive=np.empty_like(first.state)), *others]


class Cold(NumbaBackend):
    """Phases that are relaxed together begin anew, wherever they were told to."""

    def _relax(self, clamped: Clamped, plan: Plan, start: Any) -> Sequence[Equilibrium]:
        return super()._relax(clamped, plan, start if len(plan) == 1 else None)


class Mistaken(NumbaBackend):
    """The last row of phases relaxed together has the target of the first sample."""

    def _relax(self, clamped: Clamped, plan: Plan, start: Any) -> Sequence[Equilibrium]:
        found = super()._relax(clamped, plan, start)
        if clamped.y is None or len(plan[-1][0]) == 1:
            return found
        targets = clamped.y.copy()
        targets[-1] = targets[0]
        wrong = super()._relax(replace(clamped, y=targets), plan, start)
        return [*found[:-1], wrong[-1]]


def use(backend: type[NumbaBackend]) -> Defect:
    return lambda patch: patch.setattr(strategies, "NumbaBackend", backend)


def forget_transpose(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Dense, "correlate", lambda self, w, x, a, b: (b.T @ a).reshape(w.shape))


def forget_cap(patch: pytest.MonkeyPatch) -> None:
    """The blocks of layered networks are not capped; lateral ones are."""
    enforce = SpectralCap.enforce

    def partly(cap: SpectralCap, params: Params, *rest: Any) -> None:
        kept = {c.name: params[c.name].copy() for c in params.network.recurrent}
        enforce(cap, params, *rest)
        for coupling in params.network.recurrent:
            if isinstance(coupling, Dense):
                params[coupling.name][...] = kept[coupling.name]

    patch.setattr(SpectralCap, "enforce", partly)


def keep_the_tolerance(patch: pytest.MonkeyPatch) -> None:
    """A phase of an estimate settles to its own tolerance, however small beta is."""
    patch.setattr(Relaxation, "nudged", lambda relaxation, *_: relaxation)


def forget_the_free_phase(patch: pytest.MonkeyPatch) -> None:
    """A report divides by the nudged phases alone."""
    estimate = phases.estimate

    def hasty(backend: Any, clamped: Any, pairs: Any, *rest: Any) -> Report:
        report = estimate(backend, clamped, pairs, *rest)
        nudged = sum(beta != 0.0 for beta, _ in pairs)
        return replace(report, unsettled=report.unsettled * (nudged + 1) / nudged)

    patch.setattr(phases, "estimate", hasty)


def forget_the_first_steps(patch: pytest.MonkeyPatch) -> None:
    """Adam does not correct the bias of its moments."""
    update = Adam.update

    def uncorrected(
        adam: Adam, gradient: FloatArray, memory: FloatArray, step: int, rate: float
    ) -> FloatArray:
        return update(adam, gradient, memory, step + 10_000, rate)

    patch.setattr(Adam, "update", uncorrected)


def save_without_moments(patch: pytest.MonkeyPatch) -> None:
    save = description.save

    def forgetful(path: Any, params: Params, run: Any = None, settings: str = "") -> None:
        whole = run and replace(run, memory=np.zeros_like(run.memory))
        save(path, params, whole, settings)

    patch.setattr(description, "save", forgetful)


def forget_the_shift(patch: pytest.MonkeyPatch) -> None:
    """The exponentials of a softmax are those of the logits themselves."""
    patch.setattr(SoftmaxReadout, "_logits", lambda _, w, s: s @ w["W_out"] + w["b_out"])


def count_no_saturation(patch: pytest.MonkeyPatch) -> None:
    """The accumulators of a digital chip still stop at their limit, but nobody is told."""
    for name in ("drive_digital", "relax_digital", "read_digital"):
        kernel = getattr(digital_kernels, name)
        patch.setattr(digital_kernels, name, lambda *given, kernel=kernel: 0 * kernel(*given))


def leave_the_range(patch: pytest.MonkeyPatch) -> None:
    settle = CrossbarBackend._settle

    def loud(chip: CrossbarBackend, *rest: Any) -> Equilibrium:
        found = settle(chip, *rest)
        return replace(found, state=1.5 * found.state)

    patch.setattr(CrossbarBackend, "_settle", loud)


def stay_silent(patch: pytest.MonkeyPatch) -> None:
    """Event-driven units keep small changes to themselves, though their threshold is zero."""
    relax = event_kernels.relax_events

    def quiet(wires: Any, batch: Any, threshold: float, *rest: Any) -> None:
        relax(wires, batch, max(threshold, 1e-3), *rest)

    patch.setattr(event_kernels, "relax_events", quiet)


def miscount_the_nudge(patch: pytest.MonkeyPatch) -> None:
    """What the read-out does in a nudged phase is not counted."""
    add = OpCounts.add_tally

    def partly(counts: OpCounts, phase: str, network: Network, tally: IntArray) -> None:
        seen = tally.copy()
        seen[-1] *= phase != "nudged"
        add(counts, phase, network, seen)

    patch.setattr(OpCounts, "add_tally", partly)


def lose_a_phase(patch: pytest.MonkeyPatch) -> None:
    parts = Bill.energy_parts

    def freely(bill: Bill) -> dict[tuple[str, str, str], float]:
        return {key: joules for key, joules in parts(bill).items() if key[0] == "free"}

    patch.setattr(Bill, "energy_parts", freely)


HUNTED: dict[str, Defect] = {
    "wrong sign in one coupling": use(WrongSign),
    "missing transpose": forget_transpose,
    "tolerance ignored for one sample": use(Impatient),
    "cap not applied on one path": forget_cap,
    "state leaked between batches": use(Leaking),
}
"""Looked for with all properties."""

SEEDED: dict[str, tuple[str, Defect]] = {
    "kernels: stale drive": ("phases_are_apart", use(Stale)),
    "kernels: start ignored": ("equilibria_stay", use(Cold)),
    "kernels: target of another": ("phases_are_apart", use(Mistaken)),
    "estimator: tolerance not scaled": ("tolerance_follows_beta", keep_the_tolerance),
    "estimator: report": ("reports_are_true", forget_the_free_phase),
    "optimizer: no bias correction": (
        "optimizers_follow_their_formulas",
        forget_the_first_steps,
    ),
    "checkpoint: moments lost": ("files_keep_everything", save_without_moments),
    "read-out: no shift": ("softmax_is_relative", forget_the_shift),
    "fixed point: wrapped in silence": ("words_never_wrap", count_no_saturation),
    "crossbar: out of range": ("chips_stay_in_range", leave_the_range),
    "event driven: too quiet": ("perfect_chips_are_the_engine", stay_silent),
    "counts: the read-out missing": ("counts_are_exact", miscount_the_nudge),
    "prices: a phase free": ("costs_add_up", lose_a_phase),
}
"""Looked for with the property that has to see them."""
