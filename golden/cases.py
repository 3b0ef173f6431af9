"""The networks, data and parameters on which backends and gradients are judged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.couplings.convolution import Convolution, InputConvolution
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.optimizer import Adam
from engine.learning.run import Run
from engine.learning.spectral import SpectralCap, has_cap, recurrent_norm
from engine.learning.training import Training, train_step
from engine.model.builders import (
    conv_net,
    energy_transformer,
    layered,
    looped_mlp,
    residual_net,
    resistive,
)
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from golden.draws import draw_inputs, draw_targets
from golden.fidelity import BETA

Factory: TypeAlias = Callable[[Network, Params], Backend]

SAMPLES = 6
CAP = 0.95
UNCAPPED = 1.5
SETTLED = Relaxation(100, 1e-8)
REACHED = Relaxation(400, 1e-9)
"""How far a trained network has to come from the start. At the cap it does, `0.95^400 = 1.2e-9`;
without one training passes states at which an equilibrium is about to be lost, from which a step
hardly moves and where there is no gradient to judge. It is also what references unroll."""
RATE = 0.01
BIAS_SCALE = 0.1
UPDATES = 2000
DROP = 0.3
"""Training stops when the loss has come down to this share of what it was."""
UNBOUND_DROP = 0.5
"""The same for networks without a known norm. As these go on, units saturate and equilibria merge
or are lost, along the exact gradient too, so that some batches cannot be learned further."""


@dataclass(frozen=True)
class Case:
    """A network at some parameters, with a batch to run it on."""

    name: str
    params: Params
    x: FloatArray
    y: FloatArray

    @property
    def network(self) -> Network:
        """The network the parameters belong to."""
        return self.params.network

    def build(self, factory: Factory, dtype: npt.DTypeLike = np.float64) -> Backend:
        """Return the backend that `factory` makes of this network, in one precision."""
        return factory(self.network, self.params.astype(dtype))


def judged_networks() -> dict[str, Network]:
    """Return networks of every kind: looped, layered, other costs, images, attention."""
    networks = {"looped": looped_mlp(5, 10, 3), "looped, relu": looped_mlp(5, 10, 3, "relu")}
    for depth in range(1, 5):
        networks[f"layered, depth {depth}"] = layered((5, *[10] * depth, 3))
    for activation in ("tanh", "hard_sigmoid"):
        name = f"squared error, {activation.replace('_', ' ')}"
        networks[name] = layered((5, 7, 4), activation, "squared_error")
    networks |= _image_networks() | deep_networks()
    networks["transformer"] = energy_transformer(4, 3, width=4)
    networks["transformer, causal"] = energy_transformer(4, 3, width=4, causal=True)
    networks["transformer, memories"] = energy_transformer(
        4, 3, width=4, heads=1, outputs=3, memories=5, sharpness=2.0, sees_itself=True
    )
    networks["resistive"] = resistive((5, 8, 3), g_min=1e-3)
    networks["resistive, amplified"] = resistive((5, 6, 6, 3), amplification=1.3, g_min=1e-3)
    return networks


def _image_networks() -> dict[str, Network]:
    """Return convolutions of every kind: strided, pooled, in groups, with skips."""
    networks = {
        "convolution": conv_net((5, 6, 2), (3, 2), 3, activation="tanh"),
        "convolution, relu": conv_net((4, 4, 1), (2,), 3),
    }
    networks["convolution, mean pooled"] = conv_net(
        (11, 10, 1), (2, 2), 3, pooling="mean", activation="tanh"
    )
    networks["convolution, grouped"] = Network(
        3 * 4 * 2,
        (Layer("low", (3, 4, 2)), Layer("high", (2, 2, 4))),
        (
            InputConvolution("W_1", "low", (3, 4, 2), groups=2),
            Convolution("W_2", "low", "high", 3, 2, 1, groups=2),
        ),
        SoftmaxReadout("high", 3),
    )
    for name, channels in {"residual": (2, 1, 2), "residual, projected": (2, 1, 3)}.items():
        networks[name] = residual_net((3, 3, 1), channels, 3, activation="tanh")
    return networks


def deep_networks() -> dict[str, Network]:
    """Return convolutions of one to seven layers, which are judged as they start.

    Under the cap signals fade layer by layer. A read-out that has learned to hear them is so steep
    that a nudge it biases little is lost in rounding.
    """
    channels = (2, 1, 2, 1, 2, 1, 2)
    return {
        f"convolution, depth {depth}": conv_net(
            (3, 3, 1), channels[:depth], 3, stride=1, activation="tanh"
        )
        for depth in range(1, len(channels) + 1)
    }


def smooth_networks() -> dict[str, Network]:
    """Return those without kinks: a nudge that crosses a kink has no order of bias."""
    return {name: network for name, network in judged_networks().items() if _is_smooth(network)}


def _is_smooth(network: Network) -> bool:
    return all(layer.activation == "tanh" for layer in network.layers)


def initial_case(
    name: str, network: Network, rng: np.random.Generator, norm: float | None = None
) -> Case:
    """Draw a batch and starting parameters, with the recurrent coupling scaled to `norm`.

    Where units have kinks, so are the biases, which start at zero: a unit that hears nothing from
    any other would lie on its kink, where the loss has a slope to each side and no gradient.
    """
    params = initial_params(network, rng, np.float64)
    if not _is_smooth(network):
        for block in params.values():
            if not block.any():
                block[...] = BIAS_SCALE * rng.standard_normal(block.shape)
    if norm is not None:
        scale_recurrent(params, norm)
    x = draw_inputs(network, rng, SAMPLES)
    return Case(name, params, x, draw_targets(network, x, rng))


def trained_case(case: Case, cap: float | None, name: str, drop: float | None = None) -> Case:
    """Train by EqProp until the loss has come down to `drop` at states that can be `REACHED`.

    `cap` holds where the norm is known. Without one steps are followed, wherever they lead.
    """
    bound = has_cap(case.network)
    if drop is None:
        drop = DROP if bound else UNBOUND_DROP
    backend = NumbaBackend(case.network, case.params)
    training = Training(
        beta=BETA,
        free=SETTLED,
        nudged=SETTLED,
        optimizer=Adam(RATE),
        schedule="constant",
        cap=SpectralCap(cap) if bound and cap is not None else None,
    )
    run = Run.start(case.network, Adam.moments, backend.dtype, seed=0)
    first = None
    for _ in range(UPDATES):
        params = backend.params.copy()
        report = train_step(backend, case.x, case.y, training, run, total=1)
        first = report.cost if first is None else first
        if report.cost <= drop * first:
            found = Case(name, params, case.x, case.y)
            if cap is None or _is_reached(found):
                return found
    raise EngineError(f"the loss of '{case.name}' did not drop within {UPDATES} updates.")


def _is_reached(case: Case) -> bool:
    backend = case.build(NumbaBackend)
    return bool(backend.settle(backend.clamp(case.x), relaxation=REACHED).converged.all())


def scale_recurrent(params: Params, norm: float) -> None:
    """Scale the recurrent couplings in place so that `recurrent_norm` is `norm`."""
    now = recurrent_norm(params)
    for coupling in params.network.recurrent:
        params[coupling.name][...] *= norm / now
