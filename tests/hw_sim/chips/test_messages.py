"""How a network is laid out for the kernels: every message by hand."""

import numpy as np
import pytest

from engine.couplings.link import Link
from hw_sim.chips.messages import (
    Way,
    feeds,
    hold,
    input_ways,
    layer_table,
    recurrent_ways,
    wires,
)
from tests.hw_sim.chips.patches import NETWORKS, params_of


def test_messages_follow_one_another_by_the_units_that_send() -> None:
    """Line 0 to 8, map 9 to 23, seen 24 to 35: up from the line, down from the map, and across.

    Columns: source, target, place, positions, rows, columns, block, reads, writes.
    """
    network = NETWORKS["patches"]
    held, start = hold(params_of(network), np.float64), network.blocks
    p, own, low, seen = (start[name].span.start for name in ("W_p", "W_self", "W_in", "W_x"))
    up, down, across = wires(network, held).messages.table
    assert up.tolist() == [0, 9, 1, 5, 4, 3, p, 0, -1]
    assert down.tolist() == [9, 0, 0, 5, 3, 4, network.size, -1, 20]
    assert across.tolist() == [9, 9, 1, 1, 15, 15, own, -1, -1]
    fed = feeds(network, held).messages.table
    assert fed.tolist() == [[0, 0, 0, 1, 11, 9, low, -1, -1], [0, 24, 2, 6, 4, 2, seen, 0, -1]]
    assert layer_table(network)[:, :2].tolist() == [[0, 9], [9, 24], [24, 36]]


def test_a_block_is_held_in_the_order_in_which_it_is_read() -> None:
    network = NETWORKS["patches"]
    params = params_of(network)
    sent = wires(network, hold(params, np.float64)).messages
    np.testing.assert_array_equal(sent.weights[: network.size], params.theta)
    np.testing.assert_array_equal(sent.weights[network.size :], params["W_p"].T.ravel())
    gather = network.links["W_p"].gather.ravel()
    np.testing.assert_array_equal(sent.gather, np.concatenate([gather, gather]))


def test_a_bias_lies_at_every_place_that_shares_it() -> None:
    network = NETWORKS["patches"]
    params = params_of(network)
    params["b"][...], params["c"][...] = np.arange(15.0), [-1.0, 2.0]
    fed = feeds(network, hold(params, np.float64))
    assert fed.bias.tolist() == [0.0] * 9 + list(range(15)) + [-1.0, 2.0] * 6
    assert fed.biased.tolist() == [0] * 9 + [1] * 27


def test_a_read_out_by_token_is_one_message_to_all_outputs() -> None:
    network = NETWORKS["tokens"]
    held = wires(network, hold(params_of(network), np.int64))
    block = network.blocks["W_out"].span.start
    assert held.readout.table.tolist() == [[0, 0, 1, 4, 3, 2, block, 0, -1]]
    assert held.readout.weights.dtype == np.int64
    assert (held.first, held.last, held.bias.shape) == (0, 12, (2,))


@pytest.mark.parametrize("positions", [1, 2, 3])
def test_backwards_both_ends_change_roles(positions: int) -> None:
    gather = np.arange(2 * positions).reshape(positions, 2)[:, ::-1]
    link = Link("W", "low", "top", 2 * positions, gather, 3)
    assert (Way(link).ends, Way(link, True).ends) == (("low", "top"), ("top", "low"))
    assert (Way(link).shape, Way(link, True).shape) == ((2, 3), (3, 2))


def test_two_couplings_between_the_same_layers_are_two_messages_each_way() -> None:
    network = NETWORKS["doubled"]
    assert [way.link.block for way in recurrent_ways(network)] == ["W_a", "W_b", "W_b", "W_a"]
    assert [way.link.block for way in input_ways(network)] == ["W_1", "W_2"]
