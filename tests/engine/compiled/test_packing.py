"""All matrices of a network in one call are packed as each is by itself, whoever shares them."""

import numpy as np
import pytest

from engine.compiled.packing import new_room, pack_matrices
from engine.compiled.products import DEPTH, TILE_BYTES, pack, packed_size

SHAPES = [(3, 2), (1, 1), (7, 41), (40, 33), (DEPTH + 5, 3), (2, DEPTH + 3)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("cores", [1, 3])
def test_matrices_are_laid_out_as_one_by_one(cores: int, turned: bool, dtype: type) -> None:
    rng = np.random.default_rng(1)
    blocks = [rng.standard_normal(shape).astype(dtype) for shape in SHAPES]
    theta = np.concatenate([np.zeros(4, dtype), *(block.ravel() for block in blocks)])
    scales = np.linspace(0.5, 2.0, len(blocks)).astype(dtype)
    table, expected, start, place = [], [], 4, 0
    for block, scale in zip(blocks, scales, strict=True):
        matrix = scale * (block.T if turned else block)
        expected.append(np.full(packed_size(matrix.shape, matrix.itemsize), np.nan, dtype))
        pack(np.ascontiguousarray(matrix), expected[-1])
        table.append((start, *block.shape, turned, place))
        start, place = start + block.size, place + expected[-1].size
    shares = [new_room(theta, place) for _ in range(cores)]
    for core, share in enumerate(shares):
        pack_matrices(theta, np.array(table), scales, share, core, cores)
    np.testing.assert_array_equal(sum(shares), np.concatenate(expected))  # no number comes twice


def test_what_fills_a_tile_up_is_zero() -> None:
    found = new_room(np.ones(1, np.float32), 64)
    pack_matrices(
        np.ones(1, np.float32), np.array([(0, 1, 1, 0, 0)]), np.ones(1, "f4"), found, 0, 1
    )
    assert found[0] == 1
    assert not found[1 : TILE_BYTES // 4].any()
