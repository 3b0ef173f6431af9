"""Other views of training images, mirrored or shifted; all contestants see the same.

The views of a run come from a generator of their own, so that the order of the batches is what it
is without them.
"""

import numpy as np

from engine.arrays import Array, namespace
from experiments.tasks import Image

MIRROR, SHIFT = "mirror", "shift"
KNOWN = (MIRROR, SHIFT)
SMALLEST = 14
"""Pixels a side of an image that is shifted by one of them at most; of twice as many, by two."""


class Views:
    """Changes batches of images `(samples, height * width * channels)`, of numpy or torch."""

    def __init__(self, image: Image, kinds: str, seed: int) -> None:
        self._image, self._kinds = image, [kind for kind in kinds.split("+") if kind]
        for kind in self._kinds:
            if kind not in KNOWN:
                raise ValueError(f"unknown view '{kind}'; known: {', '.join(KNOWN)}")
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
        return images.reshape(len(x), -1)

    def _mirrored(self, images: Array) -> Array:
        """Turn one half of the images round, left to right."""
        xp = namespace(images)
        turned = self._rng.random(len(images)) < 0.5
        rows = xp.asarray(turned, device=images.device)[:, None, None, None]
        return xp.where(rows, xp.flip(images, (2,)), images)

    def _shifted(self, images: Array) -> Array:
        """Shift the batch by a pixel or two; what leaves on one side comes in on the other."""
        most = max(1, min(self._image[:2]) // SMALLEST)
        shifts = self._rng.integers(-most, most + 1, size=2).tolist()
        return namespace(images).roll(images, tuple(shifts), (1, 2))
