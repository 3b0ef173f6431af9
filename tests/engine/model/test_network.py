"""What a description refuses, and what follows from one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.errors import EngineError
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer, Network
from experiments.fuzz.strategies import networks, stacks

PAIR = (Layer("a", (3,)), Layer("b", (2,)))


@pytest.mark.parametrize("size", [0, -1, 10**30])
def test_a_size_is_at_least_one_and_at_most_what_an_array_can_have(size: int) -> None:
    wrong = rf"size {size}, expected from 1 to 2147483647\.$"
    with pytest.raises(EngineError, match=f"layer 'a' has {wrong}"):
        Layer("a", (size,))
    with pytest.raises(EngineError, match=f"the input has {wrong}"):
        Network(size, PAIR, (), SquaredError("b"))
    with pytest.raises(EngineError, match=f"the read-out has {wrong}"):
        Network(4, PAIR, (), SoftmaxReadout("b", size))
    for place, owner in enumerate(["the input", "layer 'hidden'", "the read-out"]):
        sizes = [4, 5, 3]
        sizes[place] = size
        with pytest.raises(EngineError, match=f"{owner} has {wrong}"):
            looped_mlp(*sizes)
    with pytest.raises(EngineError, match=f"layer 'layer2' has {wrong}"):
        layered([4, 3, size, 2])


@pytest.mark.parametrize("size", [2.5, True, "3", None, float("nan")], ids=repr)
def test_a_size_is_a_whole_number(size: object) -> None:
    for make in (
        lambda: Layer("a", (size,)),
        lambda: Network(size, PAIR, (), SquaredError("b")),
        lambda: SoftmaxReadout("b", size),
        lambda: looped_mlp(4, size, 3),
        lambda: layered([4, 3, size, 2]),
    ):
        with pytest.raises(EngineError, match=rf"{size!r}.*, expected .*a whole number"):
            make()


def test_a_layer_is_named_and_activated_as_known() -> None:
    with pytest.raises(EngineError, match="cannot be called 'input'"):
        Layer("input", (3,))
    with pytest.raises(EngineError, match=r"'a' has unknown activation 'gelu'; known: tanh, hard"):
        Layer("a", (3,), "gelu")
    with pytest.raises(EngineError, match=r"'layer1' has unknown activation 'gelu'"):
        layered((4, 3, 2), activation="gelu")


@pytest.mark.parametrize(
    ("couplings", "message"),
    [
        ((Bias("b1", "c"),), r"coupling 'b1' names unknown layer 'c'; known: a, b\."),
        ((InputDrive("W", "c"),), "coupling 'W' names unknown layer 'c'"),
        ((Lateral("W", ""),), "coupling 'W' names unknown layer ''"),
        ((Dense("W", "a", "c"),), "coupling 'W' names unknown layer 'c'"),
        ((Dense("W", "input", "a"),), "coupling 'W' names unknown layer 'input'"),
        ((Dense("W", "a", "a"),), "coupling 'W' joins layer 'a' to itself; use Lateral"),
        ((Bias("w", "a"), Bias("w", "b")), "two things are called 'w'"),
        ((Bias("W_out", "a"),), "two things are called 'W_out'"),
    ],
)
def test_couplings_name_what_is_there_once(couplings: tuple, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        Network(4, PAIR, couplings, SoftmaxReadout("b", 2))


def test_layers_and_readout_are_checked() -> None:
    with pytest.raises(EngineError, match="at least one layer"):
        Network(4, (), (), SquaredError("a"))
    with pytest.raises(EngineError, match="two things are called 'a': each layer needs its own"):
        Network(4, (Layer("a", (3,)), Layer("a", (2,))), (), SquaredError("a"))
    for readout in (SquaredError("c"), SoftmaxReadout("c", 2)):
        with pytest.raises(EngineError, match="the read-out names unknown layer 'c'"):
            Network(4, PAIR, (), readout)


def test_layered_says_what_it_lacks() -> None:
    with pytest.raises(EngineError, match="unknown read-out 'hinge'; known: softmax, squared"):
        layered((4, 3, 2), readout="hinge")
    for sizes in ((), (4,), (4, 3)):
        with pytest.raises(EngineError, match="leave no layer between input and softmax"):
            layered(sizes)
    for sizes in ((), (4,)):
        with pytest.raises(EngineError, match="leave no layer between input and squared_error"):
            layered(sizes, readout="squared_error")
    assert layered((4, 3), readout="squared_error").units == 3


@given(networks())
def test_layers_partition_the_columns_of_a_state(network: Network) -> None:
    state = np.zeros((2, network.units), int)
    for layer in network.layers:
        view = network.of(layer.name, state)
        assert view.shape == (2, *layer.shape)
        view += 1
    assert (state == 1).all()


@given(stacks())
def test_halves_colour_the_layers_so_that_no_coupling_stays_inside(network: Network) -> None:
    first, second = network.halves
    assert sorted(first + second) == sorted(layer.name for layer in network.layers)
    assert network.readout.layer in first
    for coupling in network.recurrent:
        assert len(set(coupling.layers) & set(first)) == 1
        assert len(set(coupling.layers) & set(second)) == 1


def test_a_network_without_halves_names_the_coupling() -> None:
    with pytest.raises(EngineError, match="coupling 'W_rec' lies inside one"):
        _ = looped_mlp(4, 3, 2).halves
    three = (*PAIR, Layer("c", (2,)))
    ring = (Dense("ab", "a", "b"), Dense("bc", "b", "c"), Dense("ca", "c", "a"))
    with pytest.raises(EngineError, match=r"coupling '(ab|bc|ca)' lies inside one"):
        _ = Network(4, three, ring, SquaredError("a")).halves


def test_a_layer_that_nothing_reaches_has_a_half_too() -> None:
    island = (*PAIR, Layer("c", (2,)))
    first, second = Network(4, island, (Dense("ab", "a", "b"),), SquaredError("b")).halves
    assert (first, second) == (("b", "c"), ("a",))


def _parts(thing: object) -> list[object]:
    """Everything an object holds, whatever has been worked out from it so far."""
    if isinstance(thing, dict):
        inside = list(thing.values())
    elif isinstance(thing, (tuple, list)):
        inside = list(thing)
    else:
        inside = list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    return [thing] + [part for item in inside for part in _parts(item)]


@given(networks())
def test_a_network_is_a_value_without_arrays(network: Network) -> None:
    twin = Network(network.inputs, network.layers, network.couplings, network.readout)
    assert network.size == sum(block.size for block in network.blocks.values())
    _ = network.sizes, network.columns, network.units, network.outputs, network.recurrent
    assert network == twin
    assert hash(network) == hash(twin)
    other = replace(network, couplings=network.couplings[:-1])
    assert network != other
    assert not any(isinstance(part, np.ndarray) for part in _parts(network))
