"""Where tiles lie on their mesh, and which words move between them."""

from itertools import product

import numpy as np
import pytest

from engine.couplings.link import INPUT, OUTPUT, Link
from engine.model.builders import looped_mlp
from engine.model.network import Network
from hw_sim.chips.arrays import arrays
from hw_sim.chips.messages import Way
from hw_sim.chips.tile_mesh import TileMesh, leaving, tile_mesh, tiled_blocks
from hw_sim.chips.tile_traffic import traffic_of
from tests.hw_sim.chips.hand_mesh import HandMesh, walked
from tests.hw_sim.chips.patches import NETWORKS


def test_784_256_10_lies_on_twenty_tiles_of_128() -> None:
    network = looped_mlp(784, 256, 10)
    blocks = {block.link.block: block for block in tiled_blocks(network, (128, 128))}
    shapes = {name: (block.down, block.across) for name, block in blocks.items()}
    assert shapes == {"W_in": (7, 2), "W_rec": (2, 2), "W_out": (2, 1)}
    assert [block.first for block in blocks.values()] == [0, 14, 18]
    assert blocks["W_in"].used(13) == (slice(768, 784), slice(128, 256))
    mesh, hand = tile_mesh(network, (128, 128)), HandMesh(network, 128, 128)
    assert mesh.count == 20
    for name, back in product(blocks, (False, True)):
        way = Way(blocks[name].link, back)
        assert mesh.driven(way).sum() == hand.driven(name, back)
        assert mesh.joined(way).sum() == hand.joined(name, back)
        assert mesh.driven(way).max() == hand.busiest(hand.to_drive(name, back))
        assert mesh.joined(way).max() == hand.busiest(hand.to_join(name, back))


@pytest.mark.parametrize("count", [1, 2, 7, 10, 16, 17])
def test_words_leave_every_tile_on_their_way(count: int) -> None:
    """Whether or not the last row of the mesh is full."""
    start, end = np.random.default_rng(0).integers(count, size=(2, 200))
    expected = np.zeros(count, int)
    for a, b in zip(start.tolist(), end.tolist(), strict=True):
        np.add.at(expected, np.array(walked(a, b, count), int), 1)
    np.testing.assert_array_equal(leaving(start, end, count), expected)


def one_by_one(mesh: TileMesh, link: Link, tile: tuple[int, int], rows: bool) -> int:
    """Hops from the homes of all words of one end, position after position."""
    (down, across), first = tile, mesh.blocks[link.block].first
    wide, high = -(-link.fan_out // across), -(-link.fan_in // down)
    hops = 0
    for p in range(link.positions):
        for k in range(link.fan_in if rows else link.fan_out):
            unit = int(link.gather[p, k]) if rows else p * link.fan_out + k
            if unit < 0:
                continue
            home = int(mesh.homes[link.source if rows else link.target][unit])
            for other in range(wide if rows else high):
                at = (k // down) * wide + other if rows else other * wide + k // across
                hops += len(walked(home, first + at, mesh.count))
    return hops


@pytest.mark.parametrize("name", NETWORKS)
def test_shared_blocks_send_their_words_at_every_position(name: str) -> None:
    network, tile = NETWORKS[name], (2, 3)
    mesh = tile_mesh(network, tile)
    for way in arrays(network):
        link = way.link
        for rows in (True, False):
            assert mesh.sent(link, rows).sum() == one_by_one(mesh, link, tile, rows)
        both = one_by_one(mesh, link, tile, True) + one_by_one(mesh, link, tile, False)
        assert mesh.told(link).sum() == both
        is_cut = link.fan_in > tile[0]
        assert mesh.joined(way).sum() == is_cut * one_by_one(mesh, link, tile, False)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_word_is_kept_on_a_tile_of_its_own_layer(name: str) -> None:
    """Where it is heard, or, of those that hear nobody, where it is sent."""
    network = NETWORKS[name]
    blocks = tiled_blocks(network, (2, 2))
    mesh = tile_mesh(network, (2, 2))
    outside = [OUTPUT] if any(block.link.target == OUTPUT for block in blocks) else []
    for end in [INPUT, *network.columns, *outside]:
        heard = [block for block in blocks if block.link.target == end]
        ends = heard or [block for block in blocks if block.link.source == end]
        tiles = {block.first + k for block in ends for k in range(block.tiles)}
        assert set(mesh.homes[end].tolist()) <= tiles


def test_without_tiles_nothing_moves() -> None:
    network = looped_mlp(20, 9, 3)
    assert not any(hops.any() for hops in traffic_of(network, (0, 0)))
    assert all(hops.any() for hops in traffic_of(network, (4, 2)))


def test_analog_states_are_no_words() -> None:
    """Inputs enter as words, errors are sent back as words, and synapses are told words."""
    network: Network = looped_mlp(20, 9, 3)
    analog, digital = (traffic_of(network, (4, 2), converts) for converts in (False, True))
    assert not analog.step.any()
    assert not analog.readout.any()
    assert 0 < analog.input.sum() < digital.input.sum()  # no sums of tiles
    assert 0 < analog.errors.sum() < digital.errors.sum()
    np.testing.assert_array_equal(analog.told, digital.told)
