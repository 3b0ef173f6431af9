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


def test_a_shift_moves_each_image_by_two_pixels_at_most_and_repeats_its_edge() -> None:
    x = _batch()
    found = Views(IMAGE, "shift", 0)(x).reshape(40, *IMAGE)
    wide = np.pad(x.reshape(40, *IMAGE), ((0, 0), (3, 3), (3, 3), (0, 0)), mode="edge")
    moves = set()
    for image, padded in zip(found, wide, strict=True):
        fits = [
            (down, right)
            for down in range(-3, 4)
            for right in range(-3, 4)
            if np.array_equal(padded[3 - down :, 3 - right :][: IMAGE[0], : IMAGE[1]], image)
        ]
        assert len(fits) == 1
        moves.update(fits)
    assert {step for move in moves for step in move} == {-2, -1, 0, 1, 2}


def test_a_square_is_hidden_in_one_half_of_the_images() -> None:
    found = Views(IMAGE, "hide", 0)(_batch()).reshape(40, *IMAGE)
    np.testing.assert_array_equal(found[found != 0], _batch().reshape(40, *IMAGE)[found != 0])
    hidden = (found == 0).all(-1)
    touched = [image for image in hidden if image.any()]
    assert 8 < len(touched) < 32
    for image in touched:
        rows, columns = np.flatnonzero(image.any(1)), np.flatnonzero(image.any(0))
        assert (
            image.sum()
            == len(rows) * len(columns)
            == np.ptp(rows) * np.ptp(columns) + (np.ptp(rows) + np.ptp(columns) + 1)
        )
        assert max(len(rows), len(columns)) <= 0.3 * 30 + 1
    assert max(image.sum() for image in touched) >= 0.25**2 * 28 * 30


def test_torch_sees_what_numpy_sees() -> None:
    x = _batch()
    of_numpy, of_torch = (Views(IMAGE, "mirror+shift+hide", 3) for _ in range(2))
    for _ in range(3):
        np.testing.assert_array_equal(of_numpy(x), of_torch(torch.from_numpy(x)).numpy())


def test_an_unknown_view_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown view 'upside'"):
        Views(IMAGE, "mirror+upside", 0)
