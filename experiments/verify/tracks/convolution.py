"""Track 30: convolutions are what torch says they are, keep to their cap, and learn."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from adapters.torch_autograd import implicit_gradient
from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.couplings.convolution import Convolution
from engine.couplings.coupling import Coupling
from engine.couplings.skip import Skip
from engine.learning.estimator import Report
from engine.learning.run import Run
from engine.learning.spectral import NEAR, SpectralCap, recurrent_norm
from engine.learning.training import Training, train_step
from engine.model.builders import conv_net, residual_net
from experiments.reporting.document import Table
from experiments.reporting.number_text import number, percent
from experiments.verify.digits import seeds
from experiments.verify.images import CAP, OPERATOR_CAP, train_on_images
from experiments.verify.torch_images import (
    EXECUTIONS,
    Image,
    convolution_by_torch,
    draw_case,
    skip_by_torch,
)
from experiments.verify.track import Check, Finding, Size, Track, TrackSize
from golden.cases import Case, initial_case, trained_case
from golden.couplings import THRESHOLD
from golden.draws import stream
from golden.fidelity import LARGEST_ERROR, LEAST_COSINE, Fidelity, measure_fidelity

CLAIM = (
    "Convolutions with strides, borders, mean pools and groups, and skips, are those of torch in "
    "every form that the engine has of them; their gradient is that of the loss; the cap holds the "
    "operator and not only its kernel; and filters learn what a read-out alone cannot."
)
ENDS = ("W", "low", "high")
SKIP = "skip"
COUPLINGS: dict[str, tuple[Image, Image, Coupling]] = {
    "plain": ((5, 4, 2), (5, 4, 3), Convolution(*ENDS, kernel=3)),
    "strided": ((7, 6, 2), (4, 3, 3), Convolution(*ENDS, kernel=3, stride=2)),
    "strided by 3": ((8, 7, 2), (3, 3, 2), Convolution(*ENDS, kernel=3, stride=3)),
    "no border": ((6, 7, 2), (3, 3, 3), Convolution(*ENDS, kernel=2, stride=2, padding=0)),
    "mean pooled": ((7, 6, 2), (3, 3, 3), Convolution(*ENDS, kernel=3, pooling="mean")),
    "pooled, strided": ((9, 8, 2), (2, 2, 3), Convolution(*ENDS, stride=2, pooling="mean")),
    "in groups": ((5, 6, 4), (3, 3, 6), Convolution(*ENDS, stride=2, groups=2)),
    "one pixel": ((5, 6, 4), (3, 3, 2), Convolution(*ENDS, kernel=1, stride=2, padding=0)),
    SKIP: ((4, 5, 3), (4, 5, 3), Skip(*ENDS)),
}
"""Source, target, coupling; sides are unequal, so that rows are not taken for columns."""
NETWORKS = {
    "strided": conv_net((5, 6, 2), (3, 2), 3, activation="tanh"),
    "mean pooled": conv_net((11, 10, 1), (2, 2), 3, pooling="mean", activation="tanh"),
    "residual": residual_net((3, 3, 1), (2, 1, 2), 3, activation="tanh"),
    "residual, one pixel": residual_net((3, 3, 1), (2, 1, 3), 3, activation="tanh"),
}
LAYERS = "8/2-16/2"
"""Trained on digits: so few channels that random filters do not suffice."""
OVERLAPPING = "8/2-16"
"""Trained in haste, to see the cap at work: at stride 1 nine places of the upper layer share a
pixel, so that the operator may amplify three times as much as its kernel."""
HASTE, HASTY_EPOCHS = 10.0, 2
"""At the rates of the vision experiment a norm hardly reaches the cap."""
LEARNED, IDLE = "all learn", "read-out only"
CAPPED, UNCAPPED = "cap on the operator", "no cap"
CAPS: dict[str, SpectralCap | None] = {CAPPED: OPERATOR_CAP, UNCAPPED: None}
LAST_NORM = CAP * (1 + NEAR)
"""What a norm that is estimated to within `NEAR`, from below, may be in the end."""
LEAST_FACTOR = 0.5
"""Share of the read-out's error that is left, as track 2 asks of the majority class's."""


@dataclass(frozen=True)
class FormError:
    """One coupling in one form, beside torch."""

    coupling: str
    form: str
    error: float


@dataclass(frozen=True)
class ImageRun:
    """A training on digits: held-out accuracy, and in haste the exact norm after every update."""

    kind: str
    seed: int
    accuracy: float
    norms: tuple[float, ...] = ()


def verify(size: Size) -> Finding:
    """Compare every form with torch and every gradient with autograd; then train."""
    errors: list[FormError] = []
    gradients: list[tuple[str, Fidelity]] = []
    runs: list[ImageRun] = []
    for seed in seeds(size.seeds):
        errors += measure_forms(seed)
        for case in draw_cases(seed):
            backend = case.build(NumbaBackend)
            (found,) = measure_fidelity(backend, case.x, case.y, {"implicit": implicit_gradient})
            gradients.append((case.name, found))
        runs += [learn(kind, seed, size.amount) for kind in (LEARNED, IDLE)]
        runs += [follow(kind, seed) for kind in CAPS]
    return Finding(
        experiment=(
            f"{size.repeats}. {len(COUPLINGS)} couplings between two images in double precision: "
            "what arrives at either end and what a synapse measures, by closed forms, links and a "
            "step of the compiled engine, against conv2d, conv_transpose2d and avg_pool2d of "
            f"torch. {len(NETWORKS)} small networks at random weights and trained: the centered "
            "estimate on settled phases against implicit differentiation. Layers of 8 and 16 "
            f"channels learn digits as 8 x 8 images for {size.amount} epochs, whole and with all "
            f"filters held; others learn for {HASTY_EPOCHS} epochs at {HASTE:g} times the rate, "
            "with and without the cap, and after every update the norm of the recurrent coupling "
            "is computed exactly, from the matrix that its link is."
        ),
        checks=list_checks(errors, gradients, runs),
        tables=(_form_table(errors), _gradient_table(gradients), _training_table(runs)),
        limits=(
            "The norm of a convolution is estimated from below by power iteration and no clip "
            f"guarantees it: with the cap at {CAP} its largest value of any update was "
            f"{max(n for run in runs if run.kind == CAPPED for n in run.norms):.4f}. What is "
            f"claimed of every update is that the step contracts; that the norm is within "
            f"{NEAR:.0%} of the cap is claimed of the last.",
            "Max pooling is no product of two states and is not looked at.",
            "The read-out only is that of the same network with its filters as they start. A "
            "linear classifier of the pixels does better than that on digits.",
        ),
        measurements={
            "forms": [asdict(one) for one in errors],
            "gradients": [{"network": name} | asdict(one) for name, one in gradients],
            "runs": [asdict(run) for run in runs],
        },
    )


def measure_forms(seed: int) -> list[FormError]:
    """Hold every form of every coupling to torch."""
    found = []
    for name, given in COUPLINGS.items():
        case = draw_case(name, *given, stream(seed, name))
        trusted = skip_by_torch(case) if name == SKIP else convolution_by_torch(case)
        for form, execute in EXECUTIONS.items():
            exchange = execute(case)
            if exchange is not None:
                found.append(FormError(name, form, exchange.error(trusted)))
    return found


def draw_cases(seed: int) -> Iterator[Case]:
    """Yield every small network at random weights and trained."""
    for name, network in NETWORKS.items():
        start = initial_case(f"{name}, random", network, stream(seed, name))
        yield start
        yield trained_case(start, CAP, f"{name}, trained")


def learn(kind: str, seed: int, epochs: int) -> ImageRun:
    """Train once, all of the network or its read-out only."""
    accuracy = train_on_images(seed, LAYERS, epochs, readout_only=kind == IDLE)
    return ImageRun(kind, seed, accuracy)


def follow(kind: str, seed: int) -> ImageRun:
    """Train in haste and measure the norm after every update."""
    norms: list[float] = []

    def watched(
        backend: Backend, x: FloatArray, y: FloatArray, training: Training, run: Run, total: int
    ) -> Report:
        report = train_step(backend, x, y, training, run, total)
        norms.append(recurrent_norm(backend.params))
        return report

    accuracy = train_on_images(
        seed, OVERLAPPING, HASTY_EPOCHS, cap=CAPS[kind], haste=HASTE, step=watched
    )
    return ImageRun(kind, seed, accuracy, tuple(norms))


def list_checks(
    errors: list[FormError], gradients: list[tuple[str, Fidelity]], runs: list[ImageRun]
) -> tuple[Check, ...]:
    """Hold the worst of every kind to its limit."""
    checks: list[Check] = []
    for form in EXECUTIONS:
        found = [one.error for one in errors if one.form == form]
        checks.append(Check.of_all(f"Largest error against torch: {form}", found, "<=", THRESHOLD))
    cosines = [one.cosine for _, one in gradients]
    wrong = [one.relative_error for _, one in gradients]
    checks.append(Check.of_all("Smallest cosine with the gradient", cosines, ">=", LEAST_COSINE))
    checks.append(Check.of_all("Largest error of the gradient", wrong, "<=", LARGEST_ERROR))
    capped = [run for run in runs if run.kind == CAPPED]
    norms = [norm for run in capped for norm in run.norms]
    last = [run.norms[-1] for run in capped]
    free = [run.norms[-1] for run in runs if run.kind == UNCAPPED]
    checks += [
        Check.of_all("Largest norm of an update, with the cap", norms, "<", 1.0),
        Check.of_all("Largest norm after training, with the cap", last, "<=", LAST_NORM),
        Check.of_all("Smallest norm after training without the cap", free, ">", 1.0),
    ]
    idle = {run.seed: 1 - run.accuracy for run in runs if run.kind == IDLE}
    left = [(1 - run.accuracy) / idle[run.seed] for run in runs if run.kind == LEARNED]
    name = "Largest error on held-out images, over that of the read-out only"
    checks.append(Check.of_all(name, left, "<=", LEAST_FACTOR))
    return tuple(checks)


def _form_table(errors: list[FormError]) -> Table:
    rows = []
    for coupling in COUPLINGS:
        cells = [coupling]
        for form in EXECUTIONS:
            found = [e.error for e in errors if (e.coupling, e.form) == (coupling, form)]
            cells.append(f"{max(found):.1e}" if found else "no link")
        rows.append(tuple(cells))
    title = "Largest relative error against torch, double precision"
    return Table(title, ("Coupling", *EXECUTIONS), tuple(rows))


def _gradient_table(gradients: list[tuple[str, Fidelity]]) -> Table:
    rows = []
    for network in dict.fromkeys(name for name, _ in gradients):
        found = [one for name, one in gradients if name == network]
        cosine, error = min(f.cosine for f in found), max(f.relative_error for f in found)
        rows.append((network, f"{cosine:.9f}", f"{error:.1e}"))
    title = "EqProp against implicit differentiation: the worst seed"
    return Table(title, ("Network", "Cosine", "Relative error"), tuple(rows))


def _training_table(runs: list[ImageRun]) -> Table:
    rows = tuple(
        (
            run.kind,
            str(run.seed),
            percent(run.accuracy),
            number(max(run.norms), 4) if run.norms else "",
            number(run.norms[-1], 4) if run.norms else "",
        )
        for run in runs
    )
    header = ("Training", "Seed", "Held-out\naccuracy (%)", "Largest norm", "Last norm")
    return Table("Digits as images", header, rows)


TRACK = Track(
    number=30,
    title="Convolution",
    claim=CLAIM,
    unit="epochs",
    sizes={
        TrackSize.QUICK: Size(1, 6),
        TrackSize.DEFAULT: Size(3, 10),
        TrackSize.FULL: Size(5, 20),
    },
    verify=verify,
)
