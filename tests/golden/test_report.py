"""The parts of the golden report on networks of a few units, and the verdict over all of them."""

from dataclasses import replace

import numpy as np
import pytest

from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.learning.estimator import centered
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params
from golden import command, report
from golden.__main__ import main
from golden.bias import ORDERS, BiasOrder
from golden.cases import Case, initial_case
from golden.fidelity import BETA, eqprop_gradient
from golden.reference import ReferenceBackend
from golden.report import (
    GoldenSection,
    report_couplings,
    report_fidelity,
    report_reference,
    report_steps,
)

LOOPED, STACK = looped_mlp(2, 2, 2), layered((2, 2, 2, 2))


class WrongUnit(ReferenceBackend):
    """The first unit is off by 1e-3 in every sample."""

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        reached = super()._relax_one(clamped, beta, relaxation, start)
        reached.state[:, 0] += 1e-3
        return reached


class WrongRule(ReferenceBackend):
    """The couplings learn with the wrong sign."""

    def _accumulate(
        self, clamped: Clamped, equilibrium: Equilibrium, gradient: FloatArray, energy: float,
        cost: float,
    ) -> None:  # fmt: skip
        super()._accumulate(clamped, equilibrium, gradient, -energy, cost)


def _case(network: Network = LOOPED) -> Case:
    case = initial_case("small", network, np.random.default_rng(0), 0.5)
    return replace(case, x=case.x[:2], y=case.y[:2])


def _rows(section: GoldenSection) -> list[list[str]]:
    """The cells of the last table."""
    table = section.body.split("\n\n")[-1].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_closed_forms_are_counted_by_network_and_all_hold() -> None:
    networks = {"looped": LOOPED, "stack": STACK}
    section = report_couplings(networks, 0)
    rows = _rows(section)
    assert [row[0] for row in rows] == ["looped", "stack"]
    # drive, correlate and link of each coupling; network, nudge, two read-out blocks; activations
    assert [int(row[1]) for row in rows] == [3 * 3 + 4 + 1, 3 * 4 + 4 + 2]
    assert section.checks == 32
    assert section.failures == ()
    assert all(0.0 <= float(row[2]) <= float(row[3]) == 1e-10 for row in rows)


def test_a_closed_form_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(LOOPED.couplings[1])
    right = kind.correlate
    monkeypatch.setattr(kind, "correlate", lambda *arguments: 2 * right(*arguments))
    section = report_couplings({"looped": LOOPED}, 0)
    names = [failure.split(": ")[0] for failure in section.failures]
    assert names == ["looped, b correlate", "looped, b link"]
    assert float(_rows(section)[0][2]) == pytest.approx(1.0, rel=0.1)


def test_every_pair_of_backends_is_compared_at_every_step() -> None:
    backends = {"numba": NumbaBackend, "reference": ReferenceBackend, "wrong": WrongUnit}
    sections = report_steps(_case(), backends, 3)
    pairs = [("numba", "reference"), ("numba", "wrong"), ("reference", "wrong")]
    assert [s.title for s in sections] == [f"{a} against {b}, float32: small" for a, b in pairs]
    assert [bool(section.failures) for section in sections] == [False, True, True]
    assert [section.checks for section in sections] == [2, 2, 2]
    for section in sections:
        steps = section.body.split("\n\n")[0].splitlines()[2:]
        assert [line.split("|")[1].strip() for line in steps] == ["1", "2", "3"]
    assert "step 1, layer 'hidden', unit 0" in sections[1].failures[0]


@pytest.mark.parametrize(("network", "phases"), [(LOOPED, 2), (STACK, 6)])
def test_a_backend_is_held_to_the_reference_in_every_phase_it_has(
    network: Network, phases: int
) -> None:
    right, wrong = {"numba": NumbaBackend}, {"wrong": WrongUnit}
    section = report_reference(_case(network), right | wrong, 2)
    names = [row[0] for row in _rows(section)]
    assert section.checks == len(names) == 2 * (phases + 1)
    assert names[0] == "numba, fixed point, beta 0"
    assert names[1] == "numba, fixed point, beta 0.1"
    assert ("wrong, alternating, beta 0.1" in names) == (phases == 6)
    assert names[phases].endswith("local rule")
    assert len(section.failures) == phases
    assert all(failure.startswith("small, wrong, ") for failure in section.failures)
    rows = {row[0]: float(row[1]) for row in _rows(section)}
    assert rows["wrong, fixed point, beta 0"] >= 1e-3
    assert rows["numba, fixed point, beta 0"] < 1e-12


