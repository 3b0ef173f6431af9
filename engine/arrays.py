"""Array types, and the one trick that lets a formula serve numpy and torch alike."""

import sys
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.errors import EngineError

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

Array: TypeAlias = Any
"""A numpy array or a torch tensor: the formulas use only operations that both share."""


def namespace(array: Array) -> Any:
    """Return the library that owns `array`, numpy or torch, without importing it."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def checked_matrix(
    name: str, value: npt.ArrayLike, columns: int, dtype: npt.DTypeLike
) -> FloatArray:
    """Return `value` as a finite, C-contiguous `(samples, columns)` array, or refuse it."""
    try:
        matrix = np.ascontiguousarray(value, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise EngineError(f"{name} is not a numeric array: {error}.") from None
    if matrix.ndim != 2 or matrix.shape[1] != columns:
        raise EngineError(f"{name} has shape {matrix.shape}, expected (samples, {columns}).")
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise EngineError(f"{name} holds {matrix[row, column]} at sample {row}, column {column}.")
    return matrix
