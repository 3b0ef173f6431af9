"""The parts of the golden report: each runs its checks and says what is out of tolerance."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from engine.equilibrium import Solver
from engine.errors import EngineError
from engine.learning.estimator import named_estimator
from engine.model.network import Network
from golden.bias import ORDERS, measure_bias_order
from golden.cases import Case, Factory, trained_case
from golden.compare import compare_rules, compare_steps, format_steps
from golden.couplings import check_network
from golden.displacement import (
    BETAS,
    DEEP_BETA,
    FREE_SWEEPS,
    LEAST_LAYER_COSINE,
    NUDGED_SWEEPS,
    DepthCosines,
    measure_errors,
)
from golden.draws import stream
from golden.fidelity import (
    BETA,
    BIAS,
    LARGEST_ERROR,
    LEAST_COSINE,
    Reference,
    compare_gradients,
    eqprop_gradient,
    measure_fidelity,
)
from golden.metric import Metric, format_metrics, format_table
from golden.reference import ReferenceBackend

NUDGE = 0.1
LOSS_SHARES = (0.7, 0.3, 0.1)
"""How far a network is trained where the growth of the bias is shown."""


@dataclass(frozen=True)
class GoldenSection:
    """One part of the report: tables, the number of checks, and those that failed."""

    title: str
    body: str
    checks: int
    failures: tuple[str, ...]


def report_couplings(networks: Mapping[str, Network], seed: int) -> GoldenSection:
    """Hold every closed form to autograd."""
    rows, checks, failures = [], 0, []
    for name, network in networks.items():
        metrics = check_network(network, stream(seed, name))
        worst = max(metrics, key=lambda metric: metric.value)
        rows.append((name, len(metrics), f"{worst.value:.1e}", f"{worst.threshold:.0e}"))
        checks += len(metrics)
        failures += _failures(name, metrics)
    table = format_table(("Network", "Checks", "Largest relative error", "Threshold"), rows)
    return GoldenSection("Closed forms against autograd, float64", table, checks, tuple(failures))


def report_steps(case: Case, backends: Mapping[str, Factory], steps: int) -> list[GoldenSection]:
    """Compare every pair of backends in float32, with a row for every step."""
    sections = []
    for left, right in combinations(backends, 2):
        comparison = compare_steps(
            case.build(backends[left], np.float32),
            case.build(backends[right], np.float32),
            case.x,
            case.y,
            steps=steps,
        )
        title = f"{left} against {right}, float32: {case.name}"
        body = f"{format_steps(comparison)}\n\n{format_metrics(comparison.metrics)}"
        failures = () if comparison.first is None else (f"{title}: {comparison.first}",)
        sections.append(GoldenSection(title, body, len(comparison.metrics), failures))
    return sections


def report_reference(case: Case, backends: Mapping[str, Factory], steps: int) -> GoldenSection:
    """Hold every backend to the scalar reference: free, nudged, alternating, and its local rule."""
    judge = case.build(ReferenceBackend)
    metrics, failures = [], []
    for name, factory in backends.items():
        backend = case.build(factory)
        for beta, solver in _phases(case.network):
            comparison = compare_steps(
                backend, judge, case.x, case.y, beta=beta, steps=steps, solver=solver
            )
            phase = f"{name}, {solver.replace('_', ' ')}, beta {beta:g}"
            largest = max(comparison.metrics, key=lambda metric: metric.value)
            metrics.append(Metric(phase, largest.value, largest.threshold))
            if comparison.first is not None:
                failures.append(f"{case.name}, {phase}: {comparison.first}")
        rules = compare_rules(backend, judge, case.x, case.y)
        worst = max(rules, key=lambda metric: metric.value)
        metrics.append(Metric(f"{name}, {worst.name}", worst.value, worst.threshold))
        failures += _failures(f"{case.name}, {name}", rules)
    title = f"Backends against the scalar reference, float64: {case.name}"
    return GoldenSection(title, format_metrics(metrics), len(metrics), tuple(failures))


def report_fidelity(
    cases: Sequence[Case], factory: Factory, references: Mapping[str, Reference]
) -> GoldenSection:
    """Hold the centered estimate to every reference gradient."""
    rows, failures = [], []
    for case in cases:
        for found in measure_fidelity(case.build(factory), case.x, case.y, references):
            cosine, error = f"{found.cosine:.9f}", f"{found.relative_error:.1e}"
            rows.append((case.name, found.reference, f"{found.beta:.1e}", cosine, error))
            if not found.passed:
                failures.append(
                    f"gradient of {case.name} against {found.reference}: "
                    f"cosine {cosine}, relative error {error}"
                )
    cosine, error = f"Cosine (>= {LEAST_COSINE})", f"Relative error (<= {LARGEST_ERROR:.0e})"
    table = format_table(("Network", "Reference", "beta", cosine, error), rows)
    title = f"Gradient of equilibrium propagation, centered, bias at most {BIAS:g}, float64"
    return GoldenSection(title, table, len(rows), tuple(failures))


def report_training(
    starts: Sequence[Case], cap: float, factory: Factory, trusted: Reference
) -> GoldenSection:
    """Show, without judging it, how the bias at a fixed beta grows as a network learns."""
    rows = []
    for start in starts:
        for share in LOSS_SHARES:
            case = trained_case(start, cap, start.name, share)
            gradient = trusted(case.network, case.params, case.x, case.y)
            curvature = case.network.readout.curvature(case.params)
            errors = []
            for beta in (BETA, BETA / 10):
                estimated = eqprop_gradient(
                    case.build(factory), case.x, case.y, named_estimator("centered", beta)
                )
                error = compare_gradients("trusted", estimated, gradient).relative_error
                errors.append(f"{error:.1e}")
            rows.append((case.name, f"{share:.0%}", f"{curvature:.2f}", *errors))
    headers = ("Network", "Loss left", "Curvature of C", f"beta {BETA:g}", f"beta {BETA / 10:g}")
    title = f"Relative error of the centered gradient as training goes on, cap {cap} (not judged)"
    return GoldenSection(title, format_table(headers, rows), 0, ())


def report_bias(cases: Sequence[Case], factory: Factory, trusted: Reference) -> GoldenSection:
    """Hold the measured order of every estimator's bias to theory."""
    rows, failures = [], []
    for case in cases:
        gradient = trusted(case.network, case.params, case.x, case.y)
        for estimator in ORDERS:
            found = measure_bias_order(case.build(factory), case.x, case.y, estimator, gradient)
            betas = f"{found.betas[0]:.1e} to {found.betas[-1]:.1e}"
            errors = f"{found.errors[0]:.1e} to {found.errors[-1]:.1e}"
            slope, theory = f"{found.slope:.3f}", f"{found.order} ± {found.margin}"
            rows.append((case.name, estimator, betas, errors, slope, theory))
            if not found.passed:
                failures.append(f"bias of {estimator}, {case.name}: order {slope}, not {theory}")
    headers = ("Network", "Estimator", "beta", "Relative error", "Order", "Theory")
    title = "Order of the bias in beta, float64"
    return GoldenSection(title, format_table(headers, rows), len(rows), tuple(failures))