def test_a_wrong_rule_shows_in_each_block_of_a_coupling() -> None:
    section = report_reference(_case(), {"wrong": WrongRule}, 1)
    assert {failure.split(": ")[0] for failure in section.failures} == {
        f"small, wrong, {name} local rule" for name in ("W_in", "b", "W_rec")
    }
    assert _rows(section)[-1][1] == "2.00e+00"  # twice the rule, over its largest entry


def _trusted(network: Network, params: Params, x: FloatArray, y: FloatArray) -> FloatArray:
    return eqprop_gradient(NumbaBackend(network, params), x, y, centered(BETA))


def test_a_gradient_is_held_to_every_reference() -> None:
    references = {"same": _trusted, "opposite": lambda *case: -_trusted(*case)}
    section = report_fidelity([_case()], NumbaBackend, references)
    assert section.checks == 2
    assert _rows(section) == [
        ["small", "same", "1.0e-02", "1.000000000", "0.0e+00"],
        ["small", "opposite", "1.0e-02", "-1.000000000", "2.0e+00"],
    ]
    (failure,) = section.failures
    assert failure == (
        "gradient of small against opposite: cosine -1.000000000, relative error 2.0e+00"
    )


def test_the_growth_of_the_bias_is_shown_and_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def trained(case: Case, cap: float, name: str, share: float) -> Case:
        asked.append((cap, name, share))
        return case

    monkeypatch.setattr(report, "trained_case", trained)
    section = report.report_training([_case()], 0.9, NumbaBackend, _trusted)
    assert asked == [(0.9, "small", share) for share in (0.7, 0.3, 0.1)]
    assert (section.checks, section.failures) == (0, ())
    assert [row[:2] for row in _rows(section)] == [
        ["small", "70%"],
        ["small", "30%"],
        ["small", "10%"],
    ]
    for row in _rows(section):
        assert row[3] == "0.0e+00"  # against itself, at the same beta
        assert 0.0 < float(row[4]) < 1e-2


@pytest.mark.parametrize(
    ("failures", "code", "verdict"),
    [
        ((), 0, "Verdict: all 7 checks are within tolerance."),
        (("one", "two"), 1, "Verdict: 2 failures in 7 checks."),
    ],
)
def test_the_verdict_counts_all_sections(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failures: tuple[str, ...],
    code: int,
    verdict: str,
) -> None:
    sections = [GoldenSection("A", "x", 3, failures[:1]), GoldenSection("B", "y", 4, failures[1:])]
    monkeypatch.setattr(command, "run_sections", lambda *_: iter(sections))
    assert main([]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == verdict
    assert [line for line in lines if line.startswith("Failure")] == [
        f"Failure: {failure}" for failure in failures
    ]
    assert lines[:4] == ["## A", "", "x", ""]


def test_each_network_is_judged_once_by_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[str]] = {}

    def part(kind: str):
        def made(case: object, *_: object) -> GoldenSection:
            names = [case.name] if isinstance(case, Case) else [c.name for c in case]
            seen.setdefault(kind, []).extend(names)
            return GoldenSection(kind, "", 0, ())

        return made

    for kind in ("reference", "fidelity", "training", "bias"):
        monkeypatch.setattr(command, f"report_{kind}", part(kind))
    monkeypatch.setattr(
        command, "report_couplings", lambda *_: GoldenSection("couplings", "", 0, ())
    )
    monkeypatch.setattr(command, "report_steps", lambda *_: [])
    monkeypatch.setattr(command, "trained_case", lambda case, cap, name: replace(case, name=name))
    list(command.run_sections({"numba": NumbaBackend}, 2, 0))
    networks, smooth = command.judged_networks(), command.smooth_networks()
    rest = [name for name in networks if name not in command.STEPPED]
    stepped = [
        f"{name}, {state}, {moment}"
        for name in command.STEPPED
        for state in ("capped (norm 0.95)", "uncapped (norm 1.5)")
        for moment in ("initial", "trained")
    ]
    assert seen["reference"] == [*stepped, *rest]
    deep = command.deep_networks()
    trained = [name for name in smooth if name not in deep]
    both = [f"{name}, {moment}" for name in trained for moment in ("initial", "trained")]
    assert seen["fidelity"] == seen["bias"] == [*both, *(f"{name}, initial" for name in deep)]
    assert seen["training"] == [name for name in trained if "transformer" not in name]


