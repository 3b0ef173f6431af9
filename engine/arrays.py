"""Array types, and the one trick that lets a formula serve numpy and torch alike."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.errors import DivergenceError, EngineError, reason, shown

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

Array: TypeAlias = Any
"""A numpy array or a torch tensor: the formulas use only operations that both share."""


class Tensor(ABC):
    """What tells an array of a library with devices, as torch is, from one of numpy."""

    shape: tuple[int, ...]
    dtype: Any
    device: Any

    @abstractmethod
    def is_contiguous(self) -> bool:
        """Whether its values lie one after the other, the last index first to change."""

    @abstractmethod
    def untyped_storage(self) -> Any:
        """The memory that it is a view of."""

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return hasattr(kind, "untyped_storage")


if TYPE_CHECKING:
    OwnArray: TypeAlias = Any
else:
    OwnArray = FloatArray | Tensor
"""An array in which a backend computes, numpy's or not. It is checked as such where it enters; what
the formulas do with it, no type knows."""


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


def check_tensor(name: str, array: Any, shape: tuple[int, ...], like: Any) -> None:
    """Refuse what is no whole tensor of this shape in the precision and on the device of `like`.

    No value is read: on another device that would be to wait for it.
    """
    kind = type(like).__name__
    if not isinstance(array, Tensor):
        raise EngineError(f"{name} is a {type(array).__name__}, expected a {kind}.")
    if tuple(array.shape) != shape:
        raise EngineError(f"{name} has shape {tuple(array.shape)}, expected {shape}.")
    if (array.dtype, array.device) != (like.dtype, like.device):
        raise EngineError(
            f"{name} is {array.dtype} on {array.device}, expected {like.dtype} on {like.device}."
        )
    if not array.is_contiguous():
        raise EngineError(f"{name} is not a whole, contiguous {kind}.")


def checked_sum(theta: FloatArray, update: FloatArray) -> FloatArray:
    """Return `theta + update`, or refuse an update that is not finite or leads beyond all bounds.

    Parameters are finite: where the sum is, the update was.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total: FloatArray = theta + update
    if not np.isfinite(total).all():
        raise DivergenceError("the update makes a parameter overflow; nothing was applied.")
    return total


def check_apart(name: str, array: FloatArray, others: Mapping[str, Any]) -> None:
    """Refuse an array to write into that shares memory with one that is read meanwhile."""
    kind: type = np.ndarray if isinstance(array, np.ndarray) else Tensor
    may_share = np.may_share_memory if kind is np.ndarray else _share_storage
    for other, read in others.items():
        if isinstance(read, kind) and may_share(array, read):
            raise EngineError(f"{name} shares memory with {other}, which is read meanwhile.")


def _share_storage(one: Any, other: Any) -> bool:
    """Tell whether two tensors are views of one memory."""
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


def number(value: Any) -> Any:
    """Return a number that numpy computed as a float; one that lies elsewhere stays there."""
    return float(value) if isinstance(value, float | int | np.generic) else value


def _place(index: tuple[int, ...]) -> str:
    """Name a place in an array as its users do."""
    if len(index) == 2:
        return f"sample {index[0]}, column {index[1]}"
    return f"place {index[0] if len(index) == 1 else index}"
