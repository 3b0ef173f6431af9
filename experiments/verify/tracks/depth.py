"""Track 31: seven layers learn in single precision, because nudges are displacements."""

from dataclasses import asdict, dataclass
from functools import partial

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from adapters.torch_autograd import implicit_gradient
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.scale import START
from engine.learning.spectral import AUTO_CAP
from engine.model.builders import conv_net, looped_mlp
from experiments.reporting.document import Table
from experiments.reporting.number_text import percent
from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import BLUE, STYLE, VERMILION, add_legend, draw_panels
from experiments.verify.digits import seeds
from experiments.verify.images import train_on_images
from experiments.verify.track import Check, Finding, Size, Track, TrackSize
from golden.cases import initial_case
from golden.displacement import (
    BETAS,
    DEEPEST,
    FREE_SWEEPS,
    LEAST_LAYER_COSINE,
    ROUNDING,
    DepthCosines,
    Errors,
    depth_sweep,
    measure_errors,
)
from golden.draws import stream

CLAIM = (
    f"With nudged phases as displacements every layer of networks of 1 to {DEEPEST} layers gets "
    f"its gradient (cosine at least {LEAST_LAYER_COSINE}) in float32, at any beta down to "
    f"{BETAS[-1]:g}; the difference of two states loses it. Seven layers then learn as well as two."
)
NETWORKS = {
    "looped": looped_mlp(5, 10, 3),
    "convolution": conv_net((5, 5, 1), (2, 3), 3),
}
LARGEST_TURN = float(np.sqrt(2 * (1 - LEAST_LAYER_COSINE)))
"""Share of a gradient that may be missing for the cosine that is asked."""
NUDGED_SWEEPS = int(np.ceil(np.log(LARGEST_TURN) / np.log(START * AUTO_CAP.cap)))
"""Until what a step at the norm of these networks leaves of a nudge is less than that."""
trusted_gradient = partial(implicit_gradient, relaxation=Relaxation(2000, 1e-9))
"""Calibrated inputs make states of 1e5 in the lowest layer: a hundred roundings of these."""
SHALLOW, DEEP = "16/2-16", "16/2-16-16-16-16-16-16"
KINDS = {
    "2 layers": (SHALLOW, False, None),
    "7 layers": (DEEP, False, None),
    "7 layers, states": (DEEP, False, False),
    "7 layers, read-out only": (DEEP, True, None),
}
"""Layers, whether the read-out alone learns, and whether nudges are displacements."""
TWO, SEVEN, STATES, IDLE = KINDS
LOST_COSINE = 0.5
"""A layer that learns within less than 60 degrees of its gradient has not lost it."""
LOST_SHARE = float(np.finfo(np.float32).eps) / BETAS[-1]
"""Of a gradient: a nudge of beta moves a state by about beta, and the state is rounded to eps."""
LARGEST_GAP = 3.0
"""Points, as between EqProp and backprop in track 2."""
LEAST_FACTOR = 0.5
"""Share of the read-out's error that is left, as in track 30."""


@dataclass(frozen=True)
class DeepRun:
    """One training on digits as images."""

    kind: str
    seed: int
    accuracy: float


def verify(size: Size) -> Finding:
    """Measure cosines by depth, errors by beta, and accuracies of few and of many layers."""
    depths: list[DepthCosines] = []
    errors: list[tuple[str, Errors]] = []
    runs: list[DeepRun] = []
    for seed in seeds(size.seeds):
        depths += depth_sweep(seed, NumbaBackend, trusted_gradient, NUDGED_SWEEPS)
        for name, network in NETWORKS.items():
            case = initial_case(name, network, stream(seed, name))
            errors.append((name, measure_errors(case, NumbaBackend, implicit_gradient)))
        runs += [learn(kind, seed, size.amount) for kind in KINDS]
    return Finding(
        experiment=(
            f"{size.repeats}, single precision. Convolutional networks of 1 to {DEEPEST} layers, "
            f"their blocks just below the cap: the estimate of one small nudge, after "
            f"{FREE_SWEEPS} free and {NUDGED_SWEEPS} nudged sweeps, against implicit "
            "differentiation in double precision, layer by layer. A looped and a convolutional "
            "network with settled phases: the error of the centered estimate with beta from "
            f"{BETAS[0]:g} to {BETAS[-1]:g}. Layers of 16 channels learn digits as 8 x 8 images "
            f"for {size.amount} epochs, two and seven of them. The same with differences of "
            "states, as a control."
        ),
        checks=list_checks(depths, errors, runs),
        tables=(_depth_table(depths), _beta_table(errors), _training_table(runs)),
        limits=(
            f"The cosine is that of nudges with {NUDGED_SWEEPS} sweeps to arrive. After three, as "
            "in the golden report, seed 46 has 0.9986 with two layers.",
            "Seven layers that learn by differences of states are in the table and not judged: "
            "training chooses a beta for them that is as large as is safe, so that they lose part "
            "of what the cosines lose.",
            "The convolutional network has relu units: a nudge across a kink is wrong by what lies "
            "behind it, however it is computed, until beta is so small that none is crossed.",
            "Few classes of small images: that depth costs no accuracy here does not say that it "
            "gains any. `python -m experiments.vision` compares depths on larger images.",
            "A displacement takes one more word for each unit, its free drive. A chip without it "
            "has finite nudges.",
        ),
        pictures=(_picture(errors),),
        measurements={
            "depths": [asdict(one) for one in depths],
            "errors": [{"network": name, "betas": BETAS} | asdict(one) for name, one in errors],
            "runs": [asdict(run) for run in runs],
        },
    )