def test_a_network_that_is_added_leaves_the_draws_of_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of every part of the report that draws: parameters, inputs and targets, bit for bit."""
    drawn: dict[tuple[str, str], bytes] = {}

    def note(kind: str, *cases: Case) -> GoldenSection:
        for case in cases:
            content = b"".join(a.tobytes() for a in (case.params.theta, case.x, case.y))
            drawn[kind, case.name] = content
        return GoldenSection(kind, "", 0, ())

    def forms(networks: dict[str, Network], seed: int) -> GoldenSection:
        for name, network in networks.items():
            checked = report.check_network(network, report.stream(seed, name))
            drawn["couplings", name] = repr(checked).encode()
        return GoldenSection("couplings", "", 0, ())

    small = {"looped": LOOPED, "stack": STACK}
    monkeypatch.setattr(command, "STEPPED", ("looped",))
    monkeypatch.setattr(command, "report_couplings", forms)
    monkeypatch.setattr(command, "report_steps", lambda case, *_: [note("steps", case)])
    monkeypatch.setattr(command, "report_reference", lambda case, *_: note("judge", case))
    for kind in ("fidelity", "training", "bias", "rounding"):
        part = f"report_{kind}"
        monkeypatch.setattr(command, part, lambda cases, *_, kind=kind: note(kind, *cases))
    monkeypatch.setattr(command, "report_depth", lambda _: note("depth"))
    found = []
    for added in ({}, {"first": layered((2, 3, 2))}):
        networks = added | small
        monkeypatch.setattr(command, "judged_networks", lambda networks=networks: networks)
        monkeypatch.setattr(command, "smooth_networks", lambda networks=networks: networks)
        drawn.clear()
        list(command.run_sections({"numba": NumbaBackend}, 2, 0))
        found.append(dict(drawn))
    before, after = found
    assert len(before) > 12
    assert len(set(before.values())) > 6
    assert {key: after[key] for key in before} == before
    assert any("first" in name for _, name in after.keys() - before.keys())


def test_the_differences_of_the_command_are_those_of_its_backend() -> None:
    case = _case()
    found = command._differences(NumbaBackend, case.network, case.params, case.x, case.y)
    np.testing.assert_allclose(
        found, _trusted(case.network, case.params, case.x, case.y), atol=1e-4
    )


def test_every_estimator_is_held_to_its_order_on_every_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slopes = {"one_sided": 1.0, "centered": 1.5, "four_point": 4.0}

    def measured(backend: object, x: object, y: object, name: str, trusted: object) -> BiasOrder:
        order, margin = ORDERS[name]
        return BiasOrder(name, (0.1, 0.2), (1e-5, 1e-4), slopes[name], order, margin)

    monkeypatch.setattr(report, "measure_bias_order", measured)
    section = report.report_bias([_case()], NumbaBackend, _trusted)
    assert section.title == "Order of the bias in beta, float64"
    assert section.checks == 3
    assert [row[:2] for row in _rows(section)] == [["small", name] for name in slopes]
    assert _rows(section)[1][2:] == ["1.0e-01 to 2.0e-01", "1.0e-05 to 1.0e-04", "1.500", "2 ± 0.1"]
    assert section.failures == ("bias of centered, small: order 1.500, not 2 ± 0.1",)
