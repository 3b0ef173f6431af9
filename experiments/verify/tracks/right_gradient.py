"""Track 28: the estimated gradient is that of the loss, and its bias has the order of theory."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from adapters.torch_autograd import bptt_gradient, implicit_gradient
from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.learning.estimator import centered
from engine.learning.predict import targets_of
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params
from experiments.parity.contestants import gradient_cosine
from experiments.reporting.document import Table
from experiments.reporting.number_text import number
from experiments.verify.digits import seeds, train_on_digits
from experiments.verify.track import Check, Finding, Size, Track, TrackSize
from golden.bias import ORDERS, BiasOrder, measure_bias_order
from golden.cases import CAP, REACHED, Case, initial_case, trained_case
from golden.directions import random_directions
from golden.draws import stream
from golden.fidelity import (
    BIAS,
    LARGEST_ERROR,
    LEAST_COSINE,
    Fidelity,
    Reference,
    compare_gradients,
    difference_gradient,
    directional_derivatives,
    eqprop_gradient,
    fitting_beta,
    measure_fidelity,
)

CLAIM = (
    "At equilibrium the EqProp estimate is the gradient of the loss, by three references that know "
    "nothing of a nudge, at the start and after training; its bias falls with beta in the order "
    "that theory gives each estimator."
)
NETWORKS = {
    "looped": looped_mlp(5, 10, 3),
    "layered": layered((5, 10, 10, 3)),
    "squared error": layered((5, 7, 4), "tanh", "squared_error"),
}
UNROLLED = REACHED.max_steps
SAMPLES = 16
DIRECTIONS = 12
"""Random directions along which the loss of the large network is differenced."""
TRAINED_COSINE = 0.99
"""What the estimate has to reach as it is used: float32, few steps, the beta of training."""


@dataclass(frozen=True)
class Agreement:
    """One network against one reference."""

    network: str
    seed: int
    found: Fidelity


def verify(size: Size) -> Finding:
    """Compare gradients and measure the order of the bias."""
    agreements: list[Agreement] = []
    orders: list[tuple[str, BiasOrder]] = []
    used: list[float] = []
    for seed in seeds(size.seeds):
        for case in draw_cases(seed):
            backend = case.build(NumbaBackend)
            found = measure_fidelity(backend, case.x, case.y, references())
            agreements += [Agreement(case.name, seed, one) for one in found]
            exact = implicit_gradient(case.network, case.params, case.x, case.y)
            for estimator in ORDERS:
                order = measure_bias_order(backend, case.x, case.y, estimator, exact)
                orders.append((case.name, order))
        large, cosine = measure_digits(seed, size.amount)
        agreements += large
        used.append(cosine)
    return Finding(
        experiment=(
            f"Small looped and layered networks, one with the squared error, at random weights and "
            f"trained by EqProp to 30 % of their loss, and the looped network of 128 units after "
            f"{size.amount} epochs on digits; {size.repeats}, double precision, phases settled "
            f"to rounding, centered estimate with a bias of at most {BIAS:g}. References: "
            f"backpropagation through {UNROLLED} steps, implicit differentiation, and central "
            f"differences of the loss ({DIRECTIONS} random directions for the large network, all "
            "for the small ones). The order of the bias is the slope of log error against log "
            "beta. Beside that, the cosine of the estimate as training uses it: float32, its own "
            "beta, steps and tolerance."
        ),
        checks=list_checks(agreements, orders, used),
        tables=(_agreement_table(agreements), _order_table(orders)),
        limits=(
            "The gradient is right at equilibrium and for small beta. A beta too large for the "
            "curvature of the cost makes it wrong, which training does not notice by itself: the "
            "parity report follows the cosine over training, and it falls on CartPole.",
            "Orders are measured on smooth networks: a nudge that crosses the kink of a hard "
            "sigmoid has none.",
            "The references share the formulas of the energy with the engine (track 22 checks "
            "those); the central differences share nothing but the free relaxation.",
        ),
        measurements={
            "agreements": [asdict(one) for one in agreements],
            "orders": [{"network": name} | asdict(order) for name, order in orders],
            "cosine_as_trained": used,
        },
    )


def references() -> dict[str, Reference]:
    """Return three ways to the gradient that use no nudge."""
    return {
        "BPTT": partial(bptt_gradient, steps=UNROLLED),
        "implicit": implicit_gradient,
        "differences": _differences,
    }


def draw_cases(seed: int) -> Iterator[Case]:
    """Yield every small network at random weights and trained."""
    for name, network in NETWORKS.items():
        start = initial_case(f"{name}, random", network, stream(seed, name))
        yield start
        yield trained_case(start, CAP, f"{name}, trained")


def measure_digits(seed: int, epochs: int) -> tuple[list[Agreement], float]:
    """Compare on a network trained on digits; return also the cosine as training sees it."""
    trained, split, training = train_on_digits(seed, epochs)
    network, params = trained.network, trained.params.astype(np.float64)
    backend = NumbaBackend(network, params)
    x = split.x_train[:SAMPLES].astype(np.float64)
    y = targets_of(network, split.y_train[:SAMPLES], np.float64)
    estimated = eqprop_gradient(backend, x, y, centered(fitting_beta(backend, x, y)))
    directions = random_directions(network, np.random.default_rng(seed), DIRECTIONS)
    differences = directional_derivatives(backend, x, y, directions)
    found = [
        compare_gradients("BPTT", estimated, bptt_gradient(network, params, x, y, UNROLLED)),
        compare_gradients("implicit", estimated, implicit_gradient(network, params, x, y)),
        compare_gradients("differences", directions @ estimated, differences),
    ]
    cosine = gradient_cosine(trained, split.x_train[:SAMPLES], split.y_train[:SAMPLES], training)
    agreements = [Agreement("digits, trained", seed, one) for one in found]
    return agreements, float("nan") if cosine is None else cosine


def list_checks(
    agreements: list[Agreement], orders: list[tuple[str, BiasOrder]], used: list[float]
) -> tuple[Check, ...]:
    """Hold the worst of every kind to the limits of the golden report."""
    checks = []
    for reference in references():
        found = [one.found for one in agreements if one.found.reference == reference]
        cosine, error = f"Smallest cosine: {reference}", f"Largest relative error: {reference}"
        cosines, errors = ([one.cosine for one in found], [one.relative_error for one in found])
        checks.append(Check.of_all(cosine, cosines, ">=", LEAST_COSINE))
        checks.append(Check.of_all(error, errors, "<=", LARGEST_ERROR))
    for estimator, (theory, margin) in ORDERS.items():
        gaps = [abs(order.slope - theory) for _, order in orders if order.estimator == estimator]
        name = f"{estimator.replace('_', '-')}: largest distance from order {theory}"
        checks.append(Check.of_all(name, gaps, "<=", margin))
    name = "Smallest cosine as used on digits"
    checks.append(Check.of_all(name, used, ">=", TRAINED_COSINE, essential=False))
    return tuple(checks)


def _differences(network: Network, params: Params, x: FloatArray, y: FloatArray) -> FloatArray:
    return difference_gradient(NumbaBackend(network, params), x, y)


def _agreement_table(agreements: list[Agreement]) -> Table:
    names = list(references())
    rows = []
    for network in dict.fromkeys(one.network for one in agreements):
        cells = [network]
        for name in names:
            found = [
                one.found
                for one in agreements
                if (one.network, one.found.reference) == (network, name)
            ]
            cells.append(f"{min(one.cosine for one in found):.9f}")
            cells.append(f"{max(one.relative_error for one in found):.1e}")
        rows.append(tuple(cells))
    header = [f"{name},\n{what}" for name in names for what in ("cosine", "error")]
    return Table(
        f"EqProp against three references, centered, bias at most {BIAS:g}: the worst seed",
        ("Network", *header),
        tuple(rows),
    )


def _order_table(orders: list[tuple[str, BiasOrder]]) -> Table:
    rows = []
    for network, estimator in dict.fromkeys((name, order.estimator) for name, order in orders):
        found = [o for name, o in orders if (name, o.estimator) == (network, estimator)]
        slopes = [order.slope for order in found]
        betas = [beta for order in found for beta in order.betas]
        rows.append(
            (
                network,
                estimator.replace("_", "-"),
                f"{min(betas):.1e} to {max(betas):.1e}",
                f"{number(min(slopes), 3)} to {number(max(slopes), 3)}",
                f"{found[0].order} ± {found[0].margin:g}",
            )
        )
    return Table(
        "Order of the bias in beta, range over seeds",
        ("Network", "Estimator", "beta", "Order", "Theory"),
        tuple(rows),
        text_columns=2,
    )


TRACK = Track(
    number=28,
    title="The gradient",
    claim=CLAIM,
    unit="epochs",
    sizes={
        TrackSize.QUICK: Size(1, 2),
        TrackSize.DEFAULT: Size(3, 10),
        TrackSize.FULL: Size(5, 30),
    },
    verify=verify,
)
