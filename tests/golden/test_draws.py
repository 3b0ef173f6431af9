"""Random inputs, targets and directions: what a network accepts, and what the judge relies on."""

import numpy as np
import pytest

from engine.couplings.dense import Lateral
from engine.couplings.tokens import TokenReadout
from engine.model.builders import energy_transformer, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params
from golden.directions import random_directions, symmetric_basis
from golden.draws import draw_inputs, draw_probabilities, draw_targets
from golden.metric import Metric, format_metrics, format_table

TOKENS = energy_transformer(5, 3, width=2, outputs=4)
NETWORKS = {
    "looped": looped_mlp(3, 4, 2),
    "layered": layered((3, 4, 2)),
    "squared": layered((3, 4, 2), readout="squared_error"),
    "tokens": TOKENS,
}
each_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def _rng() -> np.random.Generator:
    return np.random.default_rng(5)


@each_network
def test_a_basis_of_the_allowed_changes_is_orthonormal_and_complete(network: Network) -> None:
    basis = symmetric_basis(network)
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), rtol=0, atol=1e-15)
    laterals = [c.name for c in network.couplings if isinstance(c, Lateral)]
    tied = sum(len(basis_block(network, name)) for name in laterals)
    assert len(basis) == network.size - tied
    gradient = Params(network, _rng().standard_normal(network.size))
    for name in laterals:
        gradient[name][...] += gradient[name].T.copy()
    along = (basis @ gradient.theta) @ basis
    np.testing.assert_allclose(along, gradient.theta, rtol=0, atol=1e-14)


def basis_block(network: Network, name: str) -> list[tuple[int, int]]:
    """The pairs `i < j` of a lateral block."""
    count = network.blocks[name].shape[0]
    return [(i, j) for i in range(count) for j in range(i)]


@each_network
def test_random_directions_keep_lateral_blocks_symmetric(network: Network) -> None:
    directions = random_directions(network, _rng(), 2000)
    assert directions.shape == (2000, network.size)
    for coupling in network.couplings:
        block = network.blocks[coupling.name]
        part = directions[:, block.span].reshape(2000, *block.shape)
        if isinstance(coupling, Lateral):
            np.testing.assert_array_equal(part, part.swapaxes(1, 2))
            np.testing.assert_allclose(part[:, 0, 1].std(), 0.5**0.5, rtol=0.06)
            part = part[:, 0, 0]
        np.testing.assert_allclose(part.std(), 1.0, rtol=0.06)
        assert abs(part.mean()) < 0.1


def test_inputs_are_tokens_where_tokens_are_taken() -> None:
    tokens = draw_inputs(TOKENS, _rng(), 200)
    assert tokens.shape == (200, 3)
    assert set(tokens.ravel()) == set(range(5))
    numbers = draw_inputs(NETWORKS["looped"], _rng(), 4000)
    assert numbers.shape == (4000, 3)
    np.testing.assert_allclose((numbers.mean(), numbers.std()), (0.0, 1.0), atol=0.05)


@each_network
def test_probabilities_sum_to_one_at_every_position(network: Network) -> None:
    y = draw_probabilities(network, _rng(), 6)
    parts = 3 if isinstance(network.readout, TokenReadout) else 1
    assert y.shape == (6, network.outputs)
    np.testing.assert_allclose(y.reshape(6, parts, -1).sum(-1), 1.0, rtol=1e-14)
    assert (y > 0.0).all()
    network.readout.check(y)


def test_targets_are_those_of_a_linear_teacher() -> None:
    x = _rng().standard_normal((50, 3))
    teacher = x @ _rng().standard_normal((3, 2))
    classes = draw_targets(NETWORKS["looped"], x, _rng())
    np.testing.assert_array_equal(classes, np.eye(2)[teacher.argmax(1)])
    values = draw_targets(NETWORKS["squared"], x, _rng())
    np.testing.assert_allclose(np.log(values / (1 - values)), teacher, rtol=1e-10, atol=1e-12)


def test_targets_of_tokens_are_the_tokens_in_reverse() -> None:
    x = np.array([[0.0, 3.0, 4.0], [2.0, 2.0, 1.0]])
    found = TOKENS.readout.read(draw_targets(TOKENS, x, _rng()))
    np.testing.assert_array_equal(found, [[0, 3, 0], [1, 2, 2]])  # four outputs: 4 becomes 0


def test_a_metric_passes_up_to_its_threshold_and_nan_does_not() -> None:
    assert Metric("a", 1.0, 1.0).passed
    assert not Metric("a", np.nextafter(1.0, 2.0), 1.0).passed
    assert not Metric("a", np.nan, 1.0).passed


def test_tables_have_a_row_for_each_metric() -> None:
    assert format_table(("A", "B"), [(1, "x")]) == "| A | B |\n| --- | --- |\n| 1 | x |"
    lines = format_metrics([Metric("gap", 1.234e-5, 1e-4)]).splitlines()
    assert lines[0] == "| Metric | Value | Threshold |"
    assert lines[2:] == ["| gap | 1.23e-05 | 1e-04 |"]
