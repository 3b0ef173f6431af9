"""Learning is local, and it comes from the nudge alone."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.arrays import BoolArray, FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.coupling import Coupling
from engine.couplings.dense import Bias, Lateral
from engine.couplings.skip import Skip
from engine.couplings.tokens import Embedding
from engine.equilibrium import Equilibrium, Relaxation
from engine.learning.estimator import Estimator, centered, estimate, four_point, one_sided
from engine.model.builders import looped_mlp
from engine.model.network import Network
from engine.model.params import Params
from experiments.fuzz.strategies import Case, cases, random_params
from golden.scalar_images import meetings

TIGHT = Relaxation(3000, 1e-12)
MANY = settings(max_examples=100)


def _touched(network: Network, unit: int) -> BoolArray:
    """Mark the parameters with an end at `unit`."""
    owner, inside = next(
        (name, unit - span.start)
        for name, span in network.columns.items()
        if span.start <= unit < span.stop
    )
    marks = Params(network, np.zeros(network.size))
    for coupling in network.couplings:
        if owner not in coupling.layers:
            continue
        block = marks[coupling.name]
        if isinstance(coupling, Attention | Hopfield):
            block[...] = 1  # what arrives at its ends comes from all tokens: see test_attention
            continue
        if isinstance(coupling, Embedding):
            block[:, inside % block.shape[1]] = 1
            continue
        if len(network.shapes[owner]) == 3:
            _mark_image(network, coupling, owner, inside, block)
            continue
        if isinstance(coupling, Lateral) or coupling.layers[0] == owner != coupling.layers[-1]:
            block[inside] = 1
        if coupling.layers[-1] == owner:
            block[..., inside] = 1
    return marks.theta == 1


def _mark_image(
    network: Network, coupling: Coupling, owner: str, inside: int, block: FloatArray
) -> None:
    """Mark what a convolution, its bias or a skip has at a unit: all places read one weight."""
    channel = inside % network.shapes[owner][-1]
    if isinstance(coupling, Skip):
        block[...] = 1
    elif isinstance(coupling, Bias):
        block[channel] = 1
    elif coupling.layers[-1] == owner:
        group, column = divmod(channel, block.shape[-1])
        block.reshape(-1, *block.shape[-2:])[group, :, column] = 1
    else:
        filters = network.shapes[coupling.layers[-1]][-1]
        met = meetings(coupling, network.shapes[owner], filters)
        block.reshape(-1)[[weight for source, _, weight in met if source == inside]] = 1


@MANY
@given(cases(), st.data())
def test_a_synapse_sees_only_its_two_ends(case: Case, data: st.DataObject) -> None:
    unit = data.draw(st.integers(0, case.network.units - 1))
    sample = data.draw(st.integers(0, len(case.x) - 1))
    settled = case.backend.settle(case.clamped)
    moved = settled.state.copy()
    moved[sample, unit] = 0.5 - moved[sample, unit]
    assume(abs(moved[sample, unit] - settled.state[sample, unit]) > 1e-3)

    def gradient(equilibrium: Equilibrium) -> FloatArray:
        total = np.zeros(case.network.size)
        case.backend.accumulate(case.clamped, equilibrium, total, energy=0.7)
        return total

    changed = gradient(settled) != gradient(replace(settled, state=moved))
    touched = _touched(case.network, unit)
    assert not changed[~touched].any()
    pair = gradient(replace(settled, state=moved).against(settled))
    assert not pair[~touched].any()
    biases = [c.name for c in case.network.couplings if isinstance(c, Bias)]
    spans = np.r_[tuple(case.network.blocks[name].span for name in biases)]
    assert changed[spans].sum() == touched[spans].sum() == 1


class Unnudged(NumbaBackend):
    """An execution that leaves the nudge out."""

    def _relax_one(self, clamped, beta, relaxation, start):  # type: ignore[no-untyped-def]
        return super()._relax_one(clamped, 0.0, relaxation, start)

    _relax = Backend._relax  # one after the other, each by the above


def _couplings_gradient(backend: Backend, case: Case, y: FloatArray, estimator: Estimator) -> float:
    gradient = np.zeros(case.network.size)
    estimate(backend, backend.clamp(case.x, y), estimator, gradient, TIGHT, TIGHT)
    parts = Params(case.network, gradient)
    return max(float(np.abs(parts[c.name]).max()) for c in case.network.couplings)


@MANY
@given(cases())
def test_without_the_nudge_the_couplings_have_no_gradient(case: Case) -> None:
    backend = Unnudged(case.network, case.params)
    assert _couplings_gradient(backend, case, case.y, centered(0.1)) == 0.0
    assert _couplings_gradient(backend, case, case.y, four_point(0.1)) < 1e-12
    assert _couplings_gradient(backend, case, case.y, one_sided(0.1)) < 1e-9


@MANY
@given(cases(), st.sampled_from([one_sided, centered, four_point]))
def test_a_target_that_is_already_met_gives_no_gradient(case: Case, estimator: object) -> None:
    met = case.backend.predict(case.backend.settle(case.clamped, relaxation=TIGHT))
    assert _couplings_gradient(case.backend, case, met, estimator(0.1)) < 1e-8


def test_a_target_that_is_not_met_gives_one() -> None:
    """Without this the two tests above would pass with no gradient at all."""
    rng = np.random.default_rng(3)
    network = looped_mlp(3, 4, 2)
    params = random_params(network, rng, 0.5)
    x, y = rng.standard_normal((5, 3)), np.eye(2)[[0, 1, 0, 1, 1]]
    case = Case(network, params, 0.0, x, y, np.zeros((5, 4)))
    assert _couplings_gradient(case.backend, case, case.y, centered(0.1)) > 1e-2
