import numpy as np
import pytest

from adapters.torch_autograd import implicit_gradient
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.predict import targets_of
from engine.learning.spectral import recurrent_norm
from engine.learning.training import Training
from engine.model.params import initial_params
from experiments.parity.contestants import FlippedBackend
from experiments.vision import gradient
from experiments.vision.gradient import cosine, exact_gradient, judge_gradient
from experiments.vision.networks import conv_stack

IMAGE = (6, 5, 2)
LAYERS = "3/2-4-2/2"
SETTLED = Relaxation(400, 1e-12)


def make_case(activation="tanh", norm=0.6, seed=0):
    network = conv_stack(IMAGE, LAYERS, 3, activation, 3)
    params = initial_params(network, np.random.default_rng(seed), np.float64)
    for name in ("W_2", "W_3"):
        params[name][...] *= norm / recurrent_norm(params)
    rng = np.random.default_rng(seed + 1)
    x, y = rng.normal(size=(8, network.inputs)), rng.integers(3, size=8)
    return params, x, y


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_iterated_adjoint_gives_the_gradient_of_the_dense_system(activation):
    params, x, y = make_case(activation)
    targets = targets_of(params.network, y, np.float64)
    expected = implicit_gradient(params.network, params, x, targets)
    found = exact_gradient(params, x, targets)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


def test_a_single_layer_that_only_sees_the_image_has_a_gradient_too():
    network = conv_stack(IMAGE, "3/2", 3, "tanh", 3)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    _, x, y = make_case()
    targets = targets_of(network, y, np.float64)
    expected = implicit_gradient(network, params, x, targets)
    np.testing.assert_allclose(exact_gradient(params, x, targets), expected, atol=1e-9)


def judge(params, x, y, make=NumbaBackend):
    training = Training(beta=1e-3, free=SETTLED, nudged=SETTLED)
    return judge_gradient(make(params.network, params), x, y, training)


def test_eqprop_agrees_with_it_in_every_layer():
    truth = judge(*make_case())
    assert len(truth.layers) == 4  # three kernels and the read-out
    assert min(truth.layers) > 0.99999
    assert truth.whole > 0.99999


def test_a_wrong_sign_is_seen_in_the_layers_that_have_it():
    """The estimate of the energy is turned round; the read-out learns by the delta rule."""
    truth = judge(*make_case(), FlippedBackend)
    assert max(truth.layers[:3]) < -0.99
    assert truth.layers[3] > 0.99999


def test_a_network_without_an_equilibrium_has_no_gradient_to_compare(monkeypatch):
    params, x, y = make_case(norm=0.6)
    monkeypatch.setattr(gradient, "CLOSELY", Relaxation(2, 1e-12))
    with pytest.raises(EngineError, match="no equilibrium"):
        exact_gradient(params, x, targets_of(params.network, y, np.float64))
    assert judge(params, x, y) is None


def test_the_cosine_of_nothing_is_zero():
    assert cosine(np.zeros(3), np.ones(3)) == 0.0
    assert cosine(np.ones(3), -np.ones(3)) == pytest.approx(-1.0)
