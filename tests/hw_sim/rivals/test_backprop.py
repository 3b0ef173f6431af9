"""The rivals: the right gradient, and counts of what they did on the substrate they ran on."""

import numpy as np
import pytest

from adapters.torch_autograd import bptt_gradient
from engine import SGD, NumbaBackend, Training, fit
from engine.errors import EngineError
from engine.learning.predict import predict_outputs
from engine.model.builders import looped_mlp
from engine.model.params import Params, initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.rivals.backprop import Rival, feedforward

SAMPLES = 5
NETWORK = looped_mlp(3, 4, 2)
RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((SAMPLES, 3)), np.eye(2)[np.arange(SAMPLES) % 2]


def _params(network=NETWORK) -> Params:  # type: ignore[no-untyped-def]
    return initial_params(network, np.random.default_rng(1), np.float64)


def test_bptt_has_the_gradient_of_autograd_and_counts_its_products() -> None:
    for steps in (0, 1, 6):
        chip, gradient = SpikingBackend(NETWORK, _params()), np.zeros(NETWORK.size)
        Rival(steps).gradient(chip, X, Y, gradient)
        expected = bptt_gradient(NETWORK, _params(), X, Y, steps)
        np.testing.assert_allclose(gradient, expected, atol=1e-12)
        forward = 3 * 4 + steps * 16 + 4 * 2
        backward = 4 * 2 + steps * 16 + (steps + 1) * 2 * 4
        learn = 3 * 4 + steps * 16 + 4 * 2
        assert chip.counts.total("mac") == SAMPLES * (forward + backward + learn)


def test_on_a_crossbar_products_are_array_reads_between_converters() -> None:
    chip, steps = CrossbarBackend(NETWORK, _params(), CrossbarConfig(np.inf)), 3
    Rival(steps).gradient(chip, X, Y, np.zeros(NETWORK.size))
    counts = chip.counts
    assert counts.total("cell_read") == 2 * SAMPLES * (12 + 8 + 16 * steps + 8 + 16 * steps)
    assert counts.total("conversion", "free") == SAMPLES * (steps * (4 + 4) + 4 + 2)
    assert counts.total("conversion", "backward") == SAMPLES * (steps * (4 + 4) + 2 + 4)
    # What is left to digital logic: the slope of tanh, and the gradient.
    assert counts.total("mac", "backward") == SAMPLES * 2 * 4 * (steps + 1)
    assert counts.total("mac", "free") == counts.total("mac", "input") == 0
    assert counts.total("weight_read", "backward") == 0


def test_on_an_event_driven_chip_every_state_is_sent() -> None:
    chip = SpikingBackend(NETWORK, _params(), SpikingConfig(neurons_per_core=2))
    Rival(3).predict(chip, X)
    assert chip.counts.total("message") == SAMPLES * (3 * 2 + 3 * 4 * 2 + 4 * 1)


def test_its_weights_are_those_of_the_substrate() -> None:
    """Rounded to words and written by stochastic rounding, as those of EqProp are."""
    coarse = DigitalBackend(NETWORK, _params(), DigitalConfig(weight_bits=6))
    training = Training(epochs=20, batch_size=SAMPLES, optimizer=SGD(0.1), cap=None)
    fit(coarse, X, Y, training, step=Rival(2))
    word = 2.0**-coarse.config.weight_fraction
    assert (coarse.params.theta / word == np.round(coarse.params.theta / word)).all()
    written = coarse.counts.total("weight_write")
    assert 0 < written < 20 * NETWORK.size  # most updates are less than a word
    assert coarse.counts.total("trace_read", "update") == 20 * NETWORK.size


def test_an_inference_is_a_forward_pass() -> None:
    for network, steps in ((feedforward(looped_mlp(3, 4, 2)), 0), (NETWORK, 200)):
        chip = SpikingBackend(network, _params(network))
        found = Rival(steps).predict(chip, X)
        ideal = predict_outputs(NumbaBackend(network, _params(network)), X)
        np.testing.assert_allclose(found, ideal, atol=1e-3)
        assert chip.counts.total("mac") == SAMPLES * (12 + steps * 16 + 8)
        assert chip.counts.total("off_chip") == SAMPLES * (3 + 2)
        assert chip.counts.total("trace_write") == 0


def test_plain_backprop_is_the_network_without_recurrence() -> None:
    network, cost = feedforward(looped_mlp(3, 4, 2)), []
    chip = SpikingBackend(network, _params(network))
    training = Training(epochs=15, batch_size=SAMPLES, optimizer=SGD(0.5), cap=None)
    fit(chip, X, Y, training, step=Rival(0), on_epoch=lambda epoch: cost.append(epoch.cost))
    assert cost[-1] < 0.7 * cost[0]
    assert chip.counts.total("weight_write") == 15 * network.size


def test_its_memory_grows_with_the_steps() -> None:
    chip = DigitalBackend(NETWORK, _params())
    assert Rival(9).words(chip).words - Rival(0).words(chip).words == 9 * 4
    assert Rival(9).words(chip, 2).traces == 3 * NETWORK.size


def test_what_it_cannot_run_gets_one_sentence() -> None:
    plain = feedforward(NETWORK)
    with pytest.raises(EngineError, match="backprop through 2 steps needs a recurrent coupling"):
        Rival(2).predict(SpikingBackend(plain, _params(plain)), X)
    with pytest.raises(EngineError, match="steps is -1, expected 0 or a whole number above"):
        Rival(-1)
    with pytest.raises(EngineError, match="on a substrate, not NumbaBackend"):
        fit(NumbaBackend(NETWORK, _params()), X, Y, Training(epochs=1), step=Rival(1))
