"""What golden says of displacements, and of backends that displace wrongly."""

from dataclasses import replace

import numpy as np
import pytest

from adapters.torch_autograd import implicit_gradient
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Equilibrium
from engine.model.builders import conv_net, looped_mlp
from golden.cases import initial_case
from golden.displacement import BETAS, LEAST_LAYER_COSINE, measure_depth, measure_errors
from golden.draws import stream


class Changed(NumbaBackend):
    """Displacements that are `factor` of what they should be."""

    factor = 1.0

    def _relax(self, clamped, plan, start):  # type: ignore[no-untyped-def]
        return [self._moved(one) for one in super()._relax(clamped, plan, start)]

    def _moved(self, found: Equilibrium) -> Equilibrium:
        if found.displacement is None:
            return found
        return replace(found, displacement=self.factor * found.displacement)


class WrongSign(Changed):
    factor = -1.0


class TooLong(Changed):
    factor = 1.01


@pytest.mark.parametrize("network", [looped_mlp(5, 10, 3), conv_net((4, 4, 1), (2, 3), 3)])
def test_displacements_keep_what_states_lose(network: object) -> None:
    case = initial_case("case", network, stream(0, "displacement"))
    found = measure_errors(case, NumbaBackend, implicit_gradient)
    assert found.passed
    assert found.states[-1] > 0.1
    # Of states the error grows in proportion to 1 / beta, once rounding is all of it.
    assert found.states[BETAS.index(1e-5)] > 5 * found.states[BETAS.index(1e-3)]
    for faulty in (WrongSign, TooLong):
        assert not measure_errors(case, faulty, implicit_gradient).passed


def test_every_layer_of_a_deep_network_learns_in_the_right_direction() -> None:
    found = measure_depth(7, 0, NumbaBackend, implicit_gradient)
    assert found.passed
    assert found.signal < 1e-3  # what nudges have to be told apart from
    assert np.min(found.states) < 0.5 < LEAST_LAYER_COSINE
    assert not measure_depth(7, 0, WrongSign, implicit_gradient).passed
