"""The stepwise comparison: right backends agree, and every planted fault is found where it is."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from adapters.torch_backend import TorchBackend
from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.couplings.coupling import Coupling
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.errors import EngineError
from engine.model.builders import layered
from engine.model.params import initial_params
from golden.cases import CAP, UNCAPPED, Case, initial_case, judged_networks, trained_case
from golden.compare import OUTPUT, compare_rules, compare_steps, format_steps
from golden.metric import Metric, format_metrics
from golden.reference import ReferenceBackend

NETWORK = layered((4, 6, 6, 5, 3))
TORCH = partial(TorchBackend, device="cpu")
FACTORIES = {"numba": NumbaBackend, "torch": TORCH, "reference": ReferenceBackend}


class WrongUnit(NumbaBackend):
    """From the fourth relaxation on, unit 2 of `layer2` is off by 1e-3 in sample 1."""

    calls = 0

    _relax = Backend._relax  # one phase after the other

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        reached = super()._relax_one(clamped, beta, relaxation, start)
        self.calls += 1
        if self.calls >= 4:
            self.network.of("layer2", reached.state)[1, 2] += 1e-3
        return reached


class FlippedSign(ReferenceBackend):
    """`W_3` sends the wrong sign to its target, `layer3`."""

    def _send(
        self, coupling: Coupling, w: object, x: list[float], ends: Sequence[list[float]]
    ) -> tuple[list[float], ...]:
        sent = super()._send(coupling, w, x, ends)
        if coupling.name == "W_3":
            return sent[0], [-part for part in sent[1]]
        return sent


class Transposed(ReferenceBackend):
    """`W_2`, which is square, is used the wrong way round."""

    def _send(
        self, coupling: Coupling, w: object, x: list[float], ends: Sequence[list[float]]
    ) -> tuple[list[float], ...]:
        if coupling.name == "W_2":
            w = np.array(w).T.tolist()
        return super()._send(coupling, w, x, ends)


class WrongRule(ReferenceBackend):
    """`W_2` learns by twice its correlation."""

    def _correlate(
        self, coupling: Coupling, w: object, x: list[float], ends: Sequence[list[float]]
    ) -> list[float]:
        factor = 2.0 if coupling.name == "W_2" else 1.0
        return [factor * part for part in super()._correlate(coupling, w, x, ends)]


class WrongOutput(NumbaBackend):
    """Output 1 of sample 2 is misread."""

    def predict(self, equilibrium: Equilibrium) -> FloatArray:
        outputs = super().predict(equilibrium).copy()
        outputs[2, 1] += 0.01
        return outputs


class NotANumber(NumbaBackend):
    """Output 1 of sample 2 is lost."""

    def predict(self, equilibrium: Equilibrium) -> FloatArray:
        outputs = super().predict(equilibrium).copy()
        outputs[2, 1] = np.nan
        return outputs


@pytest.fixture
def case() -> Case:
    return initial_case("deep", NETWORK, np.random.default_rng(5), CAP)


def against_reference(case: Case, wrong: type[Backend], **options: float):
    return compare_steps(
        case.build(wrong), case.build(ReferenceBackend), case.x, case.y, steps=6, **options
    )


@pytest.mark.parametrize("name", FACTORIES)
def test_a_backend_does_not_differ_from_itself(name: str, case: Case) -> None:
    left, right = case.build(FACTORIES[name]), case.build(FACTORIES[name])
    found = compare_steps(left, right, case.x, case.y, beta=0.1)
    assert [row.step for row in found.rows] == list(range(1, 31))
    assert all(row.largest == 0.0 for row in found.rows)
    assert found.passed
    assert found.first is None
    assert all(metric.value == 0.0 for metric in compare_rules(left, right, case.x, case.y))


def test_errors_that_cancel_are_compared_by_their_size_and_not_by_their_rounding() -> None:
    """Nothing is sent to the read-out, and each class is as frequent as it is likely."""
    network = layered((4, 5, 3))
    params = initial_params(network, np.random.default_rng(0), np.float64)
    params["W_out"][...] = 0
    x, y = np.random.default_rng(1).normal(size=(6, 4)), np.eye(3)[[0, 1, 1, 0, 2, 2]]
    sides = ReferenceBackend(network, params), TORCH(network, params)
    assert all(metric.passed for metric in compare_rules(*sides, x, y))

    class Forgetful(NumbaBackend):
        """A thousandth of an error is lost in every step of the delta rule."""

        def _accumulate(self, clamped, equilibrium, gradient, energy, cost):  # type: ignore[no-untyped-def]
            costs = super()._accumulate(clamped, equilibrium, gradient, energy, cost)
            gradient[network.blocks["b_out"].start] -= 1e-3 * cost
            return costs

    wrong = compare_rules(sides[0], Forgetful(network, params), x, y)
    assert [metric.name for metric in wrong if not metric.passed] == ["b_out local rule"]


@pytest.mark.parametrize("trained", [False, True], ids=["initial", "trained"])
@pytest.mark.parametrize("norm", [CAP, UNCAPPED])
@pytest.mark.parametrize("name", ["looped", "layered, depth 3"])
def test_numba_and_torch_agree_in_float32(name: str, norm: float, trained: bool) -> None:
    case = initial_case(name, judged_networks()[name], np.random.default_rng(1), norm)
    if trained:
        case = trained_case(case, CAP if norm == CAP else None, name)
    left, right = case.build(NumbaBackend, np.float32), case.build(TORCH, np.float32)
    found = compare_steps(left, right, case.x, case.y)
    assert found.passed, found.first
    assert [metric.threshold for metric in found.metrics] == [1e-5, 1e-5]
    assert all(metric.passed for metric in compare_rules(left, right, case.x, case.y))


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("solver", ["fixed_point", "alternating"])
@pytest.mark.parametrize("name", ["numba", "torch"])
def test_backends_agree_with_the_reference(name: str, solver: str, beta: float, case: Case) -> None:
    left, right = case.build(FACTORIES[name]), case.build(ReferenceBackend)
    found = compare_steps(left, right, case.x, case.y, beta=beta, solver=solver, threshold=1e-13)
    assert found.passed, found.first


def test_wrong_unit_is_located(case: Case) -> None:
    found = against_reference(case, WrongUnit)
    assert not found.passed
    assert found.first is not None
    where = (found.first.step, found.first.layer, found.first.unit, found.first.sample)
    assert where == (4, "layer2", 2, 1)
    assert found.first.difference == pytest.approx(1e-3, rel=1e-6)
    assert all(row.hidden < 1e-12 for row in found.rows[:3])


def test_wrong_unit_passes_under_a_generous_threshold(case: Case) -> None:
    assert against_reference(case, WrongUnit, threshold=0.1).passed


def test_flipped_sign_is_located_in_the_layer_it_drives(case: Case) -> None:
    found = against_reference(case, FlippedSign)
    assert not found.passed
    assert found.first is not None
    # `layer2` starts at zero: it has something to send from the second step on
    assert (found.first.step, found.first.layer) == (2, "layer3")


def test_transposed_coupling_is_located_at_its_ends(case: Case) -> None:
    found = against_reference(case, Transposed)
    assert not found.passed
    assert found.first is not None
    assert found.first.step == 1
    assert found.first.layer in ("layer1", "layer2")


def test_wrong_rule_shows_in_its_block_alone(case: Case) -> None:
    assert against_reference(case, WrongRule).passed
    rules = compare_rules(case.build(ReferenceBackend), case.build(WrongRule), case.x, case.y)
    assert [metric.name for metric in rules if not metric.passed] == ["W_2 local rule"]


@pytest.mark.parametrize("wrong", [WrongOutput, NotANumber])
def test_wrong_output_is_located_in_the_output(case: Case, wrong: type[Backend]) -> None:
    found = against_reference(case, wrong)
    assert [metric.passed for metric in found.metrics] == [True, False]
    assert found.first is not None
    assert (found.first.layer, found.first.unit, found.first.sample) == (OUTPUT, 1, 2)


def test_the_less_precise_backend_sets_the_threshold(case: Case) -> None:
    left, right = case.build(NumbaBackend, np.float32), case.build(ReferenceBackend)
    found = compare_steps(left, right, case.x, steps=3)
    assert found.metrics[0].threshold == 1e-5
    assert found.passed
    assert found.metrics[0].value > 1e-10


def test_tables_have_the_agreed_shape(case: Case) -> None:
    backend = case.build(NumbaBackend)
    found = compare_steps(backend, backend, case.x, steps=2, threshold=1e-5)
    assert format_steps(found).splitlines() == [
        "| Step | Max difference |",
        "| --- | --- |",
        "| 1 | 0.00e+00 |",
        "| 2 | 0.00e+00 |",
    ]
    assert format_metrics(found.metrics).splitlines() == [
        "| Metric | Value | Threshold |",
        "| --- | --- | --- |",
        "| Hidden difference | 0.00e+00 | 1e-05 |",
        "| Output difference | 0.00e+00 | 1e-05 |",
    ]


def test_a_metric_that_is_not_a_number_fails() -> None:
    assert Metric("x", 1.0, 1.0).passed
    assert not Metric("x", float("nan"), 1.0).passed


def test_no_steps_are_refused(case: Case) -> None:
    backend = case.build(NumbaBackend)
    with pytest.raises(EngineError, match="steps is 0, expected at least 1"):
        compare_steps(backend, backend, case.x, steps=0)


def test_comparison_leaves_the_parameters_alone(case: Case) -> None:
    backend = case.build(NumbaBackend)
    compare_rules(backend, case.build(ReferenceBackend), case.x, case.y)
    np.testing.assert_array_equal(backend.params.theta, case.params.theta)


@pytest.mark.parametrize("wrong", [WrongUnit, WrongOutput])
def test_a_difference_at_the_threshold_passes_and_one_above_it_does_not(
    case: Case, wrong: type[Backend]
) -> None:
    first = against_reference(case, wrong)
    largest = max(metric.value for metric in first.metrics)
    assert largest == max(row.largest for row in first.rows)
    found = against_reference(case, wrong, threshold=largest)
    assert found.passed
    assert found.first is None
    below = against_reference(case, wrong, threshold=float(np.nextafter(largest, 0.0)))
    assert not below.passed
    assert below.first is not None
    assert below.first.difference == largest
