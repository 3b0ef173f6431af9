"""The backend of a network that relaxes: compiled kernels, or torch on a device."""

from typing import TypeAlias

from adapters.torch_arrays import Device
from adapters.torch_backend import TorchBackend
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.model.network import Network
from engine.model.params import Params
from experiments.contest.choices import COMPILED

Kinds: TypeAlias = tuple[type[NumbaBackend], type[TorchBackend]]


def make_backend(
    network: Network,
    params: Params,
    device: str,
    kinds: Kinds = (NumbaBackend, TorchBackend),
) -> Backend:
    """Return a network on a device, as one of two kinds of backend."""
    compiled, on_torch = kinds
    if device == COMPILED:
        return compiled(network, params)
    named: Device = {"cuda": "cuda", "mps": "mps"}.get(device, "cpu")  # type: ignore[assignment]
    return on_torch(network, params, named)


def torch_device(device: str) -> str:
    """Return where a module of torch runs beside networks on this device."""
    return "cpu" if device == COMPILED else device
