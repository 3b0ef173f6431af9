"""The circuits that are trained, and how: what was chosen on validation parts."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine import Adam, Network, Params, Training
from engine import resistive as circuit_of
from engine.couplings.conductance import LEAST

INPUT_AMPLIFICATION, TOTAL = 100.0, 10.0
BIAS_RATE = 0.01


@dataclass(frozen=True)
class Depth:
    """What depends on how many hidden layers there are."""

    amplification: float
    """Of the voltages between layers."""
    rate: float
    """Of Adam, at the start."""


SHALLOW, DEEP = Depth(amplification=1.0, rate=0.02), Depth(amplification=4.0, rate=0.04)
"""With one hidden layer, and with more."""


def depth_of(hidden: Sequence[int]) -> Depth:
    """Return what was chosen for so many hidden layers."""
    return DEEP if len(hidden) > 1 else SHALLOW


def circuit(
    inputs: int,
    hidden: Sequence[int],
    outputs: int,
    *,
    input_amplification: float = INPUT_AMPLIFICATION,
    amplification: float | None = None,
    total: float = TOTAL,
    g_min: float = LEAST,
) -> Network:
    """Return the network that is trained."""
    return circuit_of(
        (inputs, *hidden, outputs),
        input_amplification=input_amplification,
        amplification=depth_of(hidden).amplification if amplification is None else amplification,
        total=total,
        g_min=g_min,
    )


def settings(params: Params, epochs: int, batch_size: int, seed: int, rate: float) -> Training:
    """Return how it is trained: a conductance changes in proportion to the mean of its block."""
    rates = {
        name: float(block.mean()) if name in params.network.squares else BIAS_RATE
        for name, block in params.items()
    }
    return Training(
        epochs=epochs, batch_size=batch_size, optimizer=Adam(rate), rates=rates, seed=seed
    )
