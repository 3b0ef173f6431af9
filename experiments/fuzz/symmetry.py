"""What has to stay the same when a network or a batch is written down in another way."""

import numpy as np

from engine.backend import Relaxation
from engine.compiled import NumbaBackend
from engine.params import Params
from experiments.fuzz.strategies import Case, cases, looped, smooth_networks, wild_cases
from experiments.fuzz.theory import theory

STEPS = Relaxation(12, 0.0)


@theory("Samples do not see each other: permuting them permutes the result.", wild_cases(high=1.5))
def samples_are_apart(case: Case) -> None:
    """A sample also settles as it would alone."""
    order = case.rng.permutation(len(case.x))
    expected = case.backend.relax(case.clamped, case.beta, STEPS, case.start).state
    for rows in (order, order[:1]):
        part = case.backend.clamp(case.x[rows], case.y[rows])
        found = case.backend.relax(part, case.beta, STEPS, case.start[rows]).state
        np.testing.assert_allclose(found, expected[rows], rtol=0, atol=1e-9)


@theory(
    "Renaming the hidden units of a looped network renames its state.",
    wild_cases(any_network=looped(), high=1.5),
)
def units_have_no_order(case: Case) -> None:
    """Outputs are the same, states are permuted."""
    order = case.rng.permutation(case.network.units)
    params = case.params.copy()
    params["W_in"][...] = case.params["W_in"][:, order]
    params["b"][...] = case.params["b"][order]
    params["W_rec"][...] = case.params["W_rec"][np.ix_(order, order)]
    params["W_out"][...] = case.params["W_out"][order]
    renamed = NumbaBackend(case.network, params)
    plain = case.backend.relax(case.clamped, case.beta, STEPS)
    found = renamed.relax(renamed.clamp(case.x, case.y), case.beta, STEPS)
    np.testing.assert_allclose(found.state, plain.state[:, order], rtol=0, atol=1e-9)
    expected = case.backend.predict(plain)
    np.testing.assert_allclose(renamed.predict(found), expected, rtol=0, atol=1e-9)


@theory(
    "A tanh network has no preferred sign: opposite inputs and biases give opposite states.",
    wild_cases(any_network=smooth_networks(), high=1.5),
)
def tanh_is_odd(case: Case) -> None:
    """Of the free phase; a cost has a sign."""
    params = case.params.copy()
    for coupling in case.network.couplings:
        if params[coupling.name].ndim == 1:
            params[coupling.name][...] *= -1.0
    mirrored = NumbaBackend(case.network, params)
    plain = case.backend.relax(case.clamped, 0.0, STEPS, case.start).state
    found = mirrored.relax(mirrored.clamp(-case.x), 0.0, STEPS, -case.start).state
    np.testing.assert_allclose(found, -plain, rtol=0, atol=1e-9)


@theory("Precision changes the last digits and nothing else.", cases(dtype=np.float32))
def single_is_close_to_double(case: Case) -> None:
    """The same steps in double, from the same numbers."""
    double = NumbaBackend(case.network, Params(case.network, case.params.theta.astype(np.float64)))
    found = case.backend.relax(case.clamped, case.beta, STEPS, case.start).state
    expected = double.relax(double.clamp(case.x, case.y), case.beta, STEPS, case.start).state
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
