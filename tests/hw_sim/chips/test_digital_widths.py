"""The widest words of the digital chip: what would overflow its simulation is refused."""

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig

WIDE = DigitalConfig(24, 24, 60, None, 20)
OUTPUTS = 12
TOP = 2.0 - 2.0**-21
"""Below the largest weight."""


def _nudged(network: Network, config: DigitalConfig, beta: float, y: np.ndarray) -> np.ndarray:
    """States after a nudged step from zero, with one column of the read-out at its limit."""
    params = Params(network, np.zeros(network.size))
    if "W_out" in params:
        params["W_out"][:, 0] = TOP
    chip = DigitalBackend(network, params, config)
    held = chip.clamp(np.zeros((1, network.inputs)), y)
    return chip.settle(held, beta, Relaxation(1, 0.0), np.zeros((1, network.units))).state


def test_a_nudge_that_fits_pulls_the_right_way_and_a_stronger_one_is_refused() -> None:
    """The error of the right output is below zero, and so pulls all units up."""
    network, y = looped_mlp(1, 2, OUTPUTS), np.eye(OUTPUTS)[:1]
    strongest = 2.0**61 / (OUTPUTS * 2.0 * 2**46) / 2**12
    assert (_nudged(network, WIDE, 0.9 * strongest, y) >= 0.0).all()
    with pytest.raises(EngineError, match=r"beta .* does not fit in 62 bits on the digital"):
        _nudged(network, WIDE, 1.1 * strongest, y)


@pytest.mark.parametrize("target", [0.0, 1.0, -1.0])
def test_no_product_of_a_nudge_leaves_the_integers(target: float) -> None:
    """With whole numbers of Python: the widest pull, times the largest gain that is taken."""
    f, weight, gain = 23, 2**23 - 1, 2**12
    error = 2**f + int(abs(target) * 2**f)
    for outputs in (1, 10, 1000):
        beta = 2.0**-12
        while True:
            try:
                WIDE.check_nudge(2 * beta, abs(target), outputs, linked=True)
            except EngineError:
                break
            beta *= 2
        pull = min(outputs * error * weight, 2**59)
        assert int(beta * gain) * pull + 2**11 < 2**63
        assert 16 * int(beta * gain) * pull > 2**63  # refused no earlier than it must be


def test_units_that_are_outputs_have_limits_too() -> None:
    network = layered((1, 2), readout="squared_error")
    assert network.reading is not None
    assert network.reading.link is None
    _nudged(network, WIDE, 1.0, np.ones((1, 2)))
    with pytest.raises(EngineError, match=r"targets up to 1e\+12 does not fit in 62 bits"):
        _nudged(network, WIDE, 1.0, np.full((1, 2), 1e12))


def test_inputs_beyond_all_products_are_refused() -> None:
    assert DigitalConfig(24, 24, 60, None, 20, input_range=2.0**15).input_range == 2.0**15
    with pytest.raises(EngineError, match=r"has input_range 65536, whose products .* 62 bits"):
        DigitalConfig(24, 24, 60, None, 20, input_range=2.0**16)
