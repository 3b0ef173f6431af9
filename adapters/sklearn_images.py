"""Images for the scikit-learn estimators: what shape they have, and the networks that see them."""

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt, prod
from numbers import Integral
from typing import Any

import numpy as np

from engine.couplings.dense import Bias, Dense
from engine.couplings.readout import SquaredError
from engine.couplings.window import Image
from engine.errors import EngineError, check_count, shown
from engine.model.builders import conv_net
from engine.model.network import Layer, Network


def as_rows(X: Any) -> tuple[Any, Image | None]:
    """Return `(samples, height, width[, channels])` as rows, and the shape of an image.

    Anything else comes back as it is, with `None`.
    """
    array = np.asarray(X) if isinstance(X, list | tuple) else X
    if getattr(array, "ndim", 2) not in (3, 4):
        return X, None
    samples, height, width, *rest = array.shape
    image = height, width, rest[0] if rest else 1
    return np.asarray(array).reshape(samples, prod(image)), image


def image_shape_of(setting: Any, seen: Image | None, features: int, square: bool) -> Image | None:
    """Return the shape of an image by the setting or by the data; `None` means plain rows.

    With `square`, rows are gray squares where nothing else is said.
    """
    chosen = None if setting is None else _checked(setting)
    if chosen is not None and seen is not None and seen != chosen:
        raise EngineError(f"X holds images {seen}, but image_shape is {chosen}.")
    found = chosen or seen
    if found is not None and prod(found) != features:
        raise EngineError(
            f"X has {features} features, but an image {found} has {prod(found)} numbers."
        )
    if found is not None or not square:
        return found
    side = isqrt(features)
    if side**2 != features:
        raise EngineError(
            f"X has {features} features, which make no square: set image_shape to (height, width, "
            "channels)."
        )
    return side, side, 1


def conv_regression(
    image: Image, channels: Sequence[int], outputs: int, activation: str
) -> Network:
    """Return a convolutional network whose outputs are tanh units inside the energy."""
    seeing = conv_net(image, channels, outputs, activation=activation)
    top = seeing.layers[-1].name
    return replace(
        seeing,
        layers=(*seeing.layers, Layer("values", (outputs,), "tanh")),
        couplings=(*seeing.couplings, Dense("W_values", top, "values"), Bias("b_values", "values")),
        readout=SquaredError("values"),
    )


def _checked(setting: Any) -> Image:
    """Return `(height, width[, channels])` as three numbers, or refuse it."""
    parts = list(setting) if isinstance(setting, Sequence | np.ndarray) else []
    whole = all(isinstance(part, Integral) for part in parts)
    if isinstance(setting, str) or len(parts) not in (2, 3) or not whole:
        raise EngineError(
            f"image_shape is {shown(setting)}, expected (height, width, channels) or None."
        )
    height, width, channels = (int(part) for part in [*parts, 1][:3])
    for name, size in (("height", height), ("width", width), ("channels", channels)):
        check_count(f"{name} of image_shape", size)
    return height, width, channels
