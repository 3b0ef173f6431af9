"""The circuits that are trained, and how: what was chosen on validation parts."""

from collections.abc import Sequence

from engine import Adam, Network, Params, Training
from engine import resistive as circuit_of
from engine.couplings.conductance import LEAST

INPUT_AMPLIFICATION, TOTAL = 100.0, 10.0
DEEP_AMPLIFICATION = 4.0
"""Of the voltages between layers, where there are several hidden ones; else there is none."""
RATE, BIAS_RATE = 0.02, 0.01


def amplification_of(hidden: Sequence[int]) -> float:
    """Return what voltages are multiplied with between the layers of a circuit."""
    return DEEP_AMPLIFICATION if len(hidden) > 1 else 1.0


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
        amplification=amplification_of(hidden) if amplification is None else amplification,
        total=total,
        g_min=g_min,
    )


def settings(
    params: Params, epochs: int, batch_size: int, seed: int, rate: float = RATE
) -> Training:
    """Return how it is trained: a conductance changes in proportion to the mean of its block."""
    rates = {
        name: float(block.mean()) if name in params.network.squares else BIAS_RATE
        for name, block in params.items()
    }
    return Training(
        epochs=epochs, batch_size=batch_size, optimizer=Adam(rate), rates=rates, seed=seed
    )