def report_rounding(cases: Sequence[Case], factory: Factory, trusted: Reference) -> GoldenSection:
    """Hold displacements to be as exact as states in float32, with any beta."""
    rows, failures = [], []
    for case in cases:
        found = measure_errors(case, factory, trusted)
        for form, errors in (("states", found.states), ("displaced", found.displaced)):
            rows.append((case.name, form, *(f"{error:.0e}" for error in errors)))
        if not found.passed:
            failures.append(f"displacement of {case.name}: errors {found.displaced}")
    headers = ("Network", "Nudged phase", *(f"beta {beta:g}" for beta in BETAS))
    title = "Relative error of the centered gradient against beta, float32"
    return GoldenSection(title, format_table(headers, rows), len(cases), tuple(failures))


def report_depth(found: Iterable[DepthCosines]) -> GoldenSection:
    """Hold the gradient of every layer of a deep network to the exact one."""
    rows, checks, failures = [], 0, []
    for one in found:
        checks += 1
        for form, cosines in (("states", one.states), ("displaced", one.displaced)):
            size = f"{one.signal:.0e}"
            rows.append((one.depth, size, form, " ".join(f"{c:.4f}" for c in cosines)))
        if not one.passed:
            failures.append(f"depth {one.depth}: cosines {one.displaced}")
    least = f"Cosine of each layer, bottom to top (displaced >= {LEAST_LAYER_COSINE})"
    table = format_table(("Depth", "Top over bottom", "Nudged phase", least), rows)
    title = (
        f"Convolution, float32, {FREE_SWEEPS} free and {NUDGED_SWEEPS} nudged sweeps, "
        f"one nudge of beta {DEEP_BETA:g}"
    )
    return GoldenSection(title, table, checks, tuple(failures))


def _phases(network: Network) -> list[tuple[float, Solver]]:
    phases: list[tuple[float, Solver]] = [(0.0, "fixed_point"), (NUDGE, "fixed_point")]
    if len(network.layers) == 1:
        return phases
    phases += [(0.0, "sweeps"), (NUDGE, "sweeps")]
    try:
        _ = network.halves
    except EngineError:
        return phases
    return [*phases, (0.0, "alternating"), (NUDGE, "alternating")]


def _failures(name: str, metrics: Iterable[Metric]) -> list[str]:
    return [f"{name}, {metric.name}: {metric.value:.2e}" for metric in metrics if not metric.passed]
