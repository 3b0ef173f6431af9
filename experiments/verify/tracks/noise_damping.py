"""Track 3: a contraction forgets a disturbance, at least as fast as cap^k."""

from dataclasses import asdict, dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Relaxation
from engine.learning.spectral import recurrent_matrix, recurrent_norm
from engine.model.params import Params
from experiments.reporting.document import Table
from experiments.reporting.number_text import number
from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import (
    BLUE,
    DASHED,
    ORANGE,
    SKY,
    SOFT,
    STYLE,
    VERMILION,
    add_legend,
    draw_panels,
)
from experiments.verify.digits import CAP, seeds, train_on_digits
from experiments.verify.track import Check, Finding, Size, Track, TrackSize

CLAIM = (
    "A disturbance of the state decays by at least the cap at every relaxation step, "
    f"|s_k - s*| <= {CAP}^k |s_0 - s*|, whatever its size; steady noise of size e at every step "
    "moves the state by no more than e / (1 - cap)."
)
STEPS = 60
SAMPLES = 64
NOISES = (0.01, 0.1, 1.0)
"""Standard deviation of the disturbance of every unit; states lie in [-1, 1]."""
FLOOR = 1e-11
"""Distances below are rounding: a state in double precision, 128 units, a few steps."""
ROUNDING = 1e-9
TINY_NOISE = 1e-6
"""So small that tanh is a straight line."""
UNCAPPED = 1.5
SINGLE = Relaxation(max_steps=1, tolerance=0.0)
SETTLED = Relaxation(max_steps=5000, tolerance=1e-15)


@dataclass(frozen=True)
class Damping:
    """How one trained network treats disturbances; ratios are to what the cap allows."""

    seed: int
    norm: float
    decay: dict[float, tuple[float, ...]]
    """By size of the noise: largest |s_k - s*| / |s_0 - s*| over samples, from k = 0 on."""
    worst: float
    """Largest ratio to cap^k, over all steps and sizes."""
    steady: dict[float, float]
    """By size of the noise: largest distance under steady noise over e / (1 - cap)."""
    linear: tuple[float, ...]
    """Decay along the leading eigenvector, without input."""
    growth: float
    """Factor of the first such step with the same weights scaled to a norm of 1.5."""


def verify(size: Size) -> Finding:
    """Disturb settled states and follow them step by step."""
    runs = [measure(seed, size.amount) for seed in seeds(size.seeds)]
    linear = [np.array(run.linear) / CAP ** np.arange(len(run.linear)) for run in runs]
    checks = (
        Check.of_all("Largest decay over cap^k", [run.worst for run in runs], "<=", 1 + ROUNDING),
        Check.of_all(
            "Largest deviation under steady noise over e / (1 - cap)",
            [share for run in runs for share in run.steady.values()],
            "<=",
            1 + ROUNDING,
        ),
        Check.of_all(
            "Linear regime, leading eigenvector: largest decay over cap^k",
            np.concatenate(linear),
            "<=",
            1 + 1e-6 * STEPS,
        ),
        Check.of_all(
            "Linear regime: the bound is nearly reached, smallest decay over norm^k",
            [_least_share(run) for run in runs],
            ">=",
            0.99,
        ),
        Check.of_all(
            f"The same weights at norm {UNCAPPED}: smallest growth in the first step",
            [run.growth for run in runs],
            ">",
            1.0,
        ),
    )
    return Finding(
        experiment=(
            f"Looped networks learn digits with the cap for {size.amount} epochs, with "
            f"{size.repeats}, and run in double precision. {SAMPLES} test samples settle, "
            f"Gaussian noise of {', '.join(f'{noise:g}' for noise in NOISES)} is added to every "
            f"unit, and single steps are taken; the distance to the equilibrium is measured after "
            f"each, until it is rounding ({FLOOR:g}). Then noise is added after every step "
            "instead. To see the bound reached, the input is taken away, so that tanh is a "
            "straight line around its equilibrium at zero, and the state is pushed along the "
            f"leading eigenvector; the same with all recurrent weights scaled to a norm of "
            f"{UNCAPPED} shows what the cap is good for."
        ),
        checks=checks,
        tables=(_decay_table(runs), _regime_table(runs)),
        limits=(
            "The bound is that of the norm; trained networks damp much faster, since saturated "
            "units hardly pass anything on.",
            "Noise here is added to states. Noise in weights or in the nudge is another question.",
            "The bound is on the distance over all units together (Euclidean), not on each unit.",
        ),
        pictures=(_picture(runs),),
        measurements={"runs": [asdict(run) for run in runs]},
    )


def measure(seed: int, epochs: int) -> Damping:
    """Train one network and disturb it."""
    trained, split, _ = train_on_digits(seed, epochs)
    params = trained.params.astype(np.float64)
    backend = NumbaBackend(params.network, params)
    clamped = backend.clamp(split.x_test[:SAMPLES])
    rest = backend.settle(clamped, relaxation=SETTLED).state
    rng = np.random.default_rng(seed)
    decay, steady, worst = {}, {}, 0.0
    for noise in NOISES:
        kick = noise * rng.standard_normal(rest.shape)
        ratios, shares = _follow_decay(backend, clamped, rest, kick)
        decay[noise] = ratios
        worst = float(np.maximum(worst, shares))  # what is not a number stays
        steady[noise] = _steady_share(backend, clamped, rest, noise, rng)
    return Damping(
        seed=seed,
        norm=recurrent_norm(params),
        decay=decay,
        worst=worst,
        steady=steady,
        linear=_linear_decay(params, STEPS),
        growth=_linear_decay(_scaled(params, UNCAPPED), 1)[-1],
    )


