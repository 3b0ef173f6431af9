"""The scale at which networks start, and at which their blocks change."""

import numpy as np
import pytest

from engine.arrays import by_sample
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.optimizer import SGD
from engine.learning.run import Run
from engine.learning.scale import START, calibrated, relative_rates
from engine.learning.spectral import AUTO_CAP, layer_radius, recurrent_links, recurrent_norm
from engine.learning.training import Training, fit, train_step
from engine.model.builders import conv_net, layered
from engine.model.network import Network
from engine.model.params import Params, initial_params

NETWORKS = {
    "convolution": conv_net((9, 8, 2), (4, 5, 6), 3),
    "layered": layered((7, 9, 8, 3), "relu"),
}


def _start(network: Network, seed: int = 0) -> tuple[Params, np.ndarray]:
    rng = np.random.default_rng(seed)
    return initial_params(network, rng, np.float64), rng.normal(size=(64, network.inputs))


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_what_is_read_starts_at_one_and_recurrent_blocks_below_the_cap(network: Network) -> None:
    params, x = _start(network)
    found = calibrated(params, x)
    backend = NumbaBackend(network, found)
    state = backend.settle(backend.clamp(x), relaxation=Relaxation(500, 1e-9)).state
    read = by_sample(network.of(network.readout.layer, state))
    assert np.sqrt(np.mean(read**2)) == pytest.approx(1.0, rel=1e-2)
    share = AUTO_CAP.cap / layer_radius(network)
    for link in recurrent_links(network):
        norm = np.linalg.norm(link.matrix(found[link.block]), 2)
        assert norm == pytest.approx(START * share, rel=0.02)
    assert recurrent_norm(found) < AUTO_CAP.cap


def test_only_directions_are_drawn_so_that_the_scale_of_the_start_is_forgotten() -> None:
    params, x = _start(NETWORKS["convolution"])
    larger = params.copy()
    for name in ("W_1", "W_2", "W_3"):
        larger[name][...] *= 3.0
    once, twice = calibrated(params, x), calibrated(larger, x)
    for name in params:
        np.testing.assert_allclose(once[name], twice[name], rtol=1e-4)
    np.testing.assert_array_equal(params["W_out"], once["W_out"])


def test_bounded_units_keep_their_input() -> None:
    params, x = _start(layered((7, 9, 8, 3), "tanh"))
    found = calibrated(params, x)
    np.testing.assert_array_equal(found["W_1"], params["W_1"])
    assert not np.array_equal(found["W_2"], params["W_2"])


def test_a_silent_network_cannot_be_calibrated() -> None:
    params, x = _start(NETWORKS["layered"])
    with pytest.raises(EngineError, match="stays silent"):
        calibrated(params, np.zeros_like(x))


def test_a_rate_grows_with_the_block_and_a_bias_with_its_layer() -> None:
    params, x = _start(NETWORKS["convolution"])
    params = calibrated(params, x)
    rates = relative_rates(params, x)
    assert set(rates) == {"W_1", "W_2", "W_3", "b_1", "b_2", "b_3"}
    assert rates["b_3"] == pytest.approx(1.0, rel=1e-2)
    assert rates["b_1"] > rates["b_2"] > rates["b_3"]  # capped blocks let the signal fade
    double = params.copy()
    double["W_2"][...] *= 2.0
    assert relative_rates(double, x)["W_2"] == pytest.approx(2 * rates["W_2"])


def test_a_block_changes_by_its_rate_times_the_step() -> None:
    network = NETWORKS["layered"]
    params, x = _start(network)
    y = np.eye(3)[np.arange(len(x)) % 3]
    changes = []
    for rates in ({}, {"W_2": 0.25}):
        backend = NumbaBackend(network, params)
        run = Run.start(network, SGD.moments, np.float64, seed=0)
        training = Training(rates=rates, cap=None, optimizer=SGD(0.1))
        train_step(backend, x, y, training, run, 10)
        changes.append(Params(network, backend.params.theta - params.theta))
    plain, scaled = changes
    for name in network.blocks:
        factor = 0.25 if name == "W_2" else 1.0
        np.testing.assert_allclose(scaled[name], factor * plain[name], rtol=1e-9, atol=1e-16)


@pytest.mark.parametrize(
    ("rates", "message"), [({"W_2": 0.0}, "rate of 'W_2' is 0.0"), ({"W_9": 1.0}, "block 'W_9'")]
)
def test_wrong_rates_are_refused(rates: dict[str, float], message: str) -> None:
    params, x = _start(NETWORKS["layered"])
    backend, labels = NumbaBackend(params.network, params), np.zeros(len(x), int)
    with pytest.raises(EngineError, match=message):
        fit(backend, x, labels, Training(epochs=1, rates=rates))
