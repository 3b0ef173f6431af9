"""Attention as an energy: what theory says of its drive, its masks and its local rule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.runtime import _nrt_python, rtsys

from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.compiled.functions import exponentials
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.readout import SquaredError
from engine.couplings.tokens import Embedding, TokenReadout
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.run import Run
from engine.learning.training import Training, train_step
from engine.model import dynamics
from engine.model.builders import energy_transformer
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from experiments.fuzz.strategies import (
    Case,
    attention_bound,
    cases,
    random_params,
    random_states,
    transformers,
)

SEEDS = st.integers(0, 2**32 - 1)


def _attention(network: Network) -> Attention:
    return next(c for c in network.couplings if isinstance(c, Attention))


def _drawn(network: Network, seed: int) -> tuple[Params, FloatArray, FloatArray]:
    """Parameters of order one, inputs that nothing here reads, and states."""
    rng = np.random.default_rng(seed)
    params = Params(network, rng.normal(0.0, 0.7, network.size))
    states = network.of("tokens", random_states(network, rng, 3))
    return params, np.zeros((3, network.inputs)), states


def _tokens(network: Network) -> int:
    return network.shapes["tokens"][0]


@given(transformers(), SEEDS)
def test_probabilities_sum_to_one_where_a_token_sees_any(network: Network, seed: int) -> None:
    params, _, s = _drawn(network, seed)
    attention = _attention(network)
    p = attention.probabilities(params[attention.name], s)
    allowed = attention.allowed(_tokens(network))
    assert (p[..., allowed == 0] == 0.0).all()
    np.testing.assert_allclose(p.sum(-1) - allowed.max(-1), 0.0, atol=1e-12)


@given(transformers(), SEEDS)
def test_under_a_causal_mask_a_token_attends_without_looking_ahead(
    network: Network, seed: int
) -> None:
    attention = replace(_attention(network), causal=True)
    params, _, s = _drawn(network, seed)
    moved = s.copy()
    moved[:, -1] = 0.9
    before, after = (attention.probabilities(params["attention"], state) for state in (s, moved))
    np.testing.assert_allclose(after[..., :-1, :], before[..., :-1, :], rtol=0, atol=1e-14)


@given(transformers(), SEEDS, st.data())
def test_without_a_bias_tokens_may_change_places(
    network: Network, seed: int, data: st.DataObject
) -> None:
    attention = replace(_attention(network), causal=False)
    order = data.draw(st.permutations(range(_tokens(network))))
    params, x, s = _drawn(network, seed)
    attention.split(params["attention"], _tokens(network)).bias[...] = 0.0
    (drive,) = attention.drive(params["attention"], x, s)
    (found,) = attention.drive(params["attention"], x, s[:, order])
    expected = drive.reshape(s.shape)[:, order]
    np.testing.assert_allclose(found.reshape(s.shape), expected, rtol=0, atol=1e-12)


@given(transformers(), SEEDS)
def test_a_bias_for_all_that_a_token_sees_is_none(network: Network, seed: int) -> None:
    attention = _attention(network)
    params, x, s = _drawn(network, seed)
    (before,) = attention.drive(params["attention"], x, s)
    attention.split(params["attention"], _tokens(network)).bias[:, 0, :] += 3.0
    (after,) = attention.drive(params["attention"], x, s)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-12)


@given(transformers(), SEEDS)
def test_the_drive_changes_no_faster_than_its_bound(network: Network, seed: int) -> None:
    params, x, s = _drawn(network, seed)
    other = network.of("tokens", random_states(network, np.random.default_rng(seed + 1), 3))
    for coupling in network.recurrent:
        w = params[coupling.name]
        (one,), (two,) = coupling.drive(w, x, s), coupling.drive(w, x, other)
        bound = sum(attention_bound(coupling, w, _tokens(network)))
        far = np.linalg.norm((two - one).reshape(3, -1), axis=1)
        near = np.linalg.norm((other - s).reshape(3, -1), axis=1)
        assert (far <= bound * near * (1 + 1e-9) + 1e-12).all()


@given(transformers(), SEEDS)
def test_a_head_learns_without_knowing_the_other(network: Network, seed: int) -> None:
    attention = replace(_attention(network), heads=2)
    tokens, width = network.shapes["tokens"]
    rng = np.random.default_rng(seed)
    w = rng.normal(0.0, 0.7, attention.shape(network.shapes))
    s = network.of("tokens", random_states(network, rng, 3))
    before = attention.split(attention.correlate(w, np.zeros((3, 1)), s), tokens)
    for part in attention.split(w, tokens):
        part[1] += 0.5
    after = attention.split(attention.correlate(w, np.zeros((3, 1)), s), tokens)
    assert before.query.shape == (2, attention.head_size, width)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(new[0], old[0], rtol=0, atol=1e-13)
    assert np.abs(after.query[1] - before.query[1]).max() > 0.0


@given(transformers(), SEEDS)
def test_a_synapse_measures_what_arrives_times_what_is_there(network: Network, seed: int) -> None:
    """A query synapse sees `m`, all that reaches its query, and the state of its other end."""
    attention = _attention(network)
    params, x, s = _drawn(network, seed)
    w = params["attention"]
    p = attention.probabilities(w, s)
    heads, g = attention.split(w, _tokens(network)), s
    q, k = (np.einsum("hac,bic->bhia", matrix, g) for matrix in (heads.query, heads.key))
    found = attention.split(attention.correlate(w, x, s), _tokens(network))
    m, n = np.einsum("bhij,bhja->bhia", p, k), np.einsum("bhij,bhia->bhja", p, q)
    np.testing.assert_allclose(found.query, np.einsum("bhia,bic->hac", m, g), atol=1e-12)
    np.testing.assert_allclose(found.key, np.einsum("bhia,bic->hac", n, g), atol=1e-12)
    np.testing.assert_allclose(found.bias, p.sum(0) / attention.sharpness, atol=1e-12)


@given(cases(transformers(), low=0.3, high=0.9))
def test_compiled_attention_is_that_of_the_formulas(case: Case) -> None:
    drive = dynamics.clamped_drive(case.network, case.params, case.x)
    args = (case.network, case.params, case.x, case.y, case.start, 0.3, drive)
    way = Relaxation(1, 0.0)
    found = case.backend.settle(case.clamped, 0.3, way, case.start)
    np.testing.assert_allclose(found.state, dynamics.step(*args), rtol=0, atol=1e-13)


class TestExponentials:
    @staticmethod
    def _exp(x: FloatArray) -> FloatArray:
        out = x.copy()
        exponentials(out)
        return out

    def test_single_precision_errs_by_less_than_three_in_ten_million(self) -> None:
        x = np.linspace(-86.9, 0.0, 500_001, dtype=np.float32)
        exact = np.exp(x.astype(np.float64))
        assert (np.abs(self._exp(x) - exact) <= 3e-7 * exact).all()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_what_a_mask_forbids_is_zero_and_a_nan_stays(self, dtype: type) -> None:
        found = self._exp(np.array([0.0, -1e9, -3e38, np.nan], dtype))
        assert found[0] == 1.0
        assert (found[1:3] == 0.0).all()
        assert np.isnan(found[3])


@pytest.mark.parametrize("tolerance", [0.0, 1e-3], ids=["moving", "settling"])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_a_step_allocates_nothing(beta: float, tolerance: float) -> None:
    network = energy_transformer(4, 3, 6, memories=2)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    x = np.random.default_rng(1).integers(4, size=(9, 3))
    clamped = backend.clamp(x, network.readout.targets(x))
    was_counting = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        counts = []
        for steps in (1, 1, 10, 300):
            before = rtsys.get_allocation_stats().alloc
            backend.settle(clamped, beta, Relaxation(steps, tolerance, damping=0.5))
            counts.append(rtsys.get_allocation_stats().alloc - before)
    finally:
        if not was_counting:
            _nrt_python.memsys_disable_stats()
    assert counts[1] == counts[2] == counts[3]


def test_parameters_of_a_block_decay_at_their_own_rates() -> None:
    network = energy_transformer(4, 3, 6)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    rng = np.random.default_rng(1)
    x = rng.integers(4, size=(5, 3)).astype(np.float64)
    y = network.readout.targets(x.astype(int), np.float64)
    span = network.blocks["attention"].span
    rates = rng.uniform(0, 5, span.stop - span.start)
    thetas = []
    for decay in ({}, {"attention": rates}):
        backend = NumbaBackend(network, params)
        run = Run.start(network, 2, np.float64, 0)
        training = Training(beta=0.1, cap=None, schedule="constant", decay=decay)
        train_step(backend, x, y, training, run, 1)
        thetas.append(backend.params.theta)
    shrunk = np.zeros(network.size)
    shrunk[span] = training.optimizer.lr * rates * params.theta[span]
    np.testing.assert_allclose(thetas[0] - thetas[1], shrunk, rtol=0, atol=1e-12)


def test_a_training_step_begins_where_it_is_told() -> None:
    network = energy_transformer(4, 3, 6)
    params = random_params(network, np.random.default_rng(0), 0.5)
    x = np.zeros((2, 3))
    y = network.readout.targets(np.zeros((2, 3), int), np.float64)
    training = Training(beta=0.1, cap=None, free=Relaxation(1, 0.0), nudged=Relaxation(1, 0.0))
    costs = []
    for start in (None, np.full((2, network.units), 0.9)):
        run = Run.start(network, 2, np.float64, 0)
        backend = NumbaBackend(network, params)
        costs.append(train_step(backend, x, y, training, run, 1, start=start).cost)
    assert abs(costs[0] - costs[1]) > 1e-3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sharpness": 0.0}, "sharpness is 0.0, expected a positive number"),
        ({"heads": 0}, "heads is 0, expected at least 1"),
        ({"length": 1}, "attention 'attention' lets no token see another"),
        ({"memories": -1}, "memories is -1, expected at least 1"),
        ({"vocabulary": 0}, "vocabulary is 0, expected at least 1"),
    ],
)
def test_a_transformer_that_makes_no_sense_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        energy_transformer(**({"vocabulary": 3, "length": 4} | settings))


def test_a_coupling_with_other_forms_never_runs_as_its_parent() -> None:
    class Sharper(Attention):
        def drive(self, w, x, *states):  # type: ignore[no-untyped-def]
            return tuple(2 * part for part in super().drive(w, x, *states))

    network = Network(
        4, (Layer("tokens", (4, 2)),), (Sharper("A", "tokens"),), SquaredError("tokens")
    )
    with pytest.raises(EngineError, match=r"coupling 'A' \(Sharper\) has no compiled kernel"):
        NumbaBackend(network, Params(network, np.zeros(network.size)))


def test_a_layer_that_has_no_tokens_is_refused() -> None:
    flat, tokens = Layer("tokens", (8,)), Layer("tokens", (4, 2))
    for coupling in (
        Attention("A", "tokens"),
        Hopfield("M", "tokens", 2),
        Embedding("E", "tokens", 3),
    ):
        with pytest.raises(EngineError, match=r"reads tokens, but its layer has shape \(8,\)"):
            Network(4, (flat,), (coupling,), SquaredError("tokens"))
    with pytest.raises(EngineError, match=r"the read-out reads tokens, but .* shape \(8,\)"):
        Network(4, (flat,), (), TokenReadout("tokens", 3))
    with pytest.raises(EngineError, match="embedding 'E' feeds 4 tokens, but the input has 3"):
        Network(3, (tokens,), (Embedding("E", "tokens", 3),), SquaredError("tokens"))
