"""Windows: any gather as runs, the kernels that copy and add them, and how they share the work."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.arrays import FloatArray, IntArray
from engine.compiled import local_rule, threads
from engine.compiled.backend import NumbaBackend
from engine.compiled.products import PASS, TILE_ROWS, new_edge
from engine.compiled.windows import (
    FROM,
    LENGTH,
    TO,
    WINDOW_BYTES,
    End,
    add_windows,
    at_once,
    both_ways,
    new_packed,
    new_windows,
    send_back,
    send_input,
    send_on,
    windows_of,
)
from engine.couplings.link import Link
from engine.couplings.window import Window
from engine.equilibrium import Relaxation
from engine.learning.estimator import centered, estimate, one_sided
from engine.model import dynamics
from engine.model.builders import conv_net
from engine.model.network import Network
from engine.model.params import initial_params

SIZE = 11
SCATTERED = np.array([[-1, 0, 1], [4, 3, -1], [-1, -1, -1], [9, 10, 0], [5, 5, 6]])
"""Zeros before unit 0, a step back, nothing at all, a jump, and a unit that is read twice."""
IMAGE = (7, 6, 2)


def _link(gather: IntArray, size: int = SIZE, fan_out: int = 3) -> Link:
    return Link("W", "a", "b", size, gather, fan_out)


LINKS = {
    "scattered": _link(SCATTERED),
    "one place": _link(np.array([[8, 9, 2, 0]])),
    "overlapping": _link(Window(3, 2, 1).gather(IMAGE), 84, 17),
    "dense places": _link(Window(3, 1, 1).gather(IMAGE), 84, 4),
    "apart": _link(Window(2, 2, 0).gather((6, 6, 1)), 36, 5),
}
links = pytest.mark.parametrize("name", LINKS)


def _whole(shape: Any, dtype: Any, seed: int) -> FloatArray:
    """Whole numbers: sums of their products are exact, in any order."""
    return np.random.default_rng(seed).integers(-5, 6, shape).astype(dtype)


def _sent(link: Link, w: FloatArray, values: FloatArray, back: bool) -> FloatArray:
    """What arrives at the other end of a link, as the relaxation finds it, added to ones."""
    size = link.size if back else link.positions * link.fan_out
    into = np.ones((len(values), size), w.dtype)
    packed, send = new_packed(w.T if back else w), send_back if back else send_on
    room = np.full_like(new_windows(link.fan_in, w.dtype), np.nan), new_edge(w.dtype)
    send(values.reshape(-1), len(values), windows_of(link), packed, into.reshape(-1), *room)
    return into


gathers = st.tuples(st.integers(1, 5), st.integers(1, 9)).flatmap(
    lambda shape: st.lists(
        st.lists(st.integers(-1, 6), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


@settings(max_examples=200)
@given(gathers)
def test_runs_say_what_the_gather_says_and_are_as_long_as_can_be(rows: list[list[int]]) -> None:
    gather = np.array(rows)
    found = windows_of(_link(gather, 7))
    read = np.full_like(gather, -9)
    for p in range(len(gather)):
        runs = found.runs[found.places[p] : found.places[p + 1]]
        for run in runs:
            steps = np.arange(run[LENGTH])
            read[p, run[TO] + steps] = run[FROM] + steps if run[FROM] >= 0 else -1
        for here, beside in pairwise(runs):
            follows = here[FROM] + here[LENGTH] == beside[FROM] and here[FROM] >= 0
            assert not follows
            assert max(here[FROM], beside[FROM]) >= 0
    np.testing.assert_array_equal(read, gather)
    assert found.places[-1] == len(found.runs)


def test_a_window_inside_an_image_is_a_run_for_each_of_its_rows() -> None:
    found = windows_of(LINKS["dense places"])
    counts = np.diff(found.places).reshape(IMAGE[:2])
    assert (counts[1:-1, 1:-1] == 3).all()
    assert set(found.runs[found.runs[:, FROM] >= 0, LENGTH]) == {3 * IMAGE[2], 2 * IMAGE[2]}


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("fan_in", [1, 9, 300, 5000, 10**6])
def test_a_handful_of_places_is_whole_tiles_that_stay_in_the_cache(
    fan_in: int, itemsize: int
) -> None:
    count = at_once(fan_in, itemsize)
    assert count % TILE_ROWS == 0
    assert TILE_ROWS <= count <= PASS
    assert count == TILE_ROWS or count * fan_in * itemsize <= WINDOW_BYTES


@links
@pytest.mark.parametrize("samples", [1, 3, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_arrives_at_either_end_is_the_product_with_the_link(
    name: str, samples: int, dtype: type
) -> None:
    link = LINKS[name]
    w = _whole((link.fan_in, link.fan_out), dtype, 1)
    matrix, a = link.matrix(w), _whole((samples, link.size), dtype, 2)
    b = _whole((samples, link.positions * link.fan_out), dtype, 3)
    np.testing.assert_array_equal(_sent(link, w, a, back=False), 1 + a @ matrix)
    np.testing.assert_array_equal(_sent(link, w, b, back=True), 1 + b @ matrix.T)
    np.testing.assert_array_equal(send_input(link, new_packed(w), a), a @ matrix)


def test_more_places_than_are_read_at_a_time_are_all_read() -> None:
    link = LINKS["dense places"]
    assert 40 * link.positions > 8 * at_once(link.fan_in, 4)
    assert at_once(link.fan_in, 4) % link.positions  # a handful ends inside of a sample


@links
@pytest.mark.parametrize("back", [False, True])
def test_a_sample_does_not_depend_on_those_beside_it(name: str, back: bool) -> None:
    link, rng = LINKS[name], np.random.default_rng(4)
    w = rng.standard_normal((link.fan_in, link.fan_out)).astype(np.float32)
    size = link.positions * link.fan_out if back else link.size
    values = rng.standard_normal((30, size)).astype(np.float32)
    together = _sent(link, w, values, back)
    for rows in (slice(0, 1), slice(7, 12), slice(29, 30)):
        np.testing.assert_array_equal(_sent(link, w, values[rows], back), together[rows])


@links
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_block_learns_from_all_that_its_places_join(name: str, dtype: type) -> None:
    """The ends lie between other columns, and the samples are some of the batch."""
    link = LINKS[name]
    a = _whole((20, link.size + 5), dtype, 5)
    b = _whole((20, link.positions * link.fan_out + 4), dtype, 6)
    into = np.ones((link.fan_out, link.fan_in), dtype)
    ends = End(a.reshape(-1), 3, a.shape[1]), End(b.reshape(-1), 4, b.shape[1])
    add_windows(link, *ends, slice(2, 19), into)
    learned = link.correlate(a[2:19, 3 : 3 + link.size], b[2:19, 4:])
    np.testing.assert_array_equal(into, 1 + learned.T)


@links
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_vector_goes_both_ways(name: str, dtype: type) -> None:
    link = LINKS[name]
    w = _whole((link.fan_in, link.fan_out), dtype, 8)
    send, back = both_ways(link, w)
    matrix = link.matrix(w)
    for seed in (9, 10):  # their buffers are used again
        a, b = _whole(link.size, float, seed), _whole(link.positions * link.fan_out, float, seed)
        np.testing.assert_array_equal(send(a), a @ matrix)
        np.testing.assert_array_equal(back(b), matrix @ b)


NETWORK = conv_net((9, 8, 2), (5, 4), 3, activation="tanh")


def _backend(dtype: type = np.float32) -> NumbaBackend:
    return NumbaBackend(NETWORK, initial_params(NETWORK, np.random.default_rng(0), dtype))


def _batch(samples: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((samples, NETWORK.inputs)), np.eye(3)[np.arange(samples) % 3]


def _gradient(backend: NumbaBackend, samples: int, phases: Any) -> FloatArray:
    gradient, way = np.zeros(NETWORK.size, backend.dtype), Relaxation(8, 0.0)
    estimate(backend, backend.clamp(*_batch(samples)), phases, gradient, way, way)
    return gradient


@pytest.mark.parametrize("phases", [centered(0.1), one_sided(0.1)], ids=["centered", "one sided"])
def test_the_bits_of_a_gradient_do_not_depend_on_the_cores(
    phases: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "WORK", 1)
    monkeypatch.setattr(local_rule, "PART_WORK", 1)
    found = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(threads, "usable_cores", lambda cores=cores: cores)
        found.append(_gradient(_backend(), 2 * threads.ROWS + 1, phases))
    assert np.abs(found[0]).max() > 1e-4
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("samples", [1, 3, 19])
def test_a_sum_in_parts_is_the_sum(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[int] = []
    window_sum = local_rule._window_sum

    def watched(*arguments: Any) -> Any:
        found = window_sum(*arguments)
        shapes.append(len(found.parts))
        return found

    monkeypatch.setattr(local_rule, "_window_sum", watched)
    whole = _gradient(_backend(np.float64), samples, centered(0.1))
    monkeypatch.setattr(local_rule, "PART_WORK", 1)
    parts = _gradient(_backend(np.float64), samples, centered(0.1))
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-13 * np.abs(whole).max())
    assert shapes == [1, 1, *[min(samples, local_rule.PARTS)] * 2]


def test_one_phase_alone_learns_by_the_formulas() -> None:
    backend, (x, _) = _backend(np.float64), _batch(5)
    state = np.random.default_rng(3).standard_normal((5, NETWORK.units))
    for coupling in NETWORK.couplings:
        found = local_rule.correlation(backend.params, coupling, x, state)
        w, ends = backend.params[coupling.name], NETWORK.ends(coupling, state)
        np.testing.assert_allclose(found, coupling.correlate(w, x, *ends), atol=1e-12)


def test_the_drive_of_an_image_is_that_of_the_formulas_on_any_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend, (x, _) = _backend(np.float64), _batch(2 * threads.ROWS + 3)
    alone = np.concatenate([backend.clamp(row[None]).drive for row in x])
    monkeypatch.setattr(threads, "WORK", 1)
    for cores in (1, 2):
        monkeypatch.setattr(threads, "usable_cores", lambda cores=cores: cores)
        np.testing.assert_array_equal(backend.clamp(x).drive, alone)
    expected = dynamics.clamped_drive(NETWORK, backend.params, x)
    np.testing.assert_allclose(alone, expected, atol=1e-12)


def _relaxed(backend: NumbaBackend, rows: slice) -> FloatArray:
    x, y = _batch(40)
    way = Relaxation(25, 1e-4)
    clamped = backend.clamp(x[rows], y[rows])
    state: FloatArray = backend.settle(clamped, 0.1, way).state
    return state


def test_an_equilibrium_of_windows_does_not_depend_on_its_batch() -> None:
    relaxed = partial(_relaxed, _backend())
    together = relaxed(slice(0, 40))
    for rows in (slice(0, 1), slice(5, 9), slice(38, 40)):
        np.testing.assert_array_equal(relaxed(rows), together[rows])


def test_buffers_do_not_grow_with_the_batch() -> None:
    large: Network = conv_net((28, 28, 1), (32, 64), 10)
    tables = NumbaBackend(large, initial_params(large, np.random.default_rng(0)))._tables
    assert tables.window * 4 <= WINDOW_BYTES
