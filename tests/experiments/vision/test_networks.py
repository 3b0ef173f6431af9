import numpy as np
import pytest

from adapters.torch_arrays import torch
from engine.compiled.backend import NumbaBackend
from engine.learning.predict import predict_proba
from engine.model.builders import conv_net
from engine.model.params import initial_params
from experiments.vision.networks import (
    FeedForwardImages,
    conv_stack,
    filters_of,
    kernels_of,
    layer_plan,
)

IMAGE = (7, 6, 3)


def test_a_plan_is_channels_and_strides():
    assert layer_plan("16/2-8-32/3") == [(16, 2), (8, 1), (32, 3)]


@pytest.mark.parametrize("kernel", [3, 5])
def test_equal_strides_give_the_network_of_the_engine(kernel):
    ours = conv_stack((11, 10, 3), "4/2-5/2", kernel, "relu", 10)
    theirs = conv_net((11, 10, 3), (4, 5), 10, kernel=kernel, stride=2)
    assert ours.layers == theirs.layers
    assert set(ours.couplings) == set(theirs.couplings)
    assert ours.readout == theirs.readout


def test_strides_are_those_of_their_layers():
    network = conv_stack((28, 28, 1), "16/2-16-16-32/2-32-32-64/2", 3, "relu", 10)
    sides = [layer.shape[:2] for layer in network.layers]
    assert sides == [(14, 14)] * 3 + [(7, 7)] * 3 + [(4, 4)]
    assert [coupling.name for coupling in kernels_of(network)] == [f"W_{k}" for k in range(1, 8)]


def test_the_feed_forward_network_has_as_many_parameters():
    for layers in ("4/2", "4/2-5", "3-4/2-5/3"):
        network = conv_stack(IMAGE, layers, 3, "relu", 10)
        assert FeedForwardImages(network, 0).size == network.size


def copy_weights(params, model):
    """Give a feed-forward network of one layer the weights of the network that relaxes."""
    network = params.network
    conv, linear = model[1], model[4]
    height, width, channels = network.layers[0].shape
    with torch.no_grad():
        pictures = filters_of(params["W_1"], kernels_of(network)[0].kernel)
        conv.weight[:] = torch.tensor(pictures.transpose(0, 3, 1, 2))
        conv.bias[:] = torch.tensor(params["b_1"])
        read = params["W_out"].T.reshape(network.outputs, height, width, channels)
        linear.weight[:] = torch.tensor(read.transpose(0, 3, 1, 2).reshape(network.outputs, -1))
        linear.bias[:] = torch.tensor(params["b_out"])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_single_layer_relaxes_to_what_the_feed_forward_network_says(activation):
    """Without a second layer nothing comes back, so both are the same function of the weights."""
    network = conv_stack(IMAGE, "4/2", 3, activation, 10)
    params = initial_params(network, np.random.default_rng(1))
    params["b_1"][...] = np.linspace(-0.5, 0.5, 4)
    x = np.random.default_rng(0).normal(size=(9, np.prod(IMAGE))).astype(np.float32)
    model = FeedForwardImages(network, 0)
    copy_weights(params, model._model)
    expected = predict_proba(NumbaBackend(network, params), x)
    np.testing.assert_allclose(model.outputs(x), expected, atol=1e-5)
    np.testing.assert_allclose(model.filters, filters_of(params["W_1"], 3), atol=1e-6)


def test_the_start_of_the_feed_forward_network_is_its_seed_alone():
    network = conv_stack(IMAGE, "4/2-5/2", 3, "relu", 10)
    x = np.random.default_rng(0).normal(size=(4, np.prod(IMAGE))).astype(np.float32)
    expected = FeedForwardImages(network, 5).outputs(x)
    torch.manual_seed(5)
    np.testing.assert_array_equal(FeedForwardImages(network, 5).outputs(x), expected)
    assert not np.array_equal(FeedForwardImages(network, 6).outputs(x), expected)
