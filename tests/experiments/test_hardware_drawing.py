"""The drawing of a network has every layer, every coupling, and the sizes of both."""

import xml.etree.ElementTree as ET

import pytest

from engine.model.builders import conv_net, energy_transformer, layered, looped_mlp
from engine.model.network import Network
from experiments.hardware.network_drawing import arrows_of, boxes_of, draw_network

NETWORKS = {
    "looped": looped_mlp(64, 24, 10),
    "deep": layered((12, 9, 8, 7, 3)),
    "conv": conv_net((8, 8, 1), (4, 6), 10),
    "transformer": energy_transformer(vocabulary=6, length=5, width=8),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_all_parts_are_drawn_inside_the_picture(name: str) -> None:
    network = NETWORKS[name]
    picture = draw_network(network)
    assert picture.phone is not None
    for svg, dark in ((picture.svg, picture.dark_svg), picture.phone):
        _check_parts(network, svg)
        assert dark != svg


def _check_parts(network: Network, svg: str) -> None:
    root = ET.fromstring(svg)
    texts = {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {layer.name for layer in network.layers} <= texts
    assert f"{network.inputs:,} inputs" in texts
    couplings = {c.name for c in network.couplings}
    biases = couplings - texts
    assert all(network.links[name].source == "one" for name in biases)
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    for node in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0.0 < float(node.attrib["x"]) < width
        assert 10.0 <= float(node.attrib["y"]) < height
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("name", NETWORKS)
def test_on_a_phone_it_is_drawn_in_its_own_size(name: str) -> None:
    """A phone of 420 pixels has 366 of them for a picture; a wider one is shown smaller."""
    picture = draw_network(NETWORKS[name])
    assert picture.phone is not None
    assert float(ET.fromstring(picture.phone[0]).attrib["width"]) <= 366.0


def test_sizes_are_those_of_the_blocks() -> None:
    """Kernels as inputs of a window times channels, and at how many places they are read."""
    for name in ("looped", "deep"):
        network: Network = NETWORKS[name]
        for arrow in arrows_of(network):
            rows, columns = network.blocks[arrow.name].shape
            assert arrow.size == f"{rows} x {columns}"
    first, second, *_ = arrows_of(NETWORKS["conv"])
    assert (first.size, second.size) == ("9 x 4 at 16", "36 x 6 at 4")
    assert boxes_of(NETWORKS["conv"])["layer1"].startswith("4 x 4 x 4 ")


def test_what_only_drives_forward_is_told_from_what_answers() -> None:
    both = {arrow.name: arrow.both_ways for arrow in arrows_of(NETWORKS["looped"])}
    assert both == {"W_in": False, "W_rec": True, "W_out": True}
