"""Other views of training images."""

import numpy as np
import pytest
import torch

from experiments.vision.augment import Views

IMAGE = (28, 30, 2)


def _batch() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 28 * 30 * 2)).astype(np.float32)


def test_no_view_is_the_batch_itself() -> None:
    x = _batch()
    assert Views(IMAGE, "", 0)(x) is x


def test_one_half_of_the_images_is_mirrored_left_to_right() -> None:
    x = _batch()
    found = Views(IMAGE, "mirror", 0)(x).reshape(40, *IMAGE)
    images = x.reshape(40, *IMAGE)
    same = (found == images).all((1, 2, 3))
    turned = (found == images[:, :, ::-1]).all((1, 2, 3))
    assert (same ^ turned).all()
    assert 8 < turned.sum() < 32


def test_a_shift_moves_a_batch_by_two_pixels_at_most_and_loses_nothing() -> None:
    x, views = _batch(), Views(IMAGE, "shift", 0)
    moves = set()
    for _ in range(60):
        found = views(x).reshape(40, *IMAGE)
        fits = [
            (down, right)
            for down in range(-3, 4)
            for right in range(-3, 4)
            if np.array_equal(np.roll(x.reshape(40, *IMAGE), (down, right), (1, 2)), found)
        ]
        assert len(fits) == 1
        moves.update(fits)
    assert {abs(step) for move in moves for step in move} == {0, 1, 2}


def test_torch_sees_what_numpy_sees() -> None:
    x = _batch()
    of_numpy, of_torch = (Views(IMAGE, "mirror+shift", 3) for _ in range(2))
    for _ in range(3):
        np.testing.assert_array_equal(of_numpy(x), of_torch(torch.from_numpy(x)).numpy())


def test_an_unknown_view_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown view 'upside'"):
        Views(IMAGE, "mirror+upside", 0)
