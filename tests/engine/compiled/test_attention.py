"""The kernels of tokens against the formulas, in sizes quick enough without the compiler."""

from dataclasses import replace

import numpy as np
import pytest

from engine.arrays import FloatArray
from engine.compiled import attention as kernels
from engine.compiled.backend import NumbaBackend
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.tokens import TokenReadout
from engine.equilibrium import Relaxation
from engine.errors import DivergenceError
from engine.model import dynamics
from engine.model.builders import energy_transformer
from engine.model.network import Network
from engine.model.params import Params

SIZES = (1, 3, 4, 5, 8, 9)
"""Below, at and above the four terms that a kernel adds at a time."""
NETWORKS = {
    "plain": energy_transformer(5, 3, width=4, heads=2, head_size=2),
    "five": energy_transformer(4, 5, width=3, heads=1, head_size=5, sees_itself=True),
    "eight": energy_transformer(3, 8, width=2, heads=2, head_size=4, causal=True),
    "nine": energy_transformer(3, 9, width=2, heads=1, head_size=9),
    "memories": energy_transformer(4, 3, width=4, memories=5, sharpness=1.7, outputs=2),
    "alone": energy_transformer(3, 1, width=2, heads=1, head_size=2, sees_itself=True, memories=1),
    "many outputs": energy_transformer(4, 2, width=3, memories=2, outputs=20),
}
TYPES = [np.float32, np.float64]
EXACT = {np.float32: 3e-6, np.float64: 1e-13}


def _drawn(network: Network, dtype: type, samples: int = 4) -> tuple[NumbaBackend, FloatArray]:
    """A backend with parameters of order one, and states."""
    rng = np.random.default_rng(3)
    params = Params(network, rng.normal(0.0, 0.5, network.size).astype(dtype))
    return NumbaBackend(network, params), rng.uniform(-0.9, 0.9, (samples, network.units))


def _batch(network: Network, samples: int = 4) -> tuple[FloatArray, FloatArray]:
    rng, readout = np.random.default_rng(4), network.readout
    assert isinstance(readout, TokenReadout)
    tokens = rng.integers(network.vocabulary, size=(samples, network.inputs)).astype(float)
    labels = rng.integers(readout.outputs, size=(samples, network.inputs))
    return tokens, readout.targets(labels, np.float64)


def _image(params: Params, x: FloatArray, y: FloatArray, s: FloatArray, beta: float) -> FloatArray:
    """`T(s)` by the formulas."""
    drive = dynamics.clamped_drive(params.network, params, x)
    return dynamics.step(params.network, params, x, y, s, beta, drive)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("beta", [0.0, 0.4, -0.2, 1.0])
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_step_is_that_of_the_formulas(network: Network, beta: float, dtype: type) -> None:
    backend, start = _drawn(network, dtype)
    x, y = _batch(network)
    clamped, exact = backend.clamp(x, y), backend.params.astype(np.float64)
    found = backend.settle(clamped, beta, Relaxation(1, 0.0), start)
    expected = _image(exact, x, y, start.astype(dtype).astype(float), beta)
    np.testing.assert_allclose(found.state, expected, rtol=0, atol=EXACT[dtype])
    gap = np.abs(expected - start).max(-1)
    np.testing.assert_allclose(found.residual, gap, rtol=0, atol=2 * EXACT[dtype])


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_damped_step_goes_part_of_the_way(network: Network) -> None:
    backend, start = _drawn(network, np.float64)
    x, y = _batch(network)
    found = backend.settle(backend.clamp(x, y), 0.0, Relaxation(1, 0.0, damping=0.3), start)
    image = _image(backend.params, x, y, start, 0.0)
    np.testing.assert_allclose(found.state, 0.7 * start + 0.3 * image, rtol=0, atol=1e-13)