def learn(kind: str, seed: int, epochs: int) -> DeepRun:
    """Train once."""
    layers, readout_only, displaced = KINDS[kind]
    accuracy = train_on_images(seed, layers, epochs, readout_only=readout_only, displaced=displaced)
    return DeepRun(kind, seed, accuracy)


def list_checks(
    depths: list[DepthCosines], errors: list[tuple[str, Errors]], runs: list[DeepRun]
) -> tuple[Check, ...]:
    """Hold displacements to the limits of the golden report, and states to losing."""
    checks = []
    for depth in range(1, DEEPEST + 1):
        found = [cosine for one in depths if one.depth == depth for cosine in one.displaced]
        name = f"Smallest cosine of a layer, depth {depth}"
        checks.append(Check.of_all(name, found, ">=", LEAST_LAYER_COSINE))
    worst = [min(one.states) for one in depths if one.depth == DEEPEST]
    name = f"States, depth {DEEPEST}: largest cosine of the worst layer"
    checks.append(Check.of_all(name, worst, "<", LOST_COSINE))
    smallest = f"beta {BETAS[-1]:g}"
    moved, lost = ([getattr(e, k)[-1] for _, e in errors] for k in ("displaced", "states"))
    checks += [
        Check.of_all(f"Largest error of the gradient, {smallest}", moved, "<=", ROUNDING),
        Check.of_all(f"States: smallest error, {smallest}", lost, ">", LOST_SHARE),
        Check(
            "Networks on which displacements are less exact than states at some beta",
            sum(not one.passed for _, one in errors),
            "=",
            0.0,
        ),
    ]
    mean = {kind: np.mean([run.accuracy for run in runs if run.kind == kind]) for kind in KINDS}
    gap = 100 * float(mean[TWO] - mean[SEVEN])
    left = float((1 - mean[SEVEN]) / (1 - mean[IDLE]))
    return (
        *checks,
        Check("Points by which 7 layers are below 2", gap, "<=", LARGEST_GAP),
        Check("Error of 7 layers over that of their read-out only", left, "<=", LEAST_FACTOR),
    )


def _depth_table(depths: list[DepthCosines]) -> Table:
    rows = []
    for depth in sorted({one.depth for one in depths}):
        found = [one for one in depths if one.depth == depth]
        signals = [one.signal for one in found]
        rows.append(
            (
                str(depth),
                f"{min(signals):.1e}",
                f"{min(min(one.displaced) for one in found):.6f}",
                f"{max(min(one.states) for one in found):.3f}",
            )
        )
    header = ("Layers", "Top over bottom", "Displacements", "States (best seed)")
    caption = "Cosine of the worst layer, and the signal of the top layer as a share of the bottom."
    return Table("Cosine with the exact gradient, by depth", header, tuple(rows), caption)


def _beta_table(errors: list[tuple[str, Errors]]) -> Table:
    rows = []
    for network in NETWORKS:
        found = [one for name, one in errors if name == network]
        for kind in ("states", "displaced"):
            worst = np.max([getattr(one, kind) for one in found], axis=0)
            rows.append((network, kind, *(f"{error:.1e}" for error in worst)))
    header = ("Network", "Nudge", *(f"{beta:g}" for beta in BETAS))
    return Table("Relative error of the gradient, by beta", header, tuple(rows), text_columns=2)


def _training_table(runs: list[DeepRun]) -> Table:
    found = sorted({run.seed for run in runs})
    rows = tuple(
        (kind, *(percent(run.accuracy) for run in runs if run.kind == kind)) for kind in KINDS
    )
    header = ("Network", *(f"Seed {seed}" for seed in found))
    return Table("Digits as images: held-out accuracy (%)", header, rows)


def _picture(errors: list[tuple[str, Errors]]) -> Picture:
    caption = "Relative error of the gradient in float32 against beta; a line for each seed."
    return take_picture("betas", "What rounding leaves of a gradient", caption, _draw(errors))


@matplotlib.rc_context(STYLE)
def _draw(errors: list[tuple[str, Errors]]) -> Figure:
    figure, panels = draw_panels(list(NETWORKS), height=2.8)
    for axes, network in zip(panels, NETWORKS, strict=True):
        for one in (one for name, one in errors if name == network):
            axes.loglog(BETAS, one.states, color=VERMILION, linewidth=1.1)
            axes.loglog(BETAS, one.displaced, color=BLUE, linewidth=1.1)
        axes.set_xlabel("beta")
    panels[0].set_ylabel("relative error")
    add_legend(figure, [("states", VERMILION, "-"), ("displacements", BLUE, "-")])
    return figure


TRACK = Track(
    number=31,
    title="Depth",
    claim=CLAIM,
    unit="epochs",
    sizes={
        TrackSize.QUICK: Size(1, 4),
        TrackSize.DEFAULT: Size(3, 4),
        TrackSize.FULL: Size(5, 20),
    },
    verify=verify,
)
