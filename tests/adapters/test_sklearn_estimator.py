"""scikit-learn's own checks in full, and what they leave out."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_friedman1
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks

from adapters.sklearn_estimator import EqPropClassifier, EqPropRegressor
from engine.errors import EngineError

QUICK = {"hidden_layer_sizes": 8, "max_iter": 20, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x, y = make_blobs(120, 4, centers=3, cluster_std=1.5, random_state=seed)
    return StandardScaler().fit_transform(x), np.array(["ant", "bee", "cat"])[y]


@parametrize_with_checks([EqPropClassifier(max_iter=40), EqPropRegressor(8, max_iter=40)])
def test_every_check_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("hidden", [32, (24, 24)])
def test_digits_that_were_held_out_are_recognised(hidden: Any) -> None:
    x_train, x_test, y_train, y_test = train_test_split(
        *load_digits(return_X_y=True), test_size=0.3, random_state=0
    )
    model = make_pipeline(StandardScaler(), EqPropClassifier(hidden, max_iter=12, random_state=0))
    assert model.fit(x_train, y_train).score(x_test, y_test) > 0.93


def test_a_curved_function_is_predicted_where_a_line_is_not_enough() -> None:
    x, y = make_friedman1(400, random_state=0)
    x_train, x_test, y_train, y_test = train_test_split(x, 1e4 * y - 3e5, random_state=0)
    model = make_pipeline(
        StandardScaler(), EqPropRegressor(32, batch_size=32, max_iter=60, random_state=0)
    )
    assert model.fit(x_train, y_train).score(x_test, y_test) > 0.8


def test_pipeline_grid_search_and_cross_validation_with_string_labels() -> None:
    x, y = blobs()
    model = make_pipeline(StandardScaler(), EqPropClassifier(**QUICK))
    grid = {"eqpropclassifier__hidden_layer_sizes": [np.int64(4), (6, 4)]}
    search = GridSearchCV(model, grid, cv=2).fit(x, y)
    assert search.best_score_ > 0.8
    assert set(search.predict(x)) == {"ant", "bee", "cat"}
    assert cross_val_score(model, x, y, cv=3).min() > 0.8


def test_partial_fit_repeats_what_fit_does() -> None:
    x, y = blobs()
    whole = EqPropClassifier(**QUICK | {"max_iter": 5, "batch_size": 32}).fit(x, y)
    parts = clone(whole)
    for _ in range(5):
        parts.partial_fit(x, y, classes=["cat", "bee", "ant"])
    np.testing.assert_array_equal(parts.predict_proba(x), whole.predict_proba(x))
    assert parts.loss_curve_ == whole.loss_curve_
    assert parts.n_iter_ == len(parts.loss_curve_) == 5


def test_partial_fit_goes_on_after_fit_and_after_a_pickle() -> None:
    x, y = make_friedman1(100, random_state=0)
    model = EqPropRegressor(**QUICK).fit(x, y)
    copy = pickle.loads(pickle.dumps(model))
    assert model.partial_fit(x, y).n_iter_ == 21
    np.testing.assert_array_equal(copy.partial_fit(x, y).predict(x), model.predict(x))
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_weights_decide_between_samples_that_contradict_each_other() -> None:
    """In small batches too, where a heavy sample must not drown in the batch that holds it."""
    x = np.tile([[1.0, 0.0], [0.0, 1.0]], (20, 1))
    y = np.where(np.arange(40) < 36, "light", "heavy")
    weights = np.where(y == "heavy", 36.0, 1.0)  # four heavy samples against 36 light ones
    model = EqPropClassifier(4, batch_size=4, max_iter=60, tol=0.0, random_state=0)
    odds = model.fit(x, y, weights).predict_proba(x)[:, list(model.classes_).index("heavy")]
    assert abs(odds.mean() - 144 / 180) < 0.1
    plain = model.fit(x, y).predict_proba(x)[:, list(model.classes_).index("heavy")]
    assert abs(plain.mean() - 4 / 40) < 0.1


def test_a_shifted_and_scaled_target_gives_a_shifted_and_scaled_prediction() -> None:
    x, y = make_friedman1(80, random_state=0)
    near = EqPropRegressor(**QUICK).fit(x, y).predict(x)
    far = EqPropRegressor(**QUICK).fit(x, 1e6 * y - 1e8).predict(x)
    np.testing.assert_allclose(far, 1e6 * near - 1e8, rtol=1e-6)


def test_several_targets_come_back_in_their_own_units() -> None:
    x, y = make_friedman1(200, random_state=0)
    model = EqPropRegressor(
        24, batch_size=32, max_iter=60, n_iter_no_change=60, random_state=0
    ).fit(x, np.stack([y, 1e3 - y], 1))
    found = model.predict(x)
    assert found.shape == (200, 2)
    assert np.abs(found.sum(1) - 1e3).max() < 5.0
    assert np.corrcoef(found[:, 0], y)[0, 1] > 0.9


def test_precision_follows_the_data() -> None:
    x, y = blobs()
    model = EqPropClassifier(**QUICK).fit(x.astype(np.float32), y)
    assert model.predict_proba(x).dtype == np.float32
    assert model.backend_.params.theta.dtype == np.float32


def test_running_out_of_passes_is_a_warning_and_settling_is_none() -> None:
    x, y = blobs()
    with pytest.warns(ConvergenceWarning, match="still fell after 2 passes"):
        EqPropClassifier(4, max_iter=2, random_state=0).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = EqPropClassifier(4, tol=1e-2, n_iter_no_change=3, random_state=0).fit(x, y)
    assert model.n_iter_ < model.max_iter


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_iter": 0}, "max_iter is 0"),
        ({"n_iter_no_change": 1.5}, "n_iter_no_change is 1.5"),
        ({"batch_size": "large"}, "batch_size is 'large'"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"hidden_layer_sizes": 0}, "layer 'hidden' has size 0"),
        ({"hidden_layer_sizes": ()}, "leave no layer"),
        ({"beta": -1.0}, "beta is -1.0"),
        ({"cap": 1.5}, "spectral cap is 1.5"),
        ({"activation": "sine"}, "unknown activation 'sine'"),
        ({"alpha": -1e-3}, "alpha is -0.001"),
        ({"alpha": "small"}, "alpha is 'small', expected a number"),
        ({"tol": None}, "tol is None, expected a number"),
        ({"hidden_layer_sizes": 2.5}, r"hidden is 2\.5, expected a whole number"),
        ({"early_stopping": True, "validation_fraction": 1.0}, "validation_fraction is 1.0"),
        ({"early_stopping": True, "validation_fraction": 0.001}, "cannot hold out 0.001 of 120"),
        ({"estimator": "psychic"}, "unknown estimator 'psychic'"),
        ({"learning_rate": 0.0}, "learning rate 0.0"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        EqPropClassifier(**settings).fit(*blobs())


def test_wrong_classes_and_weights_are_named() -> None:
    x, y = blobs()
    with pytest.raises(EngineError, match="first call of partial_fit needs all classes"):
        EqPropClassifier().partial_fit(x, y)
    with pytest.raises(EngineError, match=r"label .*cat.* is not among the classes"):
        EqPropClassifier().partial_fit(x, y, classes=["ant", "bee"])
    model = EqPropClassifier(**QUICK).partial_fit(x, y, classes=["ant", "bee", "cat"])
    with pytest.raises(EngineError, match="not those of the first call"):
        model.partial_fit(x, y, classes=["ant", "bee"])
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        EqPropClassifier().fit(x, y, np.zeros(len(x)))


BAD_FIRST_CALLS: list[dict[str, object]] = [
    {"y": [0, 1, 2, 9], "classes": [0, 1, 2]},
    {"y": [0, 1, 2, 0], "classes": None},
    {"y": [0, 1, 2, 0], "classes": [0, 1, 2], "sample_weight": [0.0] * 4},
    {"y": [0, 1, 2, 0], "classes": [0, 1, 2], "sample_weight": [-1.0] * 4},
]


@pytest.mark.parametrize("arguments", BAD_FIRST_CALLS)
def test_a_refused_first_partial_fit_leaves_the_estimator_unfitted(arguments: dict) -> None:
    x, model = np.random.default_rng(0).normal(size=(4, 3)), EqPropClassifier()
    untouched = dict(vars(model))
    with pytest.raises(ValueError):  # noqa: PT011  of scikit-learn or of the engine
        model.partial_fit(x, **arguments)
    assert vars(model) == untouched
    with pytest.raises(NotFittedError):
        model.predict(x)
    model.partial_fit(x, [0, 1, 2, 0], classes=[0, 1, 2])
    assert model.predict(x).shape == (4,)


def test_free_steps_bound_predictions_too() -> None:
    x, y = blobs()
    model = EqPropClassifier(**QUICK).fit(x, y)
    settled = model.predict_proba(x)
    rushed = model.set_params(free_steps=1).predict_proba(x)
    assert np.abs(settled - rushed).max() > 1e-3


@pytest.mark.parametrize(
    "setting",
    [{"beta": -1.0}, {"cap": 2.0}, {"free_steps": 0}, {"max_iter": 0}, {"tolerance": "fast"}],
)
@pytest.mark.parametrize("make", [EqPropClassifier, EqPropRegressor])
def test_a_refused_fit_leaves_what_was_learned(make: type, setting: dict) -> None:
    x, y = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 3
    model = make(max_iter=2, random_state=0)
    with pytest.raises(EngineError):
        make(**setting).fit(x, y).predict(x)
    with pytest.warns(ConvergenceWarning):
        before = model.fit(x, y).predict(x)
    model.set_params(**setting)
    with pytest.raises(EngineError):
        model.fit(x[:, :2], y + 5)
    model.set_params(**{name: getattr(make(), name) for name in setting})
    np.testing.assert_array_equal(model.predict(x), before)


@pytest.mark.parametrize("make", [EqPropClassifier, EqPropRegressor])
def test_a_penalty_shrinks_weights_and_counts_in_the_loss(make: type) -> None:
    """The first loss is that of the drawn weights: it differs by `alpha / 2 |W|^2` a sample."""
    x, y = make_friedman1(60, random_state=0)
    y = (y > y.mean()).astype(int) if make is EqPropClassifier else y
    models = [make(8, alpha=alpha, max_iter=1, random_state=0).fit(x, y) for alpha in (0.0, 1.0)]
    start = make(8, alpha=0.0, max_iter=1, learning_rate=1e-30, random_state=0).fit(x, y)
    blocks = start.backend_.params
    squares = sum(float(np.sum(w**2)) for name, w in blocks.items() if not name.startswith("b"))
    gap = models[1].loss_curve_[0] - models[0].loss_curve_[0]
    assert abs(gap - squares / 2 / len(x)) < 1e-9 * gap
    longer = [make(8, alpha=alpha, max_iter=40, random_state=0).fit(x, y) for alpha in (0.0, 10.0)]
    sizes = [
        float(np.sum(model.backend_.params["W_rec" if make is EqPropClassifier else "W_2"] ** 2))
        for model in longer
    ]
    assert sizes[1] < 0.5 * sizes[0]


def test_the_best_pass_on_samples_held_out_is_kept() -> None:
    x, y = blobs()
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, "ant", y)  # some labels are wrong
    model = EqPropClassifier(
        32, early_stopping=True, validation_fraction=0.25, learning_rate=0.05, random_state=0
    ).fit(x, y)
    scores = model.validation_scores_
    assert len(scores) == model.n_iter_ < model.max_iter
    assert model.best_validation_score_ == max(scores) > scores[-1]
    parts = train_test_split(
        x, y, test_size=0.25, stratify=y, random_state=check_random_state(0).randint(2**31)
    )
    assert model.score(parts[1], parts[3]) == max(scores)


def test_a_regressor_stops_early_by_the_share_of_variance() -> None:
    x, y = make_friedman1(300, random_state=0)
    model = EqPropRegressor(16, early_stopping=True, batch_size=32, random_state=0)
    model.fit(StandardScaler().fit_transform(x), y)
    assert model.best_validation_score_ == max(model.validation_scores_) > 0.5
    assert len(model.validation_scores_) == model.n_iter_ < model.max_iter
    with pytest.raises(EngineError, match="would hold out 1 of 5 samples"):
        EqPropRegressor(4, early_stopping=True).fit(x[:5], y[:5])
    with pytest.raises(EngineError, match="without early_stopping"):
        model.partial_fit(x, y)


def test_a_warm_start_goes_on_with_the_same_network_and_refuses_another() -> None:
    x, y = blobs()
    model = EqPropClassifier(8, max_iter=3, warm_start=True, random_state=0).fit(x, y)
    once = clone(model).set_params(max_iter=6).fit(x, y)
    twice = model.fit(x, y)
    assert twice.n_iter_ == 6
    np.testing.assert_array_equal(twice.predict_proba(x), once.predict_proba(x))
    with pytest.raises(EngineError, match=r"goes on with the classes \['ant', 'bee', 'cat'\]"):
        model.fit(x[y != "ant"], y[y != "ant"])
    with pytest.raises(EngineError, match="describe another one"):
        model.set_params(hidden_layer_sizes=9).fit(x, y)
    assert clone(model).set_params(warm_start=False, max_iter=3).fit(x, y).n_iter_ == 3


def test_a_regressor_that_goes_on_keeps_its_scale() -> None:
    x, y = make_friedman1(60, random_state=0)
    model = EqPropRegressor(8, max_iter=3, warm_start=True, random_state=0).fit(x, y)
    once = clone(model).set_params(max_iter=6).fit(x, y)
    np.testing.assert_array_equal(model.fit(x, y).predict(x), once.predict(x))
    with pytest.raises(EngineError, match="2 targets a sample"):
        model.fit(x, np.stack([y, y], 1))


@pytest.mark.parametrize("make", [EqPropClassifier, EqPropRegressor])
def test_hidden_units_have_the_activation_that_is_asked_for(make: type) -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 4)), np.arange(40) % 2
    model = make((6, 5), activation="relu", max_iter=2, random_state=0).fit(x, y)
    kinds = [layer.activation for layer in model.backend_.network.layers]
    assert kinds == (["relu"] * 2 if make is EqPropClassifier else ["relu", "relu", "tanh"])
    assert np.isfinite(model.predict(x).astype(float)).all()


def test_each_pass_is_a_line_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = blobs()
    EqPropClassifier(4, max_iter=2, random_state=0).fit(x, y)
    assert capsys.readouterr().out == ""
    EqPropClassifier(4, max_iter=2, early_stopping=True, verbose=True, random_state=0).fit(x, y)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("pass 1: loss ")
    assert second.startswith("pass 2: loss ")
    assert "validation score" in second


def test_names_of_columns_are_kept() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    x, y = blobs()
    table = pandas.DataFrame(x, columns=["a", "b", "c", "d"])
    model = EqPropClassifier(**QUICK).fit(table, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["b", "a", "c", "d"]])
