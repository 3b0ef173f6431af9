"""Packed parameters and their views."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.couplings.dense import Bias
from engine.errors import EngineError
from engine.learning.spectral import recurrent_norm
from engine.model import dynamics
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params
from experiments.fuzz.strategies import networks

SEEDS = st.integers(0, 2**32 - 1)


@given(networks())
def test_blocks_cover_theta_exactly_once_and_write_through(network: Network) -> None:
    params = Params(network, np.zeros(network.size))
    for name, block in params.items():
        assert block.shape == network.blocks[name].shape
        assert np.shares_memory(block, params.theta)
        block += 1
    assert (params.theta == 1).all()
    assert sum(block.size for block in params.values()) == network.size


@given(networks())
def test_a_block_is_where_the_network_says(network: Network) -> None:
    params = Params(network, np.arange(network.size, dtype=np.float64))
    assert list(params) == list(network.blocks)
    assert len(params) == len(network.blocks)
    for name, block in params.items():
        np.testing.assert_array_equal(block.ravel(), params.theta[network.blocks[name].span])


@given(networks(), SEEDS, st.sampled_from([np.float32, np.float64]))
def test_initial_parameters_pass_their_own_check(network: Network, seed: int, dtype: type) -> None:
    params = initial_params(network, np.random.default_rng(seed), dtype)
    params.check()
    assert params.theta.dtype == dtype
    again = initial_params(network, np.random.default_rng(seed), dtype)
    np.testing.assert_array_equal(params.theta, again.theta)
    for coupling in network.couplings:
        if type(coupling) is Bias:
            assert (params[coupling.name] == coupling.start).all()


@pytest.mark.parametrize("network", [looped_mlp(64, 128, 10), layered((64, 100, 80, 10))])
def test_a_starting_network_contracts_at_about_one_half(network: Network) -> None:
    for seed in range(3):
        params = initial_params(network, np.random.default_rng(seed))
        assert 0.45 < recurrent_norm(params) < 0.55


@pytest.mark.parametrize(("activation", "middle"), [("tanh", 0.0), ("hard_sigmoid", 0.5)])
def test_a_starting_unit_without_drive_is_in_the_middle_of_its_range(
    activation: str, middle: float
) -> None:
    network = layered((3, 4, 2), activation)
    params = initial_params(network, np.random.default_rng(0))
    drive = dynamics.clamped_drive(network, params, np.zeros((1, 3)))
    np.testing.assert_array_equal(dynamics.activate(network, drive), middle)


def test_a_standardised_input_gives_a_drive_of_variance_one() -> None:
    params = initial_params(looped_mlp(400, 100, 2), np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((200, 400))
    assert abs((x @ params["W_in"]).var() - 1.0) < 0.05


def test_copies_own_their_array() -> None:
    params = initial_params(looped_mlp(4, 3, 2), np.random.default_rng(0))
    kept = params.theta.copy()
    for other in (params.copy(), params.astype(np.float32), params.astype(np.float64)):
        assert other.network == params.network
        other.theta[:] = 7.0
    np.testing.assert_array_equal(params.theta, kept)
    assert params.astype(np.float64).theta.dtype == np.float64


@pytest.mark.parametrize("shape", [(33,), (35,), (34, 1), ()])
def test_theta_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    network = looped_mlp(4, 3, 2)
    assert network.size == 32
    with pytest.raises(EngineError, match=r"parameters have shape .*, the network needs \(32,\)"):
        Params(network, np.zeros(shape))


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.complex128, ">f8", object])
def test_theta_of_another_type_is_refused(dtype: object) -> None:
    with pytest.raises(EngineError, match="expected float32 or float64"):
        Params(looped_mlp(4, 3, 2), np.zeros(32, dtype))


@given(networks(), st.sampled_from([np.nan, np.inf, -np.inf]), st.data())
def test_a_value_that_is_not_finite_is_found_in_its_block(
    network: Network, value: float, data: st.DataObject
) -> None:
    params = Params(network, np.zeros(network.size))
    name = data.draw(st.sampled_from(list(network.blocks)))
    params[name].flat[data.draw(st.integers(0, params[name].size - 1))] = value
    with pytest.raises(EngineError, match=f"block '{name}' holds a value that is not finite"):
        params.check()


def test_a_lateral_block_has_to_be_symmetric() -> None:
    params = initial_params(looped_mlp(4, 3, 2), np.random.default_rng(0))
    params["W_rec"][0, 1] = np.nextafter(params["W_rec"][1, 0], np.float32(9))
    with pytest.raises(EngineError, match="lateral block 'W_rec' is not symmetric"):
        params.check()
