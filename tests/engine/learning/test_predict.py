"""Predictions: their shapes, their independence of batches, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.predict import evaluate, predict, predict_outputs, predict_proba
from engine.model import dynamics
from engine.model.builders import layered, looped_mlp
from engine.model.params import initial_params
from experiments.fuzz.strategies import Case, cases, looped

TIGHT = Relaxation(500, 1e-10)


def _backend(dtype: type = np.float32) -> NumbaBackend:
    network = looped_mlp(4, 6, 3)
    return NumbaBackend(network, initial_params(network, np.random.default_rng(0), dtype))


X = np.random.default_rng(1).standard_normal((11, 4))
Y = np.random.default_rng(2).integers(3, size=11)


@given(cases())
def test_outputs_are_those_of_the_free_equilibrium(case: Case) -> None:
    settled = case.backend.settle(case.backend.clamp(case.x), relaxation=TIGHT)
    outputs = predict_outputs(case.backend, case.x, TIGHT)
    assert outputs.shape == (len(case.x), case.network.outputs)
    assert outputs.dtype == case.backend.dtype
    np.testing.assert_allclose(outputs, case.backend.predict(settled), rtol=0, atol=1e-12)
    classes = predict(case.backend, case.x, TIGHT)
    assert classes.shape == (len(case.x),)
    assert np.issubdtype(classes.dtype, np.integer)
    np.testing.assert_array_equal(classes, outputs.argmax(1))


@given(cases(looped()))
def test_probabilities_are_positive_and_sum_to_one(case: Case) -> None:
    probabilities = predict_proba(case.backend, case.x)
    assert (probabilities >= 0.0).all()
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=0, atol=1e-12)


@given(st.integers(1, 13))
def test_the_size_of_a_batch_changes_no_prediction(batch_size: int) -> None:
    backend = _backend(np.float64)
    whole = predict_proba(backend, X, TIGHT)
    dirt = np.full_like(whole, np.nan)
    del dirt  # a row that no batch writes must not hold an earlier answer
    parts = predict_proba(backend, X, TIGHT, batch_size)
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-9)
    result, split = evaluate(backend, X, Y, TIGHT), evaluate(backend, X, Y, TIGHT, batch_size)
    assert abs(result.cost - split.cost) < 1e-9
    assert result.accuracy == split.accuracy
    assert abs(result.steps - split.steps) < 1e-12


def test_an_evaluation_is_the_mean_over_samples() -> None:
    backend = _backend(np.float64)
    result = evaluate(backend, X, Y, TIGHT)
    settled = backend.settle(backend.clamp(X), relaxation=TIGHT)
    costs = dynamics.cost(backend.network, backend.params, settled.state, np.eye(3)[Y])
    assert abs(result.cost - costs.mean()) < 1e-12
    assert result.accuracy == (predict(backend, X, TIGHT) == Y).mean()
    assert 0.0 < result.accuracy < 1.0
    assert result.steps == settled.steps.mean()
    assert result.unsettled == 0.0
    assert evaluate(backend, X, Y, Relaxation(2, 1e-10)).unsettled == 1.0


def test_rows_of_targets_have_a_cost_but_no_accuracy() -> None:
    backend = _backend(np.float64)
    by_row, by_label = evaluate(backend, X, np.eye(3)[Y]), evaluate(backend, X, Y)
    assert by_row.accuracy is None
    assert by_row.cost == by_label.cost


def test_no_samples_give_no_predictions() -> None:
    assert predict(_backend(), X[:0]).shape == (0,)
    assert predict_proba(_backend(), X[:0]).shape == (0, 3)


def test_a_squared_error_has_outputs_but_no_probabilities() -> None:
    network = layered((4, 5, 2), readout="squared_error")
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    assert predict_outputs(backend, X).shape == (11, 2)
    with pytest.raises(EngineError, match="SquaredError has no probabilities; use predict_outputs"):
        predict_proba(backend, X)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[:, 1:], r"x has shape \(11, 3\), expected \(samples, 4\)"),
        (X[0], r"x has shape \(4,\), expected \(samples, 4\)"),
        (np.full((2, 4), np.nan), "x holds nan at sample 0, column 0"),
        ([["a", "b", "c", "d"]], "x is an array of <U1, expected real numbers"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(x: object, message: str) -> None:
    for ask in (predict, predict_proba, predict_outputs):
        with pytest.raises(EngineError, match=message):
            ask(_backend(), x)
    with pytest.raises(EngineError, match=message):
        evaluate(_backend(), x, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y[1:], "y has 10 samples, x has 11"),
        (Y + 1, "label 3 is outside the 3 outputs"),
        (Y - 1, "label -1 is outside the 3 outputs"),
        (Y * 0.5, "class labels are float64"),
        (np.eye(4)[Y], r"y has shape \(11, 4\), expected \(samples, 3\)"),
        (np.eye(3)[Y] - 0.5, "target 0 is .*, expected probabilities"),
    ],
)
def test_targets_that_do_not_fit_are_refused(y: object, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        evaluate(_backend(), X, y)
    with pytest.raises(EngineError, match="need some of both"):
        evaluate(_backend(), X[:0], Y[:0])


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_without_samples_is_refused(batch_size: int) -> None:
    for ask in (predict, predict_proba, predict_outputs):
        with pytest.raises(EngineError, match=f"batch_size is {batch_size}"):
            ask(_backend(), X, batch_size=batch_size)
    with pytest.raises(EngineError, match=f"batch_size is {batch_size}"):
        evaluate(_backend(), X, Y, batch_size=batch_size)
