"""Torch itself, the device it runs on, and parameters as tensors.

Every torch adapter takes `torch` from here, so that one place says what to do when it is missing.
"""

from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from engine.errors import EngineError
from engine.model.params import unpack as unpack

try:
    import torch as torch
    from torch.fx.experimental.proxy_tensor import make_fx as make_fx
except ModuleNotFoundError as error:
    raise ImportError('the torch adapters need torch: pip install "settle[torch]".') from error

Device: TypeAlias = Literal["auto", "cpu", "cuda", "mps"]
Blocks: TypeAlias = dict[str, torch.Tensor]
CPU = torch.device("cpu")


def present_devices() -> tuple[str, ...]:
    """Name the devices of this machine, the fastest first."""
    present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    return tuple(name for name, there in present.items() if there)


def pick_device(name: str, dtype: npt.DTypeLike) -> torch.device:
    """Return the device called `name`; `auto` is the fastest that can compute in `dtype`."""
    if name not in get_args(Device):
        raise EngineError(f"unknown device '{name}'; known: {', '.join(get_args(Device))}.")
    present = present_devices()
    if name == "auto":
        name = next(device for device in present if _computes_in(device, dtype))
    if name not in present:
        raise EngineError(f"device '{name}' is not on this machine; it has {', '.join(present)}.")
    device = torch.device(name)
    check_precision(device, dtype)
    return device


def check_precision(device: torch.device, dtype: npt.DTypeLike) -> None:
    """Refuse a precision that the device does not have."""
    if not _computes_in(device.type, dtype):
        raise EngineError(
            f"device '{device.type}' has no {np.dtype(dtype)}: use float32 parameters or the cpu."
        )


def to_tensor(
    array: npt.NDArray[np.generic], dtype: npt.DTypeLike, device: torch.device
) -> torch.Tensor:
    """Copy an array to the device; the copy never shares the array's memory."""
    return torch.tensor(np.asarray(array, dtype), device=device)


def _computes_in(device: str, dtype: npt.DTypeLike) -> bool:
    return device != "mps" or np.dtype(dtype) == np.float32
