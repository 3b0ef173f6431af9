"""Track 22: every backend does what a scalar reference does, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from adapters.torch_backend import TorchBackend
from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.spectral import has_cap
from engine.model.builders import energy_transformer, layered, looped_mlp
from experiments.reporting.document import Table
from experiments.verify.digits import seeds
from experiments.verify.track import Check, Finding, Size, Track, TrackSize
from golden.cases import CAP, UNCAPPED, Case, Factory, initial_case, trained_case
from golden.compare import THRESHOLDS, Comparison, compare_rules, compare_steps
from golden.couplings import THRESHOLD, check_network
from golden.draws import stream
from golden.reference import ReferenceBackend

CLAIM = (
    "The compiled engine, torch and a scalar reference that shares no code with them take the same "
    "steps and accumulate the same local rule, in single and in double precision; the closed forms "
    "behind them are those of autograd."
)
BACKENDS: dict[str, Factory] = {
    "numba": NumbaBackend,
    "torch": partial(TorchBackend, device="cpu"),
    "scalar": ReferenceBackend,
}
NETWORKS = {
    "looped": looped_mlp(5, 10, 3),
    "layered": layered((5, 10, 10, 3)),
    "transformer": energy_transformer(4, 3, width=4),
}
NUDGE = 0.1
EDGE = 3
"""How many of the first and of the last steps are shown."""
FAULT = 1e-6
"""What one weight is off by in the backend that the harness has to find."""
SHIFT = 1e-7
"""Of every unit, to see what steps make of a rounding: about one of single precision."""


@dataclass(frozen=True)
class Pair:
    """Two backends on one case: every step and the local rule."""

    case: str
    backends: str
    precision: str
    beta: float
    steps: Comparison
    rule: float
    growth: float
    """What the steps make of a rounding, at most, as a factor of at least one."""


def verify(size: Size) -> Finding:
    """Compare every pair of backends on every case, in both precisions."""
    cases = [case for seed in seeds(size.seeds) for case in draw_cases(seed)]
    pairs = [pair for case in cases for pair in compare_case(case, size.amount)]
    forms = [
        metric
        for seed in seeds(size.seeds)
        for name, network in NETWORKS.items()
        for metric in check_network(network, stream(seed, name))
    ]
    missed = sum(not finds_fault(case, size.amount) for case in cases)
    checks = [_largest(pairs, precision) for precision in ("float32", "float64")]
    checks += [_largest_rule(pairs, precision) for precision in ("float32", "float64")]
    errors = [metric.value for metric in forms]
    checks.append(Check.of_all("Largest relative error of a closed form", errors, "<=", THRESHOLD))
    checks.append(Check(f"Cases where a weight off by {FAULT:g} is not found", missed, "=", 0.0))
    return Finding(
        experiment=(
            f"{len(cases)} cases: a looped and a layered network, at a recurrent norm of {CAP} and "
            f"of {UNCAPPED}, and a transformer, with random weights and after training, "
            f"{size.repeats}. Every pair of backends takes {size.amount} single steps, free and "
            f"nudged (beta {NUDGE:g}), each from its own last state, in both precisions; states "
            "and outputs are compared after every step and the local rules at one state. Where "
            "the steps make a small change grow, as near a saddle, a difference counts over that "
            "growth, which the scalar reference measures in double precision. drive and "
            "correlate of every coupling are held to autograd of its potential. To show that the "
            f"harness can fail, one weight of one backend is moved by {FAULT:g}: it has to be "
            "found, and its layer named."
        ),
        checks=tuple(checks),
        tables=(_step_table(pairs, size.amount), _pair_table(pairs)),
        limits=(
            "Networks of 10 to 20 units: the scalar reference is slow by design. Masks and "
            "memories of the transformer are left to python -m golden.",
            "Agreement of three backends says that they compute the same thing, not that it is "
            "the right thing: for that see tracks 2 and 28.",
            "In single precision an error that grows as fast as a rounding shows in the first "
            "steps or not at all; double precision has a limit far below it.",
        ),
        measurements={
            "pairs": [
                {
                    "case": pair.case,
                    "backends": pair.backends,
                    "precision": pair.precision,
                    "beta": pair.beta,
                    "differences": [row.largest for row in pair.steps.rows],
                    "rule": pair.rule,
                }
                for pair in pairs
            ]
        },
    )


def draw_cases(seed: int) -> Iterator[Case]:
    """Yield every network at the start and trained, below and above a norm of one if it has one."""
    for name, network in NETWORKS.items():
        caps: dict[float | None, float | None] = {None: None}
        if has_cap(network):
            caps = {CAP: CAP, UNCAPPED: None}
        for norm, cap in caps.items():
            title = name if norm is None else f"{name}, norm {norm}"
            start = initial_case(f"{title}, random", network, stream(seed, title), norm)
            yield start
            yield trained_case(start, cap, f"{title}, trained")


def compare_case(case: Case, steps: int) -> Iterator[Pair]:
    """Yield the comparison of every pair of backends in both precisions and phases."""
    growths = {beta: rounding_growth(case, beta, steps) for beta in (0.0, NUDGE)}
    for precision in ("float32", "float64"):
        built = {name: case.build(make, np.dtype(precision)) for name, make in BACKENDS.items()}
        for left, right in combinations(built, 2):
            rules = compare_rules(built[left], built[right], case.x, case.y)
            rule = float(np.max([metric.value for metric in rules]))
            for beta, growth in growths.items():
                found = compare_steps(
                    built[left], built[right], case.x, case.y, beta=beta, steps=steps
                )
                yield Pair(case.name, f"{left}, {right}", precision, beta, found, rule, growth)


def rounding_growth(case: Case, beta: float, steps: int) -> float:
    """Return by how much the scalar reference, in double precision, makes a small change grow.

    A trajectory that passes a saddle parts from its neighbours there, and meets them again behind
    it: two backends that round differently do the same, and neither is wrong.
    """
    backend = case.build(ReferenceBackend)
    clamped = backend.clamp(case.x, case.y)
    single = Relaxation(max_steps=1, tolerance=0.0)
    state = backend.settle(clamped, beta, single).state
    signs = np.random.default_rng(0).choice((-1.0, 1.0), state.shape)
    moved: FloatArray = state + SHIFT * signs
    largest = SHIFT
    for _ in range(steps - 1):
        state, moved = (backend.settle(clamped, beta, single, s).state for s in (state, moved))
        largest = max(largest, float(np.abs(moved - state).max()))
    return largest / SHIFT


def finds_fault(case: Case, steps: int) -> bool:
    """Move one recurrent weight a little and ask whether the comparison notices and says where."""
    wrong, recurrent = case.params.copy(), case.network.recurrent[0]
    block = wrong[recurrent.name]
    block.flat[1] += FAULT
    if recurrent.name in case.network.links and case.network.links[recurrent.name].tied:
        block[1, 0] += FAULT  # the same synapse
    sound: Backend = case.build(BACKENDS["numba"])
    faulty = replace(case, params=wrong).build(BACKENDS["numba"])
    found = compare_steps(sound, faulty, case.x, case.y, steps=steps)
    if found.passed or found.first is None:
        return False
    return found.first.step <= 2 and found.first.layer in case.network.columns


def _largest(pairs: list[Pair], precision: str) -> Check:
    found = [p for p in pairs if p.precision == precision]
    values = [metric.value / p.growth for p in found for metric in p.steps.metrics]
    limit = THRESHOLDS[np.dtype(precision)]
    name = f"Largest difference of a state or output, over the growth of roundings, {precision}"
    return Check.of_all(name, values, "<=", limit)


def _largest_rule(pairs: list[Pair], precision: str) -> Check:
    values = [pair.rule for pair in pairs if pair.precision == precision]
    limit = THRESHOLDS[np.dtype(precision)]
    return Check.of_all(
        f"Largest relative difference of a local rule, {precision}", values, "<=", limit
    )


def _step_table(pairs: list[Pair], steps: int) -> Table:
    shown = sorted({*range(1, min(EDGE, steps) + 1), *range(max(1, steps - EDGE + 1), steps + 1)})
    rows = []
    for precision in ("float32", "float64"):
        for backends in dict.fromkeys(pair.backends for pair in pairs):
            found = [p for p in pairs if (p.precision, p.backends) == (precision, backends)]
            largest = np.max([[row.largest for row in p.steps.rows] for p in found], axis=0)
            rows.append((precision, backends, *(f"{largest[k - 1]:.1e}" for k in shown)))
    return Table(
        "Largest difference after each step, over all cases and phases",
        ("Precision", "Backends", *(f"Step {k}" for k in shown)),
        tuple(rows),
        caption="The first steps and the last; the JSON file has all of them for every case.",
        text_columns=2,
    )


def _pair_table(pairs: list[Pair]) -> Table:
    rows = []
    for case in dict.fromkeys(pair.case for pair in pairs):
        cells = [case]
        for precision in ("float32", "float64"):
            found = [p for p in pairs if (p.case, p.precision) == (case, precision)]
            largest = max(row.largest for p in found for row in p.steps.rows)
            cells += [f"{largest:.1e}", f"{max(p.rule for p in found):.1e}"]
        rows.append(tuple(cells))
    return Table(
        "Largest difference by case, over pairs, phases, steps and seeds",
        ("Case", "float32,\nsteps", "float32,\nrule", "float64,\nsteps", "float64,\nrule"),
        tuple(rows),
    )


TRACK = Track(
    number=22,
    title="Golden reference",
    claim=CLAIM,
    unit="steps",
    sizes={
        TrackSize.QUICK: Size(1, 30),
        TrackSize.DEFAULT: Size(3, 30),
        TrackSize.FULL: Size(5, 30),
    },
    verify=verify,
)
