"""The direction that a matrix stretches most, in one call: that of `find_direction`."""

import numpy as np
import pytest

from engine.arrays import FloatArray
from engine.compiled.stretching import turn_towards
from engine.couplings.link import Link
from engine.learning.stretch import LEADING, MIXED, TOGETHER, find_direction
from engine.model.builders import layered, looped_mlp

NETWORKS = {"tied": looped_mlp(4, 40, 3), "tall": layered((4, 40, 9, 3))}


def _matrix(kind: str, dtype: type) -> tuple[Link, FloatArray]:
    (link,) = (one for one in NETWORKS[kind].links.values() if one.source not in ("input", "one"))
    matrix = np.random.default_rng(1).standard_normal((link.fan_in, link.fan_out)).astype(dtype)
    return link, (matrix + matrix.T) / 2 if link.tied else matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", NETWORKS)
def test_it_turns_a_vector_as_plain_numpy_does(kind: str, dtype: type) -> None:
    link, matrix = _matrix(kind, dtype)
    vector = np.random.default_rng(2).standard_normal(link.fan_in)
    other, near = vector.copy(), 100 * float(np.finfo(dtype).eps)
    for _ in range(3):
        expected = find_direction(link, matrix, vector, TOGETHER).stretch
        found = turn_towards(matrix, other, TOGETHER, LEADING, MIXED)
        assert found == pytest.approx(float(expected), rel=near)
        np.testing.assert_allclose(other, vector, atol=near)
    norm = np.linalg.norm(matrix, 2)
    assert 0.98 * norm < found < (1 + near) * norm


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_vector_that_leads_nowhere_stays(value: float) -> None:
    vector = np.ones(3)
    stretch = turn_towards(np.full((3, 3), value), vector, TOGETHER, LEADING, MIXED)
    assert not stretch > 0.0
    np.testing.assert_array_equal(vector, 1.0)
