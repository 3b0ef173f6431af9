"""Track 1: the spectral cap keeps the relaxation a contraction; training without it does not."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Equilibrium, Relaxation
from engine.learning.estimator import Report
from engine.learning.run import Run
from engine.learning.spectral import SpectralCap, recurrent_matrix, recurrent_norm
from engine.learning.training import Training, train_step
from experiments.reporting.document import Table
from experiments.reporting.number_text import number, percent
from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import (
    BLUE,
    DOTTED,
    SKY,
    SOFT,
    STYLE,
    VERMILION,
    add_legend,
    draw_panels,
)
from experiments.verify.digits import CAP, EXACT_CAP, seeds, train_on_digits
from experiments.verify.track import Check, Finding, Size, Track, TrackSize

CLAIM = (
    f"With the spectral cap projected after every update the norm of the recurrent coupling, which "
    f"bounds the Lipschitz constant of a relaxation step, stays at or below {CAP} over all of "
    "training, so every sample settles. The same training without the cap takes it above 1."
)
EVERY = 5
CAPPED, SPARSE, UNCAPPED = "cap, exact at every update", f"cap, exact at every {EVERY}th", "no cap"
RUNS = {CAPPED: EXACT_CAP, SPARSE: SpectralCap(CAP, every=EVERY), UNCAPPED: None}
COLOURS = {CAPPED: BLUE, SPARSE: SKY, UNCAPPED: VERMILION}
ROUNDING = 1e-6
"""Of a float32 matrix: its norm may be that much above what the projection aimed at."""
LONG = Relaxation(max_steps=300, tolerance=1e-4)
"""At the cap every distance of states in [-1, 1]^128 falls below the tolerance in 242 steps."""
TRAINING_STEPS = 30
"""What a free phase of training may take."""
PROBED = 32
"""Test samples at whose equilibria the slope of the step itself is measured."""


@dataclass(frozen=True)
class Trajectory:
    """One training: the exact norm before it and after every update, and how the end settles."""

    seed: int
    before: float
    norms: tuple[float, ...]
    local_slope: float
    median_steps: float
    late_steps: float
    most_steps: int
    slow: float
    unsettled: float
    accuracy: float


def verify(size: Size) -> Finding:
    """Train with and without the cap and follow the exact norm of the recurrent coupling."""
    runs = {
        name: [follow(seed, size.amount, cap) for seed in seeds(size.seeds)]
        for name, cap in RUNS.items()
    }
    norms = {name: [n for run in found for n in run.norms] for name, found in runs.items()}
    last = [run.norms[-1] for run in runs[UNCAPPED]]
    projected = [n for run in runs[SPARSE] for n in run.norms[::EVERY]]
    above = float((np.array(norms[SPARSE]) > 1).mean())
    unsettled = [run.unsettled for run in runs[CAPPED]]
    limit = CAP * (1 + ROUNDING)
    checks = (
        Check.of_all("Largest norm, cap exact at every update", norms[CAPPED], "<=", limit),
        Check.of_all("Largest share of test samples unsettled, with the cap", unsettled, "=", 0.0),
        Check.of_all("Smallest norm after training without the cap", last, ">", 1.0),
        Check.of_all(
            f"Largest norm right after the projection at every {EVERY}th", projected, "<=", limit
        ),
    )
    return Finding(
        experiment=(
            f"The looped network of the parity experiment (128 tanh units) learns digits for "
            f"{size.amount} epochs with {size.repeats}, three times from the same weights on "
            "the same batches: with the exact projection after every update, with the exact "
            f"projection after every {EVERY}th and power iteration between, and without a cap. "
            "After every update the norm is computed exactly, from all eigenvalues. "
            f"Then the test part relaxes for up to {LONG.max_steps} steps to a residual of "
            f"{LONG.tolerance:g}."
        ),
        checks=checks,
        tables=(_norm_table(runs), _settling_table(runs)),
        limits=(
            "The norm bounds the Lipschitz constant of a step from above, since tanh is "
            "1-Lipschitz. Without the cap the bound is lost, not necessarily convergence: the "
            "slope at the equilibria that occur is smaller than the norm, and it is in the table.",
            "Only the exact projection is a guarantee, and only until the next update. Power "
            "iteration estimates the norm from below, and Adam, which moves every weight by about "
            "its rate, may raise the norm in one update by its rate times the number of units. "
            f"With the projection after every {EVERY}th update the norm reached "
            f"{max(norms[SPARSE]):.3f} in between, and was above 1 after {above:.1%} of the "
            "updates.",
            "One network on one task; the cap of the layered network and of other couplings is "
            "not measured here.",
        ),
        pictures=(_picture(runs),),
        measurements={name: [asdict(run) for run in found] for name, found in runs.items()},
    )


def follow(seed: int, epochs: int, cap: SpectralCap | None) -> Trajectory:
    """Train once and measure the norm after every update."""
    norms: list[float] = []
    before: list[float] = []

    def watched(
        backend: Backend, x: FloatArray, y: FloatArray, training: Training, run: Run, total: int
    ) -> Report:
        if not before:
            before.append(recurrent_norm(backend.params))
        report = train_step(backend, x, y, training, run, total)
        norms.append(recurrent_norm(backend.params))
        return report

    backend, split, _ = train_on_digits(seed, epochs, cap, watched)
    settled = backend.settle(backend.clamp(split.x_test), relaxation=LONG)
    late = float(np.percentile(settled.steps, 95))
    right = backend.predict(settled).argmax(axis=1) == split.y_test
    return Trajectory(
        seed=seed,
        before=before[0],
        norms=tuple(norms),
        local_slope=_local_slope(backend, settled),
        median_steps=float(np.median(settled.steps)),
        late_steps=late,
        most_steps=int(settled.steps.max()),
        slow=float((settled.steps > TRAINING_STEPS).mean()),
        unsettled=float((~settled.converged).mean()),
        accuracy=float(right.mean()),
    )


def _local_slope(backend: NumbaBackend, settled: Equilibrium) -> float:
    """Return the largest norm of `dT/ds = diag(1 - s^2) W` at equilibria of tanh units."""
    matrix = recurrent_matrix(backend.params)
    slopes = 1 - settled.state[:PROBED].astype(np.float64) ** 2
    return max(float(np.linalg.norm(slope[:, None] * matrix, 2)) for slope in slopes)


def _norm_table(runs: dict[str, list[Trajectory]]) -> Table:
    rows = tuple(
        (
            name,
            str(run.seed),
            number(run.before, 3),
            number(max(run.norms), 6),
            number(run.norms[-1], 6),
            number(run.local_slope, 3),
        )
        for name, found in runs.items()
        for run in found
    )
    return Table(
        "Exact norm of W_rec",
        ("Training", "Seed", "Before", "Largest after\nan update", "After the last", "Local slope"),
        rows,
        caption=f"Local slope: the largest norm of dT/ds at the equilibria of {PROBED} test "
        "samples.",
    )


def _settling_table(runs: dict[str, list[Trajectory]]) -> Table:
    def spread(values: Sequence[float], digits: int = 0) -> str:
        low, high = number(min(values), digits), number(max(values), digits)
        return low if low == high else f"{low} to {high}"

    rows = tuple(
        (
            name,
            spread([run.median_steps for run in found]),
            spread([run.late_steps for run in found]),
            spread([run.most_steps for run in found]),
            spread([100 * run.slow for run in found], 1),
            spread([100 * run.unsettled for run in found], 1),
            percent(float(np.mean([run.accuracy for run in found]))),
        )
        for name, found in runs.items()
    )
    return Table(
        "Relaxation of the test part after training, range over seeds",
        (
            "Training",
            "Steps,\nmedian",
            "Steps,\n95 %",
            "Steps,\nmost",
            f"Over {TRAINING_STEPS}\nsteps (%)",
            f"Unsettled at\n{LONG.max_steps} (%)",
            "Accuracy\n(%)",
        ),
        rows,
    )


def _picture(runs: dict[str, list[Trajectory]]) -> Picture:
    caption = (
        "Exact spectral norm of W_rec after every update; a line for each seed. Above the dotted "
        "line a step is no longer bound to contract."
    )
    return take_picture("norms", "Norm of the recurrent coupling", caption, _draw(runs))


@matplotlib.rc_context(STYLE)
def _draw(runs: dict[str, list[Trajectory]]) -> Figure:
    figure, (axes,) = draw_panels([""], height=2.8)
    for name, found in runs.items():
        for run in found:
            axes.plot([run.before, *run.norms], color=COLOURS[name], linewidth=1.1, alpha=0.85)
    axes.axhline(1.0, color=SOFT, linestyle=DOTTED)
    axes.set_xlabel("update")
    axes.set_ylabel("norm of W_rec")
    axes.set_ylim(bottom=0)
    add_legend(figure, [(name, COLOURS[name], "-") for name in runs])
    return figure


TRACK = Track(
    number=1,
    title="Spectral cap",
    claim=CLAIM,
    unit="epochs",
    sizes={
        TrackSize.QUICK: Size(1, 2),
        TrackSize.DEFAULT: Size(3, 10),
        TrackSize.FULL: Size(5, 30),
    },
    verify=verify,
)