@pytest.mark.parametrize("damping", [1.0, 0.6])
@pytest.mark.parametrize("tolerance", [0.0, 1e-2, 1e-1, 0.3])
@pytest.mark.parametrize("name", ["plain", "five", "memories"])
def test_a_sample_does_not_see_the_others_come_and_go(
    name: str, tolerance: float, damping: float
) -> None:
    """Samples settle at different steps: each ends as it would alone."""
    network = NETWORKS[name]
    backend, start = _drawn(network, np.float64, samples=7)
    x, y = _batch(network, samples=7)
    start[2] = start[5] = 0.0
    way = Relaxation(12, tolerance, damping=damping)
    together = backend.settle(backend.clamp(x, y), 0.1, way, start)
    for k in range(7):
        alone = backend.settle(
            backend.clamp(x[k : k + 1], y[k : k + 1]), 0.1, way, start[k : k + 1]
        )
        assert together.steps[k] == alone.steps[0]
        assert together.converged[k] == alone.converged[0]
        np.testing.assert_allclose(together.state[k], alone.state[0], rtol=0, atol=1e-13)
        np.testing.assert_allclose(together.residual[k], alone.residual[0], rtol=0, atol=1e-13)
    if tolerance == 1e-1:
        assert len(set(together.steps)) > 1  # or nothing was tested


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_the_local_rule_is_that_of_the_formulas(network: Network, dtype: type) -> None:
    backend, state = _drawn(network, dtype)
    attention = next(c for c in network.couplings if isinstance(c, Attention))
    x, y = _batch(network)
    equilibrium = backend.settle(backend.clamp(x, y), 0.0, Relaxation(1, 10.0), state)
    np.testing.assert_array_equal(equilibrium.state, state.astype(dtype))
    gradient = np.zeros(network.size, dtype)
    backend.accumulate(backend.clamp(x, y), equilibrium, gradient, energy=2.0, cost=0.0)
    w = backend.params[attention.name].astype(np.float64)
    tokens = network.of(attention.layer, equilibrium.state.astype(np.float64))
    expected = -2.0 * attention.correlate(w, x, tokens)
    found = Params(network, gradient)[attention.name]
    np.testing.assert_allclose(found, expected, rtol=0, atol=40 * EXACT[dtype])


@pytest.mark.parametrize("tokens", SIZES)
@pytest.mark.parametrize("size", SIZES)
def test_scores_and_messages_are_their_sums(size: int, tokens: int) -> None:
    rng, rows = np.random.default_rng(5), 3
    query, key = rng.standard_normal((2, size, tokens, rows))
    odds = np.full((tokens, tokens, rows), np.nan)
    kernels._score(odds, query, key)
    np.testing.assert_allclose(odds, np.einsum("aib,ajb->ijb", query, key), atol=1e-13)
    before = rng.standard_normal((2, size, tokens, rows))
    to_query, to_key = before.copy()
    kernels._send(odds, query, key, to_query, to_key)
    np.testing.assert_allclose(
        to_query, before[0] + np.einsum("ijb,ajb->aib", odds, key), atol=1e-12
    )
    np.testing.assert_allclose(
        to_key, before[1] + np.einsum("ijb,aib->ajb", odds, query), atol=1e-12
    )


@pytest.mark.parametrize("unit", [0, 5, 11])
def test_a_nan_in_any_unit_stops_at_once_and_names_its_sample(unit: int) -> None:
    backend, start = _drawn(NETWORKS["plain"], np.float64)
    clamped = backend.clamp(*_batch(backend.network))
    drive = clamped.drive.copy()
    drive[2, unit] = np.nan
    spoiled = replace(clamped, drive=drive)
    object.__setattr__(spoiled, "owner", backend)
    with pytest.raises(DivergenceError, match=r"sample 2 stopped .* at step 1 "):
        backend.settle(spoiled, 0.0, Relaxation(50, 0.0), start)


def test_a_free_phase_needs_no_targets() -> None:
    backend, start = _drawn(NETWORKS["plain"], np.float64)
    x, y = _batch(backend.network)
    way = Relaxation(5, 0.0)
    free = backend.settle(backend.clamp(x), 0.0, way, start)
    told = backend.settle(backend.clamp(x, y), 0.0, way, start)
    np.testing.assert_array_equal(free.state, told.state)


@pytest.mark.parametrize("dtype", TYPES)
def test_an_equilibrium_that_is_exact_has_no_residual_at_all(dtype: type) -> None:
    network = NETWORKS["plain"]
    backend = NumbaBackend(network, Params(network, np.zeros(network.size, dtype)))
    found = backend.settle(backend.clamp(_batch(network)[0]), 0.0, Relaxation(3, 0.0))
    assert (found.residual == 0.0).all()
    assert found.converged.all()
    assert (found.steps == 1).all()


@pytest.mark.parametrize("sharpness", [0.5, 3.0])
def test_memories_are_recalled_with_their_own_sharpness(sharpness: float) -> None:
    plain = energy_transformer(4, 3, 6, memories=5)
    couplings = tuple(
        replace(c, sharpness=sharpness) if isinstance(c, Hopfield) else c for c in plain.couplings
    )
    network = replace(plain, couplings=couplings)
    params = Params(network, np.random.default_rng(0).normal(0.0, 0.5, network.size))
    backend, rng = NumbaBackend(network, params), np.random.default_rng(1)
    x, start = rng.integers(4, size=(3, 3)).astype(float), rng.uniform(-0.9, 0.9, (3, 18))
    found = backend.settle(backend.clamp(x), relaxation=Relaxation(1, 0.0), start=start)
    drive = dynamics.clamped_drive(network, params, x)
    expected = dynamics.step(network, params, x, None, start, 0.0, drive)
    np.testing.assert_allclose(found.state, expected, rtol=0, atol=1e-12)
