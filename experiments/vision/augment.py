"""Other views of training images: mirrored, shifted, hidden in part; all contestants see the same.

The views of a run come from a generator of their own, so that the order of the batches is what it
is without them.
"""

import numpy as np

from engine.arrays import Array, IntArray, namespace
from engine.errors import EngineError
from experiments.tasks import Image

MIRROR, SHIFT, HIDE = "mirror", "shift", "hide"
KNOWN = (MIRROR, SHIFT, HIDE)
SMALLEST = 14
"""Pixels a side of an image that is shifted by one of them at most; of twice as many, by two."""
HIDDEN = 0.3
"""Side of the square that is hidden in one half of the images, in sides of the image."""


class Views:
    """Changes batches of images `(samples, height * width * channels)`, of numpy or torch."""

    def __init__(self, image: Image, kinds: str, seed: int) -> None:
        self._image, self._kinds = image, [kind for kind in kinds.split("+") if kind]
        for kind in self._kinds:
            if kind not in KNOWN:
                raise EngineError(f"unknown view '{kind}'; known: {', '.join(KNOWN)}.")
        self._rng = np.random.default_rng((seed, len(kinds)))

    def __call__(self, x: Array) -> Array:
        """Return another view of each image of a batch."""
        if not self._kinds:
            return x
        images = x.reshape(len(x), *self._image)
        if MIRROR in self._kinds:
            images = self._mirrored(images)
        if SHIFT in self._kinds:
            images = self._shifted(images)
        if HIDE in self._kinds:
            images = self._hidden(images)
        return images.reshape(len(x), -1)

    def _mirrored(self, images: Array) -> Array:
        """Turn one half of the images round, left to right."""
        xp = namespace(images)
        turned = self._rng.random(len(images)) < 0.5
        rows = xp.asarray(turned, device=images.device)[:, None, None, None]
        return xp.where(rows, xp.flip(images, (2,)), images)

    def _shifted(self, images: Array) -> Array:
        """Shift each image by a pixel or two; its edge is repeated where nothing follows."""
        most = max(1, min(self._image[:2]) // SMALLEST)
        rows, columns = (
            np.clip(
                np.arange(side) - self._rng.integers(-most, most + 1, (len(images), 1)), 0, side - 1
            )
            for side in self._image[:2]
        )
        samples = np.arange(len(images))[:, None, None]
        places = samples, rows[:, :, None], columns[:, None, :]
        xp = namespace(images)
        return images[tuple(xp.asarray(place, device=images.device) for place in places)]

    def _hidden(self, images: Array) -> Array:
        """Hide a square at any place of one half of the images behind the mean pixel, zero."""
        xp = namespace(images)
        chosen = self._rng.random((len(images), 1)) < 0.5
        rows, columns = (self._near(len(images), side) for side in self._image[:2])
        covered = (rows & chosen)[:, :, None, None] & columns[:, None, :, None]
        return xp.where(xp.asarray(covered, device=images.device), 0.0 * images, images)

    def _near(self, samples: int, side: int) -> Array:
        """Return which pixels of a side lie within a square around a place of it."""
        places: IntArray = self._rng.integers(0, side, (samples, 1))
        return 2 * np.abs(np.arange(side) - places) < HIDDEN * side
