"""What has to stay the same when a network or a batch is written down in another way."""

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Equilibrium, Relaxation
from engine.model.network import Network
from engine.model.params import Params
from experiments.fuzz.phases import around, assert_same
from experiments.fuzz.strategies import Case, cases, looped, smooth_networks, wild_cases
from experiments.fuzz.theory import theory

STEPS = Relaxation(12, 0.0)


@theory(
    "Samples do not see each other: permuting them permutes the result.",
    wild_cases(high=1.5) | wild_cases(high=1.5, dtype=np.float32),
)
def samples_are_apart(case: Case) -> None:
    """Bit for bit, alone and in any order, though the others settle at other times."""
    order = case.rng.permutation(len(case.x))
    for solver in case.solvers:
        way = Relaxation(30, 1e-4, solver)
        settled = case.backend.settle(case.clamped, 0.0, way).state
        start = np.where(np.arange(len(case.x))[:, None] % 2, case.start, settled)
        expected = _phases(case, np.arange(len(case.x)), way, start)
        for rows in (order, order[:1], order[1:]):
            if len(rows) == 0:
                continue
            for found, whole in zip(_phases(case, rows, way, start), expected, strict=True):
                assert_same(found, whole, rows)


def _phases(case: Case, rows: IntArray, way: Relaxation, start: FloatArray) -> list[Equilibrium]:
    """Relax some samples under the nudge of the case, and then in three phases together."""
    part, begin = case.backend.clamp(case.x[rows], case.y[rows]), start[rows]
    alone = case.backend.settle(part, case.beta, way, begin)
    return [alone, *case.backend.relax(part, around(0.1, way, way), begin)]


@theory(
    "A softmax does not see what all its logits share, nor attention what all its scores do.",
    cases(high=0.8),
)
def softmax_is_relative(case: Case) -> None:
    """By more than an exponential can hold, up and down."""
    if not _softmaxes(case.network):
        return
    expected = _outcome(case, case.params)
    for shift in (800.0, -800.0):
        params = case.params.copy()
        params["b_out"][...] += shift
        for coupling in case.network.recurrent:
            if hasattr(coupling, "split"):  # it has scores, with a bias of their own
                tokens = case.network.shapes[coupling.layers[0]][0]
                coupling.split(params[coupling.name], tokens).bias[...] += shift
        for found, plain in zip(_outcome(case, params), expected, strict=True):
            np.testing.assert_allclose(found, plain, rtol=0, atol=1e-9)


@theory(
    "A softmax whose logits are thousands apart is sure of one class, and finite.",
    cases(high=0.8),
)
def sure_softmax_is_finite(case: Case) -> None:
    """The cost is then how far the logits of the targets are below the largest."""
    tokens = _softmaxes(case.network)
    if not tokens:
        return
    classes = case.network.outputs // tokens
    params, gaps = case.params.copy(), 4096.0 * np.arange(classes)
    params["W_out"][...] = 0.0
    params["b_out"][...] = -gaps
    _, outputs, costs, total = _outcome(case, params)
    sure, targets = np.eye(classes)[0], case.y.reshape(len(case.x), tokens, -1)
    np.testing.assert_array_equal(outputs, np.tile(sure, (len(case.x), tokens)))
    np.testing.assert_allclose(costs, (targets @ gaps).sum(1), rtol=1e-12)
    learned = Params(case.network, total)["b_out"]
    np.testing.assert_allclose(learned, (sure - targets).sum((0, 1)), rtol=0, atol=1e-12)


def _outcome(case: Case, params: Params) -> tuple[FloatArray, ...]:
    """Return a nudged state, what is read from it, its cost, and how the read-out learns."""
    backend = type(case.backend)(case.network, params)
    clamped, total = backend.clamp(case.x, case.y), np.zeros(case.network.size)
    ended = backend.settle(clamped, 0.1, STEPS, case.start)
    backend.accumulate(clamped, ended, total, cost=1.0)
    return ended.state, backend.predict(ended), backend.cost(clamped, ended), total


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
    plain = case.backend.settle(case.clamped, case.beta, STEPS)
    found = renamed.settle(renamed.clamp(case.x, case.y), case.beta, STEPS)
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
    plain = case.backend.settle(case.clamped, 0.0, STEPS, case.start).state
    found = mirrored.settle(mirrored.clamp(-case.x), 0.0, STEPS, -case.start).state
    np.testing.assert_allclose(found, -plain, rtol=0, atol=1e-9)


@theory("Precision changes the last digits and nothing else.", cases(dtype=np.float32))
def single_is_close_to_double(case: Case) -> None:
    """The same steps in double, from the same numbers."""
    double = NumbaBackend(case.network, Params(case.network, case.params.theta.astype(np.float64)))
    found = case.backend.settle(case.clamped, case.beta, STEPS, case.start).state
    expected = double.settle(double.clamp(case.x, case.y), case.beta, STEPS, case.start).state
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def _softmaxes(network: Network) -> int:
    """Number of softmaxes that the read-out has."""
    return network.reading.positions if network.reading else 0
