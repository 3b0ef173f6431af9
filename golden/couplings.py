"""Closed forms against autograd of what they were derived from, in double precision.

`drive` and `correlate` of every coupling are held to the gradient of its `potential`, those of the
whole network and of the read-out likewise, and every `sigma` to the inverse of `G'`. The link of a
coupling has to do what its closed forms say.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.arrays import Array, FloatArray, by_sample
from engine.couplings.conductance import squares_of
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT, ONE, Link
from engine.model import dynamics
from engine.model.activation import Activation
from engine.model.network import Network
from engine.model.params import Params, initial_params
from golden.directions import random_directions
from golden.draws import draw_inputs, draw_probabilities
from golden.metric import Metric

try:
    import torch
except ModuleNotFoundError as error:
    raise ImportError('checks by autograd need torch: pip install "settle[torch]".') from error

THRESHOLD = 1e-10
"""Largest relative error of a closed form in double precision."""
INTERIOR = 0.9
"""Share of an activation's range from which states are drawn: `G'` is steep at its ends."""
FAR = 2.0
"""Where a range without end is cut for that."""


def check_network(network: Network, rng: np.random.Generator, samples: int = 4) -> list[Metric]:
    """Check every coupling, the read-out, the activations and their sum on random values."""
    params = initial_params(network, rng, np.float64)
    # no block may be zero, as biases are at the start: zeros would hide a mistake
    params.theta[:] += 0.3 * random_directions(network, rng, 1)[0]
    x = draw_inputs(network, rng, samples)
    y = draw_probabilities(network, rng, samples)
    state = draw_state(network, rng, samples)
    metrics = []
    for coupling in network.couplings:
        w, ends = params[coupling.name], network.ends(coupling, state)
        metrics += check_coupling(coupling, w, x, ends)
        if coupling.name in network.links:
            metrics.append(check_link(network.links[coupling.name], coupling, w, x, ends))
    metrics.append(_check_drive(network, params, x, state))
    metrics += _check_readout(network, params, state, y)
    for layer in network.layers:
        metrics.append(check_activation(layer.name, layer.rule, network.of(layer.name, state)))
    return metrics


def check_coupling(
    coupling: Coupling, w: FloatArray, x: FloatArray, states: Sequence[FloatArray]
) -> list[Metric]:
    """Check `drive` and `correlate` against autograd of `potential`, in numpy and in torch."""
    leaves = [_leaf(w), *(_leaf(state) for state in states)]
    phi = coupling.potential(leaves[0], torch.from_numpy(x), *leaves[1:]).sum()
    by_weight, *by_state = _gradients(phi, leaves)
    drive_error, correlate_error = 0.0, 0.0
    for convert in (np.asarray, torch.from_numpy):
        weight, inputs, *ends = (convert(np.ascontiguousarray(a)) for a in (w, x, *states))
        # a clamped coupling is driven without states, as the engine does it
        drives = coupling.drive(weight, inputs, *([] if coupling.clamped else ends))
        squares = squares_of(coupling)
        if squares is not None:  # what a node does to itself is not in its drive
            stiff = zip(squares.stiffness(weight), map(by_sample, ends), strict=True)
            own = [c * end for c, end in stiff]
            drives = tuple(d - part for d, part in zip(drives, own, strict=True))
        pairs = zip(map(by_sample, drives), map(by_sample, by_state), strict=True)
        drive_error = max(drive_error, *(_relative_error(*pair) for pair in pairs))
        correlated = coupling.correlate(weight, inputs, *ends)
        correlate_error = max(correlate_error, _relative_error(correlated, by_weight))
    return [
        Metric(f"{coupling.name} drive", drive_error, THRESHOLD),
        Metric(f"{coupling.name} correlate", correlate_error, THRESHOLD),
    ]


def check_link(
    link: Link, coupling: Coupling, w: FloatArray, x: FloatArray, states: Sequence[FloatArray]
) -> Metric:
    """Check that the link which a coupling says it is does what its closed forms say."""
    named = dict(zip(coupling.layers, map(by_sample, states), strict=True))
    ends = {INPUT: x, ONE: np.ones((len(x), 1))} | named
    a, b, half = ends[link.source], ends[link.target], 0.5 if link.tied else 1.0
    sent = {link.source: link.backward(w, b), link.target: link.forward(w, a) + np.zeros_like(b)}
    pairs = [
        (half * (sent[link.target] * b).sum(-1), coupling.potential(w, x, *states)),
        (half * link.correlate(a, b).reshape(w.shape), coupling.correlate(w, x, *states)),
    ]
    drives = coupling.drive(w, x, *([] if coupling.clamped else states))
    found = [sent[name] for name in coupling.layers]
    pairs += zip(found, map(by_sample, drives), strict=True)
    return Metric(f"{coupling.name} link", max(_relative_error(*p) for p in pairs), THRESHOLD)


def check_activation(name: str, rule: Activation, s: FloatArray) -> Metric:
    """Check that `sigma(G'(s)) = s`, with `G'` by autograd."""
    leaf = _leaf(s)
    (slope,) = _gradients(rule.convex(leaf).sum(), [leaf])
    return Metric(f"{name} sigma", _relative_error(rule.sigma(slope), s), THRESHOLD)


def draw_state(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw a state `(samples, units)` from the interior of every layer's range."""
    parts = []
    for layer in network.layers:
        low, high = max(layer.rule.low, -FAR), min(layer.rule.high, FAR)
        middle, reach = (high + low) / 2, INTERIOR * (high - low) / 2
        parts.append(rng.uniform(middle - reach, middle + reach, (samples, layer.size)))
    return np.concatenate(parts, -1)


def _check_drive(network: Network, params: Params, x: FloatArray, state: FloatArray) -> Metric:
    blocks = {name: torch.from_numpy(block) for name, block in params.items()}
    leaf = _leaf(state)
    phi = dynamics.potential(network, blocks, torch.from_numpy(x), leaf).sum()
    (expected,) = _gradients(phi, [leaf])
    drive = dynamics.clamped_drive(network, params, x)
    drive = drive + dynamics.recurrent_drive(network, params, x, state)
    compliance = dynamics.compliance(network, params)
    if compliance is not None:
        drive = drive / compliance - (1 / compliance - 1) * state
    return Metric("network drive", _relative_error(drive, expected), THRESHOLD)


def _check_readout(
    network: Network, params: Params, state: FloatArray, y: FloatArray
) -> list[Metric]:
    blocks = {name: _leaf(block) for name, block in params.items()}
    leaf = _leaf(state)
    cost = dynamics.cost(network, blocks, leaf, torch.from_numpy(y)).sum()
    readout = network.readout
    correlated = readout.correlate(params, network.of(readout.layer, state), y)
    by_state, *by_block = _gradients(cost, [leaf, *(blocks[name] for name in correlated)])
    nudge = dynamics.nudge(network, params, state, y)
    metrics = [Metric("read-out nudge", _relative_error(nudge, by_state), THRESHOLD)]
    for (name, got), expected in zip(correlated.items(), by_block, strict=True):
        metrics.append(Metric(f"{name} correlate", _relative_error(got, expected), THRESHOLD))
    return metrics


def _leaf(array: FloatArray) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


def _gradients(value: torch.Tensor, leaves: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(value, leaves, materialize_grads=True)


def _relative_error(got: Array, expected: Array) -> float:
    """`max |got - expected| / max |expected|`; infinite where the shapes differ."""
    left, right = _plain(got), _plain(expected)
    if left.shape != right.shape:
        return float("inf")
    scale = max(float(np.abs(right).max()), float(np.finfo(np.float64).tiny))
    return float(np.abs(left - right).max()) / scale


def _plain(array: Any) -> FloatArray:
    return array.detach().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)
