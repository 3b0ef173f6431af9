"""The circuits that are trained: what is amplified, and how fast conductances change."""

import numpy as np
import pytest

from engine import initial_params
from experiments.circuit.recipe import BIAS_RATE, circuit, settings


@pytest.mark.parametrize(("hidden", "gain"), [([6], 1.0), ([6, 4], 4.0)])
def test_voltages_are_amplified_between_the_layers_of_deep_circuits(
    hidden: list[int], gain: float
) -> None:
    network = circuit(3, hidden, 2)
    for squares in network.squares.values():
        assert squares.amplification == (100.0 if len(squares.layers) == 1 else gain)
    chosen = circuit(3, hidden, 2, amplification=2.0, input_amplification=7.0, g_min=0.25)
    assert {s.amplification for s in chosen.squares.values()} == {2.0, 7.0}
    assert {s.g_min for s in chosen.squares.values()} == {0.25}


def test_conductances_change_in_proportion_to_the_mean_of_their_block() -> None:
    params = initial_params(circuit(3, [6, 4], 2, total=5.0), np.random.default_rng(0))
    training = settings(params, 3, 16, 1, rate=0.5)
    assert training.optimizer.lr == 0.5
    for name, block in params.items():
        is_conductance = name in params.network.squares
        assert training.rates[name] == pytest.approx(block.mean() if is_conductance else BIAS_RATE)
