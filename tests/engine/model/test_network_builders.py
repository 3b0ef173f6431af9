"""What the builders build, part by part, and where a network puts its numbers."""

import pytest

from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.couplings.tokens import Embedding
from engine.errors import EngineError
from engine.model.builders import energy_transformer, layered, looped_mlp
from engine.model.network import Block, Layer, Network


def test_a_looped_network_is_one_layer_coupled_to_itself() -> None:
    assert looped_mlp(4, 6, 3) == Network(
        4,
        (Layer("hidden", (6,), "tanh"),),
        (InputDrive("W_in", "hidden"), Bias("b", "hidden", 0.0), Lateral("W_rec", "hidden")),
        SoftmaxReadout("hidden", 3),
    )


def test_layers_are_joined_to_their_neighbours_and_the_last_is_read_out() -> None:
    assert layered((4, 6, 5, 3)) == Network(
        4,
        (Layer("layer1", (6,)), Layer("layer2", (5,))),
        (
            InputDrive("W_1", "layer1"),
            Dense("W_2", "layer1", "layer2"),
            Bias("b_1", "layer1", 0.0),
            Bias("b_2", "layer2", 0.0),
        ),
        SoftmaxReadout("layer2", 3),
    )


def test_with_a_squared_error_the_outputs_are_a_layer() -> None:
    network = layered((4, 6, 3), "hard_sigmoid", "squared_error")
    assert network.layers == (
        Layer("layer1", (6,), "hard_sigmoid"),
        Layer("layer2", (3,), "hard_sigmoid"),
    )
    assert network.readout == SquaredError("layer2")
    assert network.outputs == 3


@pytest.mark.parametrize(("activation", "start"), [("tanh", 0), ("relu", 0), ("hard_sigmoid", 0.5)])
def test_biases_start_where_the_nudge_is_felt(activation: str, start: float) -> None:
    for network in (looped_mlp(4, 6, 3, activation), layered((4, 6, 5, 3), activation)):
        biases = [c for c in network.couplings if isinstance(c, Bias)]
        assert biases
        assert all(bias.start == start for bias in biases)
        assert all(layer.activation == activation for layer in network.layers)


def test_blocks_and_columns_follow_each_other_without_a_gap() -> None:
    network = layered((4, 6, 5, 3))
    assert network.sizes == {"input": 4, "layer1": 6, "layer2": 5}
    assert network.columns == {"layer1": slice(0, 6), "layer2": slice(6, 11)}
    assert network.units == 11
    assert network.blocks == {
        "W_1": Block(0, (4, 6)),
        "W_2": Block(24, (6, 5)),
        "b_1": Block(54, (6,)),
        "b_2": Block(60, (5,)),
        "W_out": Block(65, (5, 3)),
        "b_out": Block(80, (3,)),
    }
    assert network.size == 83
    assert network.blocks["W_2"].size == 30
    assert network.blocks["W_2"].span == slice(24, 54)
    assert network.recurrent == (Dense("W_2", "layer1", "layer2"),)


def test_the_vocabulary_is_what_every_embedding_knows() -> None:
    assert looped_mlp(4, 6, 3).vocabulary is None
    network = energy_transformer(5, 3, width=2)
    assert network.vocabulary == 5
    more = (*network.couplings, Embedding("more", "tokens", 4))
    assert Network(3, network.layers, more, network.readout).vocabulary == 4


def test_a_transformer_has_the_heads_and_outputs_it_is_asked_for() -> None:
    network = energy_transformer(5, 3, width=6, heads=4)
    attention = network.recurrent[0]
    assert network.shapes[attention.layer] == (3, 6)
    assert (attention.heads, attention.head_size) == (4, 1)
    assert network.units == 18
    assert network.readout.outputs == 5
    assert energy_transformer(5, 3, width=6, heads=2).recurrent[0].head_size == 3
    assert energy_transformer(5, 3, width=2, heads=4).recurrent[0].head_size == 1
    given = energy_transformer(
        5, 3, 6, 2, 4, 2, memories=7, sharpness=1.5, sees_itself=True, causal=True
    )
    attention, memory = given.recurrent
    assert (attention.head_size, attention.sharpness) == (4, 1.5)
    assert (attention.sees_itself, attention.causal) == (True, True)
    assert memory.memories == 7
    assert given.shapes[memory.layer] == (3, 6)
    assert given.readout.outputs == 2
    assert len(energy_transformer(5, 3, width=6).recurrent) == 1


def test_the_defaults_of_a_transformer() -> None:
    network = energy_transformer(5, 3)
    attention = network.recurrent[0]
    assert network.units == 3 * 64
    assert (attention.heads, attention.head_size, attention.sharpness) == (2, 32, 1.0)
    assert (attention.sees_itself, attention.causal) == (False, False)


@pytest.mark.parametrize("wrong", [{"length": 0}, {"width": 0}, {"heads": 0}, {"vocabulary": 0}])
def test_a_transformer_of_nothing_is_refused_by_name(wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(EngineError, match=f"{name} is 0"):
        energy_transformer(**{"vocabulary": 5, "length": 3} | wrong)
