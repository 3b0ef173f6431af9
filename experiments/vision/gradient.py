"""How true the gradient of EqProp is, layer by layer, judged by autograd at the equilibrium."""

from dataclasses import dataclass

import numpy as np

from adapters.torch_arrays import torch, unpack
from adapters.torch_autograd import loss, symmetrise
from adapters.torch_backend import TorchBackend
from engine.arrays import FloatArray, IntArray
from engine.backend import Backend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import estimate
from engine.learning.predict import targets_of
from engine.learning.training import Training
from engine.model import dynamics
from engine.model.params import Params
from experiments.vision.networks import kernels_of

CLOSELY = Relaxation(max_steps=5000, tolerance=1e-9, solver="sweeps")
MOST_ITERATIONS = 1000
CLOSE_ENOUGH = 1e-8
"""Relative change of the adjoint at which it has settled."""


@dataclass(frozen=True)
class Truth:
    """Cosines of an estimate with the exact gradient: of all of it, and from bottom to top.

    The layers are the kernels from the image upwards, then the read-out.
    """

    whole: float
    layers: tuple[float, ...]


def judge_gradient(
    backend: Backend, x: FloatArray, y: IntArray, training: Training
) -> Truth | None:
    """Compare the estimate, as trained with, with the exact gradient in float64.

    `None` where that does not exist, because a sample of the batch finds no equilibrium.
    """
    network = backend.network
    targets = targets_of(network, y, backend.dtype)
    gradient = np.zeros(network.size, backend.dtype)
    phases = training.phases(backend)
    estimate(backend, backend.clamp(x, targets), phases, gradient, *training.relaxations(backend))
    try:
        exact = exact_gradient(backend.params.astype(float), x, targets)
    except EngineError:
        return None
    spans = [network.blocks[coupling.name].span for coupling in kernels_of(network)]
    spans.append(network.blocks["W_out"].span)
    return Truth(
        whole=cosine(gradient, exact),
        layers=tuple(cosine(gradient[span], exact[span]) for span in spans),
    )


def exact_gradient(params: Params, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the gradient `(network.size,)` of the mean cost at the free equilibrium.

        v <- dC/ds + (dT/ds)' v        dC/dtheta + v' dT/dtheta

    The adjoint is iterated like the state: the images of a convolutional network have too many
    units for a dense system.
    """
    network, dtype = params.network, params.theta.dtype
    backend = TorchBackend(network, params, "cpu")
    free = backend.settle(backend.clamp(x), relaxation=CLOSELY)
    if not free.converged.all():
        raise EngineError(f"there is no equilibrium to differentiate: {free.summary()}.")
    inputs, targets = (torch.tensor(np.asarray(array, dtype)) for array in (x, y))
    state = torch.tensor(free.state).requires_grad_()
    theta = torch.tensor(params.theta).requires_grad_()
    with torch.enable_grad():
        blocks = symmetrise(network, unpack(network, theta))
        drive = dynamics.clamped_drive(network, blocks, inputs)
        image = dynamics.step(network, blocks, inputs, None, state, 0.0, drive)
        mean = loss(network, blocks, state, targets)
        adjoint = _adjoint(mean, image, state)
        (slope,) = torch.autograd.grad(mean + (adjoint * image).sum(), theta)
    gradient: FloatArray = slope.numpy()
    return gradient


def _adjoint(mean: torch.Tensor, image: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    (slope,) = torch.autograd.grad(mean, state, retain_graph=True)
    adjoint = slope
    for _ in range(MOST_ITERATIONS):
        # Of a single layer, whose units do not see each other, nothing comes back: zeros.
        (back,) = torch.autograd.grad(
            image, state, adjoint, retain_graph=True, materialize_grads=True
        )
        change = slope + back - adjoint
        adjoint = adjoint + change
        if change.norm() <= CLOSE_ENOUGH * adjoint.norm():
            return adjoint
    raise EngineError(f"the adjoint has not settled after {MOST_ITERATIONS} iterations.")


def cosine(first: FloatArray, second: FloatArray) -> float:
    """Return the cosine of two gradients; zero if one of them is."""
    one, other = first.astype(np.float64), second.astype(np.float64)
    scale = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(one @ other) / scale if scale > 0.0 else 0.0
