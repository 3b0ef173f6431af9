"""Gradients by autograd through the same formulas: what equilibrium propagation is judged by.

`relax_through` and `loss` are differentiable, so that a baseline trains the same network by
backpropagation. A lateral block enters as `(W + W') / 2`: its gradient is then symmetric, as that
of equilibrium propagation is.
"""

import numpy as np
import numpy.typing as npt

from adapters.torch_arrays import CPU, Blocks, to_tensor, torch, unpack
from adapters.torch_backend import TorchBackend
from adapters.torch_threads import one_torch_thread
from engine.arrays import FloatArray, checked_matrix
from engine.border import checked
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model import dynamics
from engine.model.dynamics import Blocks as AnyBlocks
from engine.model.network import Network
from engine.model.params import Params


def relax_through(
    network: Network,
    blocks: AnyBlocks,
    x: torch.Tensor,
    steps: int,
    start: torch.Tensor | None = None,
    damping: float = 1.0,
) -> torch.Tensor:
    """Return the state after `steps` free steps with its graph, `(samples, units)`.

    Without `start` it begins at `sigma(input drive)`, which is part of the graph.
    """
    symmetric = symmetrise(network, blocks)
    drive = dynamics.clamped_drive(network, symmetric, x)
    state: torch.Tensor = dynamics.activate(network, drive) if start is None else start
    for _ in range(steps):
        image = dynamics.step(network, symmetric, x, None, state, 0.0, drive)
        state = image if damping == 1.0 else state + damping * (image - state)
    return state


def loss(network: Network, blocks: AnyBlocks, state: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean cost over the samples, a scalar with its graph."""
    mean: torch.Tensor = dynamics.cost(network, blocks, state, y).mean()
    return mean


def symmetrise(network: Network, blocks: AnyBlocks) -> Blocks:
    """Return the blocks with every lateral one replaced by `(W + W') / 2`."""
    symmetric = dict(blocks)
    for name in (link.block for link in network.links.values() if link.tied):
        symmetric[name] = (symmetric[name] + symmetric[name].T) / 2
    return symmetric


@checked
def bptt_gradient(
    network: Network,
    params: Params,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    steps: int = 100,
    start: npt.ArrayLike | None = None,
    damping: float = 1.0,
) -> FloatArray:
    """Return the gradient `(network.size,)` of the mean cost after `steps` unrolled free steps."""
    theta, inputs, targets = _leaves(network, params, x, y)
    origin = None
    if start is not None:
        dtype = params.theta.dtype
        origin = to_tensor(checked_matrix("start", start, network.units, dtype), dtype, CPU)
    with torch.enable_grad():
        blocks = unpack(network, theta)
        state = relax_through(network, blocks, inputs, steps, origin, damping)
        return _gradient(loss(network, blocks, state, targets), theta)


@checked
def implicit_gradient(
    network: Network,
    params: Params,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    relaxation: Relaxation | None = None,
) -> FloatArray:
    """Return the exact gradient `(network.size,)` of the mean cost at the free equilibrium.

        (I - dT/ds)' v = dC/ds        dC/dtheta + v' dT/dtheta

    It solves one dense system of `units` equations for every sample: meant for small networks.
    """
    theta, inputs, targets = _leaves(network, params, x, y)
    state = _equilibrium(network, params, x, relaxation).requires_grad_()
    with torch.enable_grad():
        blocks = symmetrise(network, unpack(network, theta))
        drive = dynamics.clamped_drive(network, blocks, inputs)
        image = dynamics.step(network, blocks, inputs, None, state, 0.0, drive)
        mean = loss(network, blocks, state, targets)
        return _gradient(mean + (_adjoint(mean, image, state) * image).sum(), theta)


def _adjoint(mean: torch.Tensor, image: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """`v` for the mean cost, `(samples, units)`, without a graph."""
    (slope,) = torch.autograd.grad(mean, state, retain_graph=True)
    # A sample depends on no other: the gradient of a sum over samples holds the row of each.
    rows = [
        torch.autograd.grad(unit.sum(), state, retain_graph=True, materialize_grads=True)[0]
        for unit in image.T
    ]
    jacobian = torch.stack(rows, 1)
    identity = torch.eye(len(rows), dtype=state.dtype)
    system = (identity - jacobian).mT
    # MKL solves batches of a few hundred unknowns wrongly on some processors if it may use two
    # threads.
    with one_torch_thread():
        adjoint: torch.Tensor = torch.linalg.solve(system, slope)
    left = (system @ adjoint[..., None])[..., 0] - slope
    allowed = len(rows) * float(torch.finfo(state.dtype).eps) * float(system.abs().sum(-1).max())
    if not float(left.abs().max()) <= allowed * float(adjoint.abs().max()):
        raise EngineError(
            f"torch left {float(left.abs().max()):.1e} when it solved for the exact gradient of "
            f"{len(rows)} units: it cannot be used as a judge here."
        )
    return adjoint


def _equilibrium(
    network: Network, params: Params, x: npt.ArrayLike, relaxation: Relaxation | None
) -> torch.Tensor:
    dtype = params.theta.dtype
    tolerance = 100.0 * float(np.finfo(dtype).eps)
    relaxation = relaxation or Relaxation(max_steps=2000, tolerance=tolerance)
    backend = TorchBackend(network, params, "cpu")
    free = backend.settle(backend.clamp(x), relaxation=relaxation)
    if not free.converged.all():
        raise EngineError(f"there is no equilibrium to differentiate: {free.summary()}.")
    return to_tensor(free.state, dtype, CPU)


def _leaves(
    network: Network, params: Params, x: npt.ArrayLike, y: npt.ArrayLike
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Parameters that ask for a gradient, inputs and targets."""
    if params.network != network:
        raise EngineError("the parameters belong to another network.")
    params.check()
    dtype = params.theta.dtype
    inputs = to_tensor(checked_matrix("x", x, network.inputs, dtype), dtype, CPU)
    targets = to_tensor(checked_matrix("y", y, network.outputs, dtype), dtype, CPU)
    if len(inputs) != len(targets):
        raise EngineError(f"y has {len(targets)} samples, x has {len(inputs)}.")
    return to_tensor(params.theta, dtype, CPU).requires_grad_(), inputs, targets


def _gradient(scalar: torch.Tensor, theta: torch.Tensor) -> FloatArray:
    (slope,) = torch.autograd.grad(scalar, theta)
    gradient: FloatArray = slope.numpy()
    return gradient
