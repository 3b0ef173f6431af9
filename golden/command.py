"""The work of the judge: which backends, which networks, and every part of the report."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from threadpoolctl import threadpool_limits

from adapters.torch_autograd import bptt_gradient, implicit_gradient
from adapters.torch_backend import TorchBackend
from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.spectral import has_cap
from engine.model.network import Network
from engine.model.params import Params
from golden.cases import (
    CAP,
    REACHED,
    UNCAPPED,
    Case,
    Factory,
    deep_networks,
    initial_case,
    judged_networks,
    smooth_networks,
    trained_case,
)
from golden.displacement import depth_sweep
from golden.draws import stream
from golden.fidelity import CONVERGED, Reference, difference_gradient
from golden.report import (
    GoldenSection,
    report_bias,
    report_couplings,
    report_depth,
    report_fidelity,
    report_reference,
    report_rounding,
    report_steps,
    report_training,
)

BACKENDS: dict[str, Factory] = {
    "numba": NumbaBackend,
    "torch": partial(TorchBackend, device="cpu"),
}
STEPPED = ("looped", "layered, depth 3")
"""Networks that are printed step by step."""


def judge(options: argparse.Namespace, backends: Mapping[str, Factory] = BACKENDS) -> int:
    """Print the report on `backends`; return 0 if all of it is within tolerance."""
    checks = 0
    failures: list[str] = []
    try:
        with threadpool_limits(limits=1):  # networks so small only wait for a second thread
            for section in run_sections(backends, options.steps, options.seed):
                print(f"## {section.title}\n\n{section.body}\n", flush=True)
                checks += section.checks
                failures += section.failures
    except EngineError as error:
        failures.append(f"stopped early: {error}")
    for failure in failures:
        print(f"Failure: {failure}")
    verdict = f"all {checks} checks are within tolerance"
    if failures:
        verdict = f"{len(failures)} failures in {checks} checks"
    print(f"Verdict: {verdict}.")
    return 1 if failures else 0


def run_sections(backends: Mapping[str, Factory], steps: int, seed: int) -> Iterator[GoldenSection]:
    """Yield every part of the report, each as soon as it has run."""
    networks = judged_networks()
    yield report_couplings(networks, seed)
    for name in STEPPED:
        for case in _stepped_cases(name, networks[name], seed):
            yield from report_steps(case, backends, steps)
            yield report_reference(case, backends, steps)
    for name, network in networks.items():
        if name not in STEPPED:
            case = initial_case(name, network, stream(seed, f"{name}, stepped"))
            yield report_reference(case, backends, steps)
    factory = next(iter(backends.values()))
    exact = partial(implicit_gradient, relaxation=CONVERGED)
    references: dict[str, Reference] = {
        "BPTT": partial(bptt_gradient, steps=REACHED.max_steps),
        "implicit": exact,
        "finite differences": partial(_differences, factory),
    }
    cases, deep, starts = [], [], []
    for name, network in smooth_networks().items():
        start = initial_case(f"{name}, initial", network, stream(seed, f"{name}, trained"))
        if name in deep_networks():
            deep.append(start)
            continue
        cases += [start, trained_case(start, CAP, f"{name}, trained")]
        if has_cap(network):  # without one, long training may leave no equilibrium to judge at
            starts.append(replace(start, name=name))
    yield report_fidelity(cases, factory, references)
    del references["BPTT"]  # of many layers it takes as long as all the rest
    yield report_fidelity(deep, factory, references)
    yield report_training(starts, CAP, factory, exact)
    yield report_bias([*cases, *deep], factory, exact)
    shallow = [n for n, net in networks.items() if net.linear and n not in deep_networks()]
    drawn = [initial_case(n, networks[n], stream(seed, f"{n}, rounding")) for n in shallow]
    yield report_rounding(drawn, factory, exact)
    # Large states of a calibrated start settle to a rounding of theirs, not of one.
    trusted = partial(implicit_gradient, relaxation=Relaxation(2000, 1e-9))
    yield report_depth(depth_sweep(seed, factory, trusted))


def _stepped_cases(name: str, network: Network, seed: int) -> Iterator[Case]:
    """Yield the network with and without a cap on its recurrent norm, at the start and trained."""
    for norm, cap in ((CAP, CAP), (UNCAPPED, None)):
        label = f"{name}, {'capped' if cap else 'uncapped'} (norm {norm})"
        start = initial_case(f"{label}, initial", network, stream(seed, label), norm)
        yield start
        yield trained_case(start, cap, f"{label}, trained")


def _differences(
    factory: Factory, network: Network, params: Params, x: FloatArray, y: FloatArray
) -> FloatArray:
    return difference_gradient(factory(network, params), x, y)