def _follow_decay(
    backend: Backend, clamped: Clamped, rest: FloatArray, kick: FloatArray
) -> tuple[tuple[float, ...], float]:
    """Return the largest decay after each step, and the largest ratio to cap^k."""
    state: FloatArray = rest + kick
    start = np.linalg.norm(kick, axis=1)
    ratios, worst = [1.0], 0.0
    for k in range(1, STEPS + 1):
        state = backend.settle(clamped, relaxation=SINGLE, start=state).state
        distance = np.linalg.norm(state - rest, axis=1)
        ratios.append(float((distance / start).max()))
        allowed = CAP**k * start
        rounding = distance <= FLOOR
        shares = np.where(rounding, 0.0, distance / allowed)
        worst = float(np.maximum(worst, shares.max()))
    return tuple(ratios), worst


def _steady_share(
    backend: Backend, clamped: Clamped, rest: FloatArray, noise: float, rng: np.random.Generator
) -> float:
    """Return the largest distance under noise after every step, over what the cap allows."""
    state, largest, size = rest, 0.0, 0.0
    for _ in range(STEPS):
        kick = noise * rng.standard_normal(rest.shape)
        size = max(size, float(np.linalg.norm(kick, axis=1).max()))
        state = backend.settle(clamped, relaxation=SINGLE, start=state).state + kick
        largest = max(largest, float(np.linalg.norm(state - rest, axis=1).max()))
    return largest * (1 - CAP) / size


def _linear_decay(params: Params, steps: int) -> tuple[float, ...]:
    """Return the decay along the leading eigenvector with input and biases at zero."""
    silent = params.copy()
    silent["b"][...] = 0.0
    values, vectors = np.linalg.eigh(recurrent_matrix(silent))
    backend = NumbaBackend(silent.network, silent)
    clamped = backend.clamp(np.zeros((1, silent.network.inputs)))
    state: FloatArray = TINY_NOISE * vectors[:, np.abs(values).argmax()][None]
    sizes = [float(np.linalg.norm(state))]
    for _ in range(steps):
        state = backend.settle(clamped, relaxation=SINGLE, start=state).state
        sizes.append(float(np.linalg.norm(state)))
    return tuple(size / sizes[0] for size in sizes)


def _scaled(params: Params, norm: float) -> Params:
    scaled = params.copy()
    scaled["W_rec"][...] *= norm / recurrent_norm(params)
    return scaled


def _least_share(run: Damping) -> float:
    return float((np.array(run.linear) / run.norm ** np.arange(len(run.linear))).min())


def _decay_table(runs: list[Damping]) -> Table:
    shown = (1, 2, 5, 10, 20, 30)
    rows = [("cap^k", *(f"{CAP**k:.2e}" for k in shown))]
    for noise in NOISES:
        worst = np.max([run.decay[noise] for run in runs], axis=0)
        rows.append((f"noise {noise:g}", *(f"{worst[k]:.2e}" for k in shown)))
    linear = np.max([run.linear for run in runs], axis=0)
    rows.append(("linear regime", *(f"{linear[k]:.2e}" for k in shown)))
    return Table(
        "Largest decay of a disturbance, |s_k - s*| / |s_0 - s*|, over samples and seeds",
        ("Disturbance", *(f"k = {k}" for k in shown)),
        tuple(rows),
    )


def _regime_table(runs: list[Damping]) -> Table:
    rows = tuple(
        (
            str(run.seed),
            number(run.norm, 6),
            number(run.worst, 4),
            number(max(run.steady.values()), 4),
            number(_least_share(run), 6),
            number(run.growth, 4),
        )
        for run in runs
    )
    return Table(
        "What the bounds allow, and what was seen of it",
        (
            "Seed",
            "Norm",
            "Decay over\ncap^k",
            "Steady noise\nover bound",
            "Linear decay\nover norm^k",
            f"First step\nat norm {UNCAPPED}",
        ),
        rows,
        caption="Ratios of 1 mean that a bound is reached. The last column is growth: above 1 a "
        "disturbance gets larger.",
    )


def _picture(runs: list[Damping]) -> Picture:
    caption = (
        "Largest distance to the equilibrium over samples and seeds, as a share of the "
        "disturbance, after each step. No line may cross the dashed one."
    )
    return take_picture("decay", "Decay of a disturbance", caption, _draw(runs))


@matplotlib.rc_context(STYLE)
def _draw(runs: list[Damping]) -> Figure:
    figure, (axes,) = draw_panels([""], height=2.8)
    steps = np.arange(STEPS + 1)
    looks: list[tuple[str, str, Any]] = [("cap^k", SOFT, DASHED)]
    curves = {f"noise {noise:g}": [run.decay[noise] for run in runs] for noise in NOISES}
    curves["linear regime"] = [run.linear for run in runs]
    for (name, found), colour in zip(curves.items(), (SKY, BLUE, ORANGE, VERMILION), strict=True):
        worst = np.max(found, axis=0)
        axes.plot(steps, np.where(worst > FLOOR, worst, np.nan), color=colour)
        looks.append((name, colour, "-"))
    axes.plot(steps, CAP**steps, color=SOFT, linestyle=DASHED)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}"))
    axes.set_xlabel("step k")
    axes.set_ylabel("share of the disturbance left")
    add_legend(figure, looks)
    return figure


TRACK = Track(
    number=3,
    title="Noise damping",
    claim=CLAIM,
    unit="epochs",
    sizes={
        TrackSize.QUICK: Size(1, 2),
        TrackSize.DEFAULT: Size(3, 10),
        TrackSize.FULL: Size(5, 30),
    },
    verify=verify,
)
