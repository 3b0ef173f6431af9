"""What the engine computes, for the page to compare itself with: states, answers, energies."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine import Clamped, NumbaBackend, Params, Relaxation, recurrent_norm
from engine.arrays import FloatArray
from engine.couplings.link import ONE
from engine.model import dynamics
from experiments.playground.described import packed, reach_of
from experiments.tasks import Split

FEW = 3
"""Steps after which a state on its way is compared."""
SETTLED = 1e-12
MOST_STEPS = 5_000
SAMPLES = 3
"""Pictures that are compared; the page would wait for more."""


@dataclass(frozen=True)
class Knobs:
    """What is done to a network; named in the way of the page."""

    beta: float = 0.0
    target: int = 0
    norm: float | None = None
    weightBits: int | None = None  # noqa: N815
    stateBits: int | None = None  # noqa: N815


def agreement_cases(params: Params, split: Split, samples: Sequence[int]) -> list[dict[str, Any]]:
    """Return relaxations of some test pictures: free, nudged, scaled, and with few bits."""
    double = params.astype(np.float64)
    reach = reach_of(params, split)
    has_norm = recurrent_norm(double) > 0.0
    cases = []
    for k, sample in enumerate(samples[:SAMPLES]):
        target = (int(split.y_test[sample]) + 1) % params.network.outputs
        turned = [Knobs(), Knobs(beta=0.5, target=target), Knobs(weightBits=4), Knobs(stateBits=5)]
        if has_norm:
            turned.append(Knobs(beta=0.2, target=k, norm=0.5, weightBits=6))
        x = split.x_test[sample].astype(np.float64)
        cases += [_case(double, reach, x, knobs) for knobs in turned]
    return cases


def _case(trained: Params, reach: dict[str, float], x: FloatArray, knobs: Knobs) -> dict[str, Any]:
    """Return states of one relaxation, on its way and, where nothing is rounded, settled."""
    params = changed(trained, knobs)
    backend = NumbaBackend(params.network, params)
    y = np.eye(params.network.outputs)[[knobs.target]]
    clamped = backend.clamp(x[None], y)
    if knobs.stateBits is not None:
        moments = [_rounded_moment(backend, clamped, reach, knobs)]
    else:
        plans = (Relaxation(FEW, 0.0), Relaxation(MOST_STEPS, SETTLED))
        moments = [_moment(backend, clamped, plan, knobs) for plan in plans]
    return {"x": packed(x), "knobs": asdict(knobs), "moments": moments}


def _moment(
    backend: NumbaBackend, clamped: Clamped, relaxation: Relaxation, knobs: Knobs
) -> dict[str, Any]:
    found = backend.settle(clamped, knobs.beta, relaxation)
    state = found.state
    if found.converged[0]:  # the page goes one step further: to the image of what was returned
        state = backend.settle(clamped, knobs.beta, Relaxation(1, 0.0), state).state
    return _described(backend, clamped, state, int(found.steps[0]), float(found.residual[0]), knobs)


def _rounded_moment(
    backend: NumbaBackend, clamped: Clamped, reach: dict[str, float], knobs: Knobs
) -> dict[str, Any]:
    """Return the state after some steps with few bits: the rounding is done here."""
    network = backend.network
    state = dynamics.activate(network, clamped.drive)
    residual = 0.0
    for _ in range(FEW):
        before = state
        state = backend.settle(clamped, knobs.beta, Relaxation(1, 0.0), before).state
        for layer in network.layers:
            units = state[:, network.columns[layer.name]]
            assert knobs.stateBits is not None
            units[...] = rounded(
                units, knobs.stateBits, reach[layer.name], signed=layer.rule.low < 0.0
            )
        residual = float(np.abs(state - before).max())
    return _described(backend, clamped, state, FEW, residual, knobs)


def _described(
    backend: NumbaBackend,
    clamped: Clamped,
    state: FloatArray,
    steps: int,
    residual: float,
    knobs: Knobs,
) -> dict[str, Any]:
    network, params = backend.network, backend.params
    energy = dynamics.energy(network, params, clamped.x, state)
    cost = dynamics.cost(network, params, state, clamped.y)
    read = network.of(network.readout.layer, state)
    return {
        "steps": steps,
        "state": packed(state[0]),
        "outputs": packed(network.readout.predict(params, read)[0]),
        "energy": float((energy + knobs.beta * cost)[0]),
        "residual": residual,
    }


def changed(trained: Params, knobs: Knobs) -> Params:
    """Return the parameters with the recurrent norm and the bits of the weights that are asked."""
    params, network = trained.copy(), trained.network
    links = list(network.links.values())
    if knobs.norm is not None:
        scale = knobs.norm / recurrent_norm(trained)
        for link in links:
            if not link.clamped:
                params[link.block][...] *= scale
    if knobs.weightBits is not None:
        blocks = [link.block for link in links if link.source != ONE]
        reading = network.reading
        if reading is not None and reading.link is not None:
            blocks.append(reading.link.block)
        for name in blocks:
            reach = float(np.abs(params[name]).max())
            if reach > 0.0:
                params[name][...] = rounded(params[name], knobs.weightBits, reach, signed=True)
    return params


def rounded(values: FloatArray, bits: int, reach: float, *, signed: bool) -> FloatArray:
    """Return the nearest of the numbers that so many bits can tell apart, up to `reach`."""
    most = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    grain = reach / most
    whole: FloatArray = np.floor(values / grain + 0.5).clip(-most if signed else 0, most)
    found: FloatArray = grain * whole
    return found
