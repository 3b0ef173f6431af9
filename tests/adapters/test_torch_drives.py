"""Drives in fewer passes are those of the formulas."""

import numpy as np
import pytest
import torch

from adapters.torch_backend import TorchBackend
from adapters.torch_drives import clamped_drive, first_state, is_dense, sent_by
from adapters.torch_rule import add_delta_rule, add_slope
from engine.couplings.dense import Bias, Dense, InputDrive
from engine.couplings.readout import SoftmaxReadout
from engine.model import dynamics
from engine.model.builders import conv_net, layered, looped_mlp, resistive
from engine.model.network import Layer, Network
from engine.model.params import initial_params

APART = Network(
    4,
    (Layer("a", (3,)), Layer("b", (5,)), Layer("c", (2,), "relu")),
    (
        Bias("first", "a", 0.3),
        InputDrive("in", "a"),
        InputDrive("again", "a"),
        Dense("ab", "a", "b"),
        Dense("ba", "b", "a"),
    ),
    SoftmaxReadout("c", 3),
)
"""A layer with a bias before two inputs, two matrices to another, and one that nothing reaches."""
NETWORKS = {
    "looped": looped_mlp(4, 6, 3),
    "layered": layered((4, 7, 6, 5, 3)),
    "apart": APART,
    "convolution": conv_net((4, 4, 1), (2, 3), 3),
    "circuit": resistive((4, 6, 3)),
}


def _given(network: Network) -> tuple[TorchBackend, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(5)
    backend = TorchBackend(network, initial_params(network, rng, np.float64), "cpu")
    x, state = rng.normal(size=(7, network.inputs)), rng.normal(size=(7, network.units))
    return backend, backend.own(x), backend.own(state)


@pytest.mark.parametrize("name", NETWORKS)
def test_drives_are_those_of_the_formulas(name: str) -> None:
    network = NETWORKS[name]
    backend, x, state = _given(network)
    found = clamped_drive(network, backend.blocks, x)
    expected = dynamics.clamped_drive(network, backend.blocks, x)
    torch.testing.assert_close(found, expected)
    for solver in ("fixed_point", "sweeps"):
        begun = first_state(network, found, solver)
        torch.testing.assert_close(begun, dynamics.begin(network, expected, solver))
    whole = dynamics.recurrent_drive(network, backend.blocks, x, state)
    for layers in (tuple(network.columns), *((layer,) for layer in network.columns)):
        parts = sent_by(network, backend.blocks, x, layers, False, state)
        assert tuple(parts) == layers
        for layer, part in parts.items():
            torch.testing.assert_close(part, whole[:, network.columns[layer]])
        still = sent_by(network, backend.blocks, x, layers, True, state)
        assert all(float(part.abs().max()) == 0.0 for part in still.values())


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_sent_can_be_written_over(name: str) -> None:
    network = NETWORKS[name]
    backend, x, state = _given(network)
    before, theta = state.clone(), backend.params.theta.copy()
    for part in sent_by(network, backend.blocks, x, tuple(network.columns), False, state).values():
        part.add_(1.0)
    clamped_drive(network, backend.blocks, x).add_(1.0)
    torch.testing.assert_close(state, before, rtol=0, atol=0)
    np.testing.assert_array_equal(backend.params.theta, theta)


def test_plain_matrices_are_told_from_others() -> None:
    dense = {name for name, network in NETWORKS.items() if is_dense(network)}
    assert dense == {"looped", "layered", "apart"}


@pytest.mark.parametrize("outputs", [1, 2, 10, 20])
def test_a_delta_rule_is_that_of_the_readout(outputs: int) -> None:
    network = looped_mlp(4, 40, outputs)
    backend, _, state = _given(network)
    readout, reading = network.readout, network.reading
    assert reading is not None
    y = torch.eye(outputs, dtype=state.dtype)[torch.arange(len(state)) % outputs]
    into = tuple(torch.ones_like(backend.blocks[name]) for name in ("W_out", "b_out"))
    costs = add_delta_rule(backend.blocks, reading, state, y, into, 0.5)  # type: ignore[arg-type]
    torch.testing.assert_close(costs, readout.cost(backend.blocks, state, y))
    slopes = readout.correlate(backend.blocks, state, y)
    for part, name in zip(into, ("W_out", "b_out"), strict=True):
        torch.testing.assert_close(part, 1 + 0.5 * slopes[name])


def test_what_a_tied_matrix_learns_is_symmetric_to_the_last_bit() -> None:
    network = looped_mlp(4, 40, 3)
    backend, x, state = _given(network)
    other, total = state.roll(1, 0) * 0.9, torch.zeros(40, 40, dtype=state.dtype)
    (lateral,) = network.recurrent
    add_slope(network, backend.blocks, lateral, x, (state, other, None), total, 2.0)
    torch.testing.assert_close(total, total.T, rtol=0, atol=0)
    torch.testing.assert_close(total, state.T @ state - other.T @ other)
