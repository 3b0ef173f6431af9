"""The spectral cap: a projection that is exact, and a power iteration that is close."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.link import Link
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.optimizer import SGD, Adam, Optimizer
from engine.learning.run import Run
from engine.learning.spectral import (
    NEAR,
    ROOM,
    Method,
    SpectralCap,
    clip_norm,
    first_iterations,
    has_cap,
    layer_radius,
    recurrent_matrix,
    recurrent_norm,
    scale_norm,
    starting_vectors,
)
from engine.learning.training import Training, train_step
from engine.model import dynamics
from engine.model.builders import conv_net, energy_transformer, layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from experiments.fuzz.strategies import quadratic_networks, random_params

MANY = settings(max_examples=100)
SEEDS = st.integers(0, 2**32 - 1)
MIXED = Network(
    4,
    (Layer("a", (5,)), Layer("b", (3,)), Layer("c", (4,))),
    (
        InputDrive("W_in", "a"),
        Lateral("aa", "a"),
        Dense("ab", "a", "b"),
        Dense("bc", "b", "c"),
        Dense("ca", "c", "a"),
        Bias("bias", "b"),
    ),
    SoftmaxReadout("c", 3),
)
ANY = quadratic_networks() | st.just(MIXED)


def _link(matrix: FloatArray) -> Link:
    """The link of a plain matrix."""
    rows, columns = matrix.shape
    return Link("W", "a", "b", rows, np.arange(rows)[None], columns)


@MANY
@given(ANY, SEEDS)
def test_the_recurrent_matrix_is_the_slope_of_the_drive(network: Network, seed: int) -> None:
    params = random_params(network, np.random.default_rng(seed), 0.7)
    one_by_one = np.eye(network.units)
    x = np.zeros((network.units, network.inputs))
    drive = dynamics.recurrent_drive(network, params, x, one_by_one)
    np.testing.assert_allclose(recurrent_matrix(params), drive, rtol=0, atol=1e-15)
    assert abs(recurrent_norm(params) - np.linalg.norm(drive, 2)) < 1e-12


@MANY
@given(ANY, SEEDS, st.floats(0.1, 0.99))
def test_blocks_within_their_share_make_a_matrix_under_the_cap(
    network: Network, seed: int, cap: float
) -> None:
    rng = np.random.default_rng(seed)
    params = Params(network, np.zeros(network.size))
    share = cap / layer_radius(network)
    for coupling in network.recurrent:
        block = rng.standard_normal(network.blocks[coupling.name].shape)
        block = block + block.T if isinstance(coupling, Lateral) else block
        params[coupling.name][...] = block * share / np.linalg.norm(block, 2)
    assert recurrent_norm(params) <= cap + 1e-12


def test_the_share_of_a_block_is_not_wasted() -> None:
    assert layer_radius(looped_mlp(3, 4, 2)) == 1.0
    assert layer_radius(layered((3, 4, 2))) == 1.0
    assert layer_radius(layered((3, 4, 5, 2))) == 1.0
    assert abs(layer_radius(layered((3, 4, 5, 6, 2))) - np.sqrt(2)) < 1e-12
    ring = (Lateral("aa", "a"), Dense("ab", "a", "b"), Dense("bc", "b", "c"), Dense("ac", "a", "c"))
    triangle = Network(1, MIXED.layers, ring, SoftmaxReadout("c", 3))
    assert abs(layer_radius(triangle) - (1 + np.sqrt(2))) < 1e-12
    ones = Params(layered((1, 1, 1, 1, 1)), np.ones(layered((1, 1, 1, 1, 1)).size))
    assert abs(recurrent_norm(ones) - np.sqrt(2)) < 1e-12


def _batches(network: Network, count: int) -> list[tuple[FloatArray, FloatArray]]:
    rng = np.random.default_rng(4)
    return [
        (
            rng.standard_normal((8, network.inputs)),
            np.eye(network.outputs)[rng.integers(network.outputs, size=8)],
        )
        for _ in range(count)
    ]


def _norms_in_training(network: Network, training: Training, dtype: type) -> list[float]:
    """Norms after each step of a training so fast that the cap binds."""
    params = initial_params(network, np.random.default_rng(0), dtype)
    backend = NumbaBackend(network, params)
    run = Run.start(network, training.optimizer.moments, dtype, seed=0)
    norms = []
    for x, y in _batches(network, 40):
        train_step(backend, x, y, training, run, total=40)
        norms.append(recurrent_norm(backend.params))
        backend.params.check()
    return norms


TRAINED = [looped_mlp(6, 20, 4), layered((6, 12, 10, 4)), layered((6, 9, 8, 7, 4)), MIXED]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("network", TRAINED, ids=["looped", "two", "three", "mixed"])
@pytest.mark.parametrize("cap", [0.6, 0.95])
def test_after_every_training_step_the_norm_is_under_the_cap(
    network: Network, cap: float, dtype: type
) -> None:
    closely = {"free": Relaxation(), "nudged": Relaxation(max_steps=15)}
    fast = {"optimizer": SGD(lr=20.0), "schedule": "constant", "beta": 0.02, **closely}
    norms = _norms_in_training(network, Training(cap=SpectralCap(cap), **fast), dtype)
    assert max(norms) <= cap + 1e-6
    uncapped = _norms_in_training(network, Training(cap=None, **fast), dtype)
    assert max(uncapped) > cap + 0.1


@pytest.mark.parametrize("network", TRAINED[:2], ids=["looped", "two"])
def test_a_watched_norm_exceeds_a_binding_cap_by_little(network: Network) -> None:
    """And projections are rare: that is what it is for."""
    settings = {"beta": 0.02, "schedule": "constant"}
    norms = _norms_in_training(
        network, Training(cap=SpectralCap(0.3, method="watched"), **settings), np.float64
    )
    assert max(norms) <= 0.3 * 1.01
    assert min(norms) >= 0.3 * ROOM * 0.95
    assert np.mean(np.abs(np.array(norms) - 0.3 * ROOM) < 1e-6) < 0.5


@pytest.mark.parametrize("network", TRAINED[:2], ids=["looped", "two"])
@pytest.mark.parametrize(
    "cap", [SpectralCap(0.3, method="power"), SpectralCap(0.3, every=5)], ids=["power", "every-5"]
)
def test_between_projections_the_norm_exceeds_a_binding_cap_by_little(
    network: Network, cap: SpectralCap
) -> None:
    """Measured with Adam: 1.4 % over the cap with power iteration alone, 2.9 % with `every=5`."""
    settings = {"beta": 0.02, "schedule": "constant"}
    assert min(_norms_in_training(network, Training(cap=None, **settings), np.float64)) > 0.4
    norms = _norms_in_training(network, Training(cap=cap, **settings), np.float64)
    assert max(norms) <= 0.3 * 1.05
    assert np.mean(norms) >= 0.3 * 0.95
    if cap.method == "exact":
        assert max(norms[:: cap.every]) <= 0.3 + 1e-6


@st.composite
def _matrices(draw: st.DrawFn) -> tuple[FloatArray, bool]:
    rng, symmetric = np.random.default_rng(draw(SEEDS)), draw(st.booleans())
    rows, columns = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    matrix = rng.standard_normal((rows, rows if symmetric else columns)) * draw(st.floats(0.05, 3))
    return (matrix + matrix.T if symmetric else matrix), symmetric


@MANY
@given(_matrices(), st.floats(0.1, 0.99), st.sampled_from([np.float32, np.float64]))
def test_the_exact_cap_is_the_nearest_matrix_under_the_limit(
    drawn: tuple[FloatArray, bool], limit: float, dtype: type
) -> None:
    matrix, symmetric = drawn[0].astype(dtype), drawn[1]
    clipped = matrix.copy()
    clip_norm(clipped, limit, symmetric)
    rounding = 100 * np.finfo(dtype).eps
    assert np.linalg.norm(clipped.astype(np.float64), 2) <= limit + 1e-6
    if symmetric:
        np.testing.assert_array_equal(clipped, clipped.T)
    left, values, right = np.linalg.svd(matrix.astype(np.float64), full_matrices=False)
    nearest = left @ np.diag(np.minimum(values, limit)) @ right
    np.testing.assert_allclose(clipped, nearest, rtol=0, atol=rounding)
    again = clipped.copy()
    clip_norm(again, limit, symmetric)
    np.testing.assert_allclose(again, clipped, rtol=0, atol=rounding)


@MANY
@given(_matrices(), st.floats(0.1, 0.99), st.floats(0.0, 0.999))
def test_a_matrix_under_the_limit_is_left_bit_for_bit(
    drawn: tuple[FloatArray, bool], limit: float, share: float
) -> None:
    matrix, symmetric = drawn
    matrix *= share * limit / np.linalg.norm(matrix, 2)
    for dtype in (np.float32, np.float64):
        clipped = matrix.astype(dtype)
        clip_norm(clipped, limit, symmetric)
        np.testing.assert_array_equal(clipped, matrix.astype(dtype))
        scale_norm(_link(matrix), clipped, limit, np.ones(len(matrix)), 5)
        np.testing.assert_array_equal(clipped, matrix.astype(dtype))


def test_both_sides_of_the_spectrum_are_clipped_and_the_rest_is_kept() -> None:
    rng = np.random.default_rng(5)
    vectors = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    values = rng.uniform(-0.9, 0.9, 60)
    outside = np.array([1.3, -1.1, 0.96, -2.0, 1.3])  # one of them twice
    for kept in ((True, True), (True, False), (False, True), (False, False)):
        chosen = outside[((outside > 0) & kept[0]) | ((outside < 0) & kept[1])]
        drawn = np.r_[chosen, values[len(chosen) :]]
        matrix = (vectors * drawn) @ vectors.T
        matrix = (matrix + matrix.T) / 2
        clipped = matrix.copy()
        clip_norm(clipped, 0.95, symmetric=True)
        expected = (vectors * np.clip(drawn, -0.95, 0.95)) @ vectors.T
        np.testing.assert_allclose(clipped, expected, rtol=0, atol=1e-13)
        assert (clipped == matrix).all() == (len(chosen) == 0)


def test_no_other_matrix_under_the_limit_is_nearer() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        matrix = rng.standard_normal((4, 4))
        matrix += matrix.T
        clipped = matrix.copy()
        clip_norm(clipped, 0.9, symmetric=True)
        rival = clipped + rng.normal(0.0, 0.1, (4, 4))
        rival *= min(1.0, 0.9 / np.linalg.norm(rival, 2))
        assert np.linalg.norm(matrix - clipped) <= np.linalg.norm(matrix - rival)


def test_a_kept_vector_makes_the_power_iteration_exact_in_the_end() -> None:
    matrix = np.random.default_rng(1).standard_normal((30, 20))
    vector = np.random.default_rng(2).standard_normal(30)
    truth = np.linalg.norm(matrix, 2)
    estimates = []
    for _ in range(60):
        block = matrix.copy()
        scale_norm(_link(block), block, 0.5, vector, iterations=2)
        estimates.append(0.5 * matrix[0, 0] / block[0, 0])
    assert estimates[0] < 0.95 * truth
    assert (np.diff(estimates) > -1e-12).all()
    assert abs(estimates[-1] - truth) < 1e-4 * truth
    assert abs(np.linalg.norm(vector) - 1.0) < 1e-12


def test_a_block_of_zeros_is_left_and_its_vector_too() -> None:
    block, vector = np.zeros((3, 2)), np.ones(3)
    scale_norm(_link(block), block, 0.5, vector, 5)
    clip_norm(block, 0.5, symmetric=False)
    assert not block.any()
    np.testing.assert_array_equal(vector, 1.0)


@pytest.mark.parametrize("limit", [0.5, 1e3])
@pytest.mark.parametrize("zero", [False, True])
def test_tensors_are_scaled_as_arrays_are(limit: float, zero: bool) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    block, vector = rng.standard_normal((6, 9)) * (not zero), rng.standard_normal(6)
    tensor, direction = torch.tensor(block), torch.tensor(vector)
    for _ in range(4):
        scale_norm(_link(block), tensor, limit, direction, iterations=3)
        scale_norm(_link(block), block, limit, vector, iterations=3)
        np.testing.assert_allclose(tensor.numpy(), block, rtol=1e-12)
        np.testing.assert_allclose(direction.numpy(), vector, rtol=1e-12)


def test_there_is_a_vector_for_every_recurrent_block() -> None:
    vectors = starting_vectors(MIXED)
    assert {name: v.shape for name, v in vectors.items()} == {
        "aa": (5,),
        "ab": (5,),
        "bc": (3,),
        "ca": (4,),
    }


@pytest.mark.parametrize("cap", [0.0, 1.0, 1.5, -0.1, np.nan, np.inf])
def test_a_cap_outside_zero_to_one_is_refused(cap: float) -> None:
    with pytest.raises(EngineError, match=f"spectral cap is {cap}, expected more than 0 and less"):
        SpectralCap(cap)


def test_other_settings_of_a_cap_are_refused() -> None:
    for name in ("every", "iterations"):
        with pytest.raises(EngineError, match=f"{name} is 0, expected at least 1"):
            SpectralCap(**{name: 0})
    with pytest.raises(EngineError, match="unknown method 'svd'; known: exact, watched, power"):
        SpectralCap(method="svd")


def test_attention_has_neither_a_matrix_nor_a_cap() -> None:
    network = energy_transformer(3, 2, width=2)
    params = initial_params(network, np.random.default_rng(0))
    assert not has_cap(network)
    assert starting_vectors(network) == {}
    message = r"'attention' \(Attention\) has no spectral cap: .* its norm is not known"
    with pytest.raises(EngineError, match=message):
        recurrent_matrix(params)
    with pytest.raises(EngineError, match=message):
        SpectralCap().enforce(network, params, 0, {})


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("method", ["exact", "watched", "power"])
def test_a_cap_clips_at_its_steps_and_scales_at_the_others(method: Method, step: int) -> None:
    """Clipping leaves the eigenvalues below the cap alone; scaling shrinks all by one factor."""
    network = looped_mlp(1, 3, 2)
    params = Params(network, np.zeros(network.size))
    params["W_rec"][...] = np.diag([1.8, 0.5, -0.25])
    cap = SpectralCap(0.9, every=3, method=method, iterations=60)
    cap.enforce(network, params, step, starting_vectors(network))
    clips = method == "exact" and step in (0, 3)
    expected = [0.9, 0.5, -0.25] if clips else [0.9, 0.25, -0.125]
    if method == "watched":
        expected = [0.9 if step == 0 else 0.9 * ROOM, 0.5, -0.25]
    np.testing.assert_allclose(params["W_rec"], np.diag(expected), rtol=0, atol=1e-6)


CONV = conv_net((8, 8, 1), (4, 6, 5), 3, stride=1, activation="tanh")
"""Each pixel lies in nine windows; no layer is between two others alone, so shares are below it."""


def _operator_norms(network: Network, blocks: Params) -> list[float]:
    """The true norm of each recurrent link, from its whole matrix."""
    links = (network.links[c.name] for c in network.recurrent)
    return [float(np.linalg.norm(link.matrix(blocks[link.block]), 2)) for link in links]


def _largest_shares(cap: SpectralCap, optimizer: Optimizer, dtype: type) -> list[float]:
    """Norms of the operators over their shares, every fifth step of a training of a hundred."""
    backend = NumbaBackend(CONV, initial_params(CONV, np.random.default_rng(0), dtype))
    few = Relaxation(5, 0.0)
    training = Training(
        cap=cap, optimizer=optimizer, schedule="constant", beta=0.05, free=few, nudged=few
    )
    run, found = Run.start(CONV, training.optimizer.moments, dtype, seed=0), []
    for step, (x, y) in enumerate(_batches(CONV, 100)):
        train_step(backend, x, y, training, run, total=100)
        if step % 5 == 4:
            found.append(max(_operator_norms(CONV, backend.params)))
    return [norm * layer_radius(CONV) / cap.cap for norm in found]


@pytest.mark.parametrize(
    ("optimizer", "iterations", "share"),
    [(Adam(1e-3), 5, 1.02), (Adam(1e-2), 10, 1.05), (SGD(2.0), 10, 1.05)],
    ids=["usual", "fast", "faster"],
)
@pytest.mark.parametrize("method", ["exact", "power"])
def test_a_convolution_is_held_to_its_share_as_an_operator(
    method: Method, optimizer: Optimizer, iterations: int, share: float
) -> None:
    """And not below it, as a bound by the overlap of its windows would be: a third, here.

    While the first steps change a small block wholly, the kept vector lags: 3 % over were measured.
    Later it is off by 0.2 to 1.1 % for six starts, and at ten times the usual rate, where it lags
    all the time, by up to 3.7 % for four.
    """
    cap = SpectralCap(0.3, method=method, iterations=iterations)
    shares = _largest_shares(cap, optimizer, np.float32)
    assert max(shares[10:]) <= share
    assert 0.99 <= max(shares) <= 1.05


def test_a_cap_on_the_kernel_would_not_hold_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    for link in CONV.links.values():
        monkeypatch.setitem(link.__dict__, "spread", 1.0)  # as if no windows overlapped
    assert min(_largest_shares(SpectralCap(0.3), Adam(1e-2), np.float32)[10:]) > 1.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stride", [1, 2])
def test_the_first_step_finds_the_norm_of_an_operator(stride: int, seed: int) -> None:
    network = conv_net((10, 9, 2), (3, 4), 3, stride=stride)
    params = initial_params(network, np.random.default_rng(seed), np.float64)
    params["W_2"][...] *= 30.0
    (before,) = _operator_norms(network, params)
    SpectralCap(0.7).enforce(network, params, 0, {})  # it starts a vector of its own
    (after,) = _operator_norms(network, params)
    assert before > 0.8
    assert 0.7 * (1 - 1e-9) <= after <= 0.7 * (1 + NEAR)


@pytest.mark.parametrize(("units", "least"), [(1, 1), (100, 230), (10_000, 460)])
def test_a_random_vector_is_turned_by_as_many_steps_as_theory_says(units: int, least: int) -> None:
    assert least <= first_iterations(units) <= least + 2


def test_only_blocks_with_the_norm_of_their_link_are_clipped() -> None:
    apart = conv_net((8, 8, 1), (2, 3), 2, kernel=2, stride=2)
    assert apart.links["W_2"].positions == 9
    for network, clipped in ((MIXED, ["aa", "ab", "bc", "ca"]), (CONV, []), (apart, ["W_2"])):
        assert SpectralCap(every=2).clipped(network, 4) == clipped
        assert SpectralCap(every=2).clipped(network, 5) == []
        assert SpectralCap(method="power").clipped(network, 4) == []


@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e25])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_norm_of_windows_is_approached_from_below(stride: int, scale: float) -> None:
    network = conv_net((7, 6, 1), (3, 4), 3, stride=stride)
    link, vector = network.links["W_2"], starting_vectors(network)["W_2"]
    w = (scale * np.random.default_rng(7).standard_normal((27, 4))).astype(np.float32)
    truth = np.linalg.norm(link.matrix(w.astype(np.float64)), 2)
    block = w.astype(np.float64)
    scale_norm(link, block, 1.001 * truth, vector, iterations=2)
    np.testing.assert_array_equal(block, w)  # no estimate is above the norm
    np.testing.assert_allclose(np.linalg.norm(vector), 1.0, rtol=1e-9)
    for _ in range(20):
        scale_norm(link, block, 0.5 * scale, vector, iterations=5)
    left = np.linalg.norm(link.matrix(block), 2)
    np.testing.assert_allclose(left, 0.5 * scale, rtol=1e-3)


def test_of_windows_only_the_leading_directions_are_lowered() -> None:
    """The block moves less than if all of it were scaled, and keeps what is under the limit."""
    network = conv_net((7, 6, 1), (3, 4), 3, stride=1)
    link, vector = network.links["W_2"], starting_vectors(network)["W_2"]
    w = np.random.default_rng(7).standard_normal((27, 4))
    values = np.linalg.svd(link.matrix(w), compute_uv=False)
    limit, block = 0.97 * values[0], w.copy()
    scale_norm(link, block, limit, vector, iterations=50)
    moved, scaled = np.linalg.norm(block - w), 0.03 * np.linalg.norm(w)
    assert 0.0 < moved < 0.75 * scaled
    np.testing.assert_allclose(np.linalg.norm(link.matrix(block), 2), limit, rtol=1e-3)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_windows_that_send_nothing_or_no_number_are_left_and_their_vector_too(
    value: float,
) -> None:
    link, vector = CONV.links["W_2"], np.ones(CONV.links["W_2"].size)
    block = np.full((link.fan_in, link.fan_out), value)
    scale_norm(link, block, 0.5, vector, 3)
    np.testing.assert_array_equal(block, value)
    np.testing.assert_array_equal(vector, 1.0)


@pytest.mark.parametrize("limit", [0.05, 1e3])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_windows_of_tensors_are_scaled_as_those_of_arrays(
    stride: int, zero: bool, limit: float
) -> None:
    torch = pytest.importorskip("torch")
    network = conv_net((7, 6, 1), (3, 4), 3, stride=stride)
    link, vector = network.links["W_2"], starting_vectors(network)["W_2"]
    block = initial_params(network, np.random.default_rng(9), np.float64)["W_2"] * (not zero)
    tensor, direction = torch.tensor(block), torch.tensor(vector)
    for _ in range(3):
        scale_norm(link, tensor, limit, direction, iterations=3)
        scale_norm(link, block, limit, vector, iterations=3)
        np.testing.assert_allclose(tensor.numpy(), block, rtol=1e-12)
        # In a small space the last vectors of a basis hold little but rounding.
        np.testing.assert_allclose(direction.numpy(), vector, rtol=0, atol=1e-4)


def test_windows_are_scaled_on_a_device_without_values() -> None:
    """Tensors of `meta` have shapes and no values: to read one is an error."""
    torch = pytest.importorskip("torch")
    link = CONV.links["W_2"]
    block = torch.empty((link.fan_in, link.fan_out), device="meta")
    scale_norm(link, block, 0.5, torch.empty(link.size, device="meta"), iterations=2)
    assert block.device.type == "meta"


@pytest.mark.parametrize("cap", ["high", None])
def test_a_cap_is_a_number(cap: object) -> None:
    with pytest.raises(EngineError, match=r"^SpectralCap: cap is .*, expected a number\.$"):
        SpectralCap(cap)


@pytest.mark.parametrize("cap", [0.0, 1.0, -0.5, np.nan])
def test_a_cap_is_between_zero_and_one(cap: float) -> None:
    with pytest.raises(EngineError, match=f"spectral cap is {cap}, expected more than 0"):
        SpectralCap(cap)
