"""Array types, and the one trick that lets a formula serve numpy and torch alike."""

import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.errors import DivergenceError, EngineError, reason, shown

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

Array: TypeAlias = Any
"""A numpy array or a torch tensor: the formulas use only operations that both share."""


def namespace(array: Array) -> Any:
    """Return the library that owns `array`, numpy or torch, without importing it."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def by_sample(s: Array) -> Array:
    """View `(samples, *shape)` as `(samples, size)`."""
    return s if s.ndim == 2 else s.reshape(len(s), -1)


def plain_array(name: str, value: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return `value` as an array of real numbers with nothing masked, or refuse it."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise EngineError(f"{name} masks some of its values: fill them or leave them out.")
    try:
        given = np.asarray(value)
    except Exception as error:  # an object may fail in its own way to become an array
        raise EngineError(f"{name} is not a numeric array: {reason(error)}.") from None
    if given.dtype.kind not in "biuf":
        raise EngineError(f"{name} is an array of {given.dtype}, expected real numbers.")
    return given


def checked_array(
    name: str,
    value: npt.ArrayLike,
    dtype: npt.DTypeLike,
    not_finite: type[EngineError] = EngineError,
) -> FloatArray:
    """Return `value` as an array that a kernel can read: real, finite, C-contiguous, aligned.

    Nothing is dropped on the way: masks, imaginary parts and what `dtype` cannot hold are refused.
    """
    if type(value) is np.ndarray and value.dtype == dtype and value.flags.carray:
        given = array = value  # as most are, in every step of a training
    else:
        given = plain_array(name, value)
        with np.errstate(over="ignore"):
            array = np.require(given, dtype, ("C", "A"))
    if not np.isfinite(array).all():
        place = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        why = f", which {array.dtype} cannot hold" if np.isfinite(given[place]) else ""
        raise not_finite(f"{name} holds {given[place]} at {_place(place)}{why}.")
    return array


def checked_matrix(
    name: str, value: npt.ArrayLike, columns: int, dtype: npt.DTypeLike
) -> FloatArray:
    """Return `value` as a finite, C-contiguous `(samples, columns)` array, or refuse it."""
    matrix = checked_array(name, value, dtype)
    if matrix.ndim != 2 or matrix.shape[1] != columns:
        raise EngineError(f"{name} has shape {matrix.shape}, expected (samples, {columns}).")
    return matrix


def checked_vector(
    name: str,
    value: npt.ArrayLike,
    size: int,
    dtype: npt.DTypeLike,
    not_finite: type[EngineError] = EngineError,
) -> FloatArray:
    """Return `value` as a finite, C-contiguous `(size,)` array, or refuse it."""
    vector = checked_array(name, value, dtype, not_finite)
    if vector.shape != (size,):
        raise EngineError(f"{name} has shape {vector.shape}, expected ({size},).")
    return vector


def checked_precision(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return float32 or float64 as numpy's type, or refuse what is neither."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if dtype is None or found not in (np.float32, np.float64):
        raise EngineError(f"the precision is {shown(dtype)}, expected float32 or float64.")
    return found


def check_writable(
    name: str, array: FloatArray, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> None:
    """Refuse an array that a kernel cannot write into as it is; a copy would lose the result."""
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise EngineError(f"{name} is a {type(array).__name__}, expected a numpy array.")
    if array.shape != shape:
        raise EngineError(f"{name} has shape {array.shape}, expected {shape}.")
    if array.dtype != dtype:
        raise EngineError(f"{name} is {array.dtype}, expected {np.dtype(dtype)}.")
    if not array.flags.carray:
        raise EngineError(f"{name} is not a whole, contiguous, writable array of its own.")


def checked_sum(theta: Array, update: Array) -> Array:
    """Return `theta + update`, or refuse an update that is not finite or leads beyond all bounds.

    Parameters are finite: where the sum is, the update was.
    """
    xp = namespace(theta)
    with np.errstate(over="ignore", invalid="ignore"):
        total = theta + update
    if not bool(xp.isfinite(total).all()):
        raise DivergenceError("the update makes a parameter overflow; nothing was applied.")
    return total


def check_apart(name: str, array: FloatArray, others: Mapping[str, Any]) -> None:
    """Refuse an array to write into that shares memory with one that is read meanwhile."""
    for other, read in others.items():
        if isinstance(read, np.ndarray) and np.may_share_memory(array, read):
            raise EngineError(f"{name} shares memory with {other}, which is read meanwhile.")


def _place(index: tuple[int, ...]) -> str:
    """Name a place in an array as its users do."""
    if len(index) == 2:
        return f"sample {index[0]}, column {index[1]}"
    return f"place {index[0] if len(index) == 1 else index}"
