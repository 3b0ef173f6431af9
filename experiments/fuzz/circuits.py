"""What theory says of circuits: networks of conductances."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from adapters.torch_backend import TorchBackend
from engine.arrays import FloatArray
from engine.equilibrium import Relaxation
from engine.learning.optimizer import SGD
from engine.learning.training import Training, fit
from engine.model import dynamics
from engine.model.builders import resistive
from engine.model.network import Network
from engine.model.params import Params, initial_params
from experiments.fuzz.strategies import (
    BETAS,
    SIZES,
    Case,
    random_inputs,
    random_states,
    random_targets,
)
from experiments.fuzz.theory import theory
from golden.reference import ReferenceBackend

SETTLED = Relaxation(20_000, 1e-12, "sweeps")
NEAR = 1e-7
"""How far apart relaxations may end that stop at residuals of `SETTLED`: those of a circuit whose
conductances are large shrink slowly."""


@st.composite
def circuits(draw: st.DrawFn) -> Network:
    """Circuits of up to three layers of hidden nodes, with amplifiers or without."""
    sizes = draw(st.lists(SIZES, min_size=3, max_size=5))
    gains = st.sampled_from([0.5, 1.0, 2.0])
    return resistive(sizes, input_amplification=draw(gains), amplification=draw(gains))


@st.composite
def circuit_cases(
    draw: st.DrawFn, dtype: type = np.float64, betas: Sequence[float] = BETAS
) -> Case:
    """Draw a circuit whose conductances differ by powers of ten, some of them at their least."""
    network, seed = draw(circuits()), draw(st.integers(0, 2**32 - 1))
    rng, samples = np.random.default_rng(seed), draw(st.integers(1, 6))
    params = initial_params(network, rng, dtype)
    for name, block in params.items():
        if name in network.squares:
            block *= 10.0 ** rng.uniform(-2.0, draw(st.sampled_from([0.0, 2.0])), block.shape)
            block[rng.random(block.shape) < 0.2] = network.squares[name].g_min
        else:
            block[...] = rng.normal(0.0, 0.5, block.shape)
    x: FloatArray = random_inputs(network, rng, samples).astype(dtype)
    y: FloatArray = random_targets(network, rng, samples).astype(dtype)
    start: FloatArray = random_states(network, rng, samples).astype(dtype)
    beta = draw(st.sampled_from(betas))
    return Case(network, params, 0.0, x, y, start, beta, seed)


@theory(
    "A sweep through a circuit never raises its energy, however large the conductances are.",
    circuit_cases(betas=(0.0, 0.5)),
)
def circuits_descend(case: Case) -> None:
    """A layer without resistors inside goes to the minimum in all its nodes at once."""
    state, before = case.start, total_energy(case, case.start)
    for _ in range(8):
        way = Relaxation(1, 0.0, "sweeps")
        state = case.backend.settle(case.clamped, case.beta, way, state).state
        after = total_energy(case, state)
        assert (after <= before + 1e-12 * (1 + np.abs(before))).all()
        before = after


@theory("A circuit has one equilibrium, whatever it starts from.", circuit_cases())
def circuits_have_one_equilibrium(case: Case) -> None:
    """Its energy is convex, without any cap."""
    expected = case.backend.settle(case.clamped, case.beta, SETTLED)
    assert expected.converged.all(), expected.summary()
    for start in (case.start, np.zeros_like(case.start), 10 * case.start):
        found = case.backend.settle(case.clamped, case.beta, SETTLED, start)
        assert found.converged.all(), found.summary()
        np.testing.assert_allclose(found.state, expected.state, rtol=0, atol=NEAR)


@theory(
    "Every backend finds the same voltages with the same number of steps.",
    circuit_cases() | circuit_cases(dtype=np.float32),
)
def circuits_agree(case: Case) -> None:
    """The compiled kernels against torch and against the scalar reference."""
    error = 1e-4 if case.params.theta.dtype == np.float32 else 1e-10
    for other in (
        TorchBackend(case.network, case.params, "cpu"),
        ReferenceBackend(case.network, case.params),
    ):
        for displaced in (False, True):
            way = Relaxation(20, 0.0, "sweeps", displaced=displaced)
            expected = case.backend.settle(case.clamped, case.beta, way, case.start)
            clamped = other.clamp(case.x, case.y)
            found = other.settle(clamped, case.beta, way, case.start)
            np.testing.assert_allclose(found.state, expected.state, rtol=1e-4, atol=error)


@theory(
    "No update takes a conductance below the least there is, and none is written twice.",
    circuit_cases(dtype=np.float32) | circuit_cases(),
)
def conductances_stay(case: Case) -> None:
    """Rates so high that most of them would turn negative."""
    for rate in (0.1, 10.0, 1000.0):
        backend = type(case.backend)(case.network, case.params)
        fit(backend, case.x, case.y, Training(epochs=1, batch_size=2, optimizer=SGD(rate)))
        held: Params = backend.params
        for name, squares in case.network.squares.items():
            assert held[name].min() >= held.theta.dtype.type(squares.g_min)


def total_energy(case: Case, state: FloatArray) -> FloatArray:
    """Return `F`, the energy with the nudge, `(samples,)`."""
    energy = dynamics.energy(case.network, case.params, case.x, state)
    cost = dynamics.cost(case.network, case.params, state, case.y)
    total: FloatArray = energy + case.beta * cost
    return total
