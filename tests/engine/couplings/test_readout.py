"""Read-outs as the slopes and bounds of their costs, and what they refuse."""

import numpy as np
import pytest

from engine.arrays import FloatArray
from engine.couplings.readout import Readout, SoftmaxReadout, SquaredError, reading_of
from engine.couplings.tokens import TokenReadout
from engine.errors import EngineError

SIZE, OUTPUTS, SAMPLES = 5, 3, 4
SHAPE = (SIZE,)
READOUTS = [SoftmaxReadout("a", OUTPUTS), SquaredError("a")]
each_readout = pytest.mark.parametrize("readout", READOUTS, ids=lambda r: type(r).__name__)


def _drawn(readout: Readout) -> tuple[dict[str, FloatArray], FloatArray, FloatArray]:
    """Blocks, states and targets."""
    rng = np.random.default_rng(0)
    blocks = {name: rng.standard_normal(shape) for name, shape in readout.shapes(SHAPE).items()}
    y = rng.dirichlet(np.ones(readout.width(SHAPE)), SAMPLES)
    return blocks, rng.standard_normal((SAMPLES, SIZE)), y


def _slope(cost: FloatArray, before: FloatArray, step: float) -> FloatArray:
    return (cost - before) / (2 * step)


@each_readout
def test_the_nudge_is_the_slope_of_the_cost_in_the_state(readout: Readout) -> None:
    blocks, s, y = _drawn(readout)
    found, step = readout.nudge(blocks, s, y), 1e-5
    for unit in range(SIZE):
        by = step * np.eye(SIZE)[unit]
        slope = _slope(readout.cost(blocks, s + by, y), readout.cost(blocks, s - by, y), step)
        np.testing.assert_allclose(found[:, unit], slope, rtol=0, atol=1e-9)


@each_readout
def test_a_block_learns_by_the_slope_of_the_summed_cost(readout: Readout) -> None:
    blocks, s, y = _drawn(readout)
    found, step = readout.correlate(blocks, s, y), 1e-5
    assert set(found) == set(blocks)
    for name, block in blocks.items():
        for place in np.ndindex(block.shape):
            costs = []
            for side in (step, -step):
                moved = block.copy()
                moved[place] += side
                costs.append(readout.cost(blocks | {name: moved}, s, y).sum())
            np.testing.assert_allclose(found[name][place], _slope(*costs, step), atol=1e-8)


@each_readout
def test_no_curvature_of_the_cost_is_above_the_bound(readout: Readout) -> None:
    blocks, s, y = _drawn(readout)
    bound, step = readout.curvature(blocks), 1e-5
    for k in range(SAMPLES):
        rows = [
            (readout.nudge(blocks, s[k : k + 1] + step * unit, y[k : k + 1])
             - readout.nudge(blocks, s[k : k + 1] - step * unit, y[k : k + 1]))[0] / (2 * step)
            for unit in np.eye(SIZE)
        ]  # fmt: skip
        assert np.linalg.norm(rows, 2) <= bound * (1 + 1e-9)


def test_the_bounds_are_those_they_say() -> None:
    blocks, _, _ = _drawn(READOUTS[0])
    expected = np.linalg.svd(blocks["W_out"], compute_uv=False)[0] ** 2
    np.testing.assert_allclose(READOUTS[0].curvature(blocks), expected, rtol=1e-12)
    assert READOUTS[1].curvature({}) == 1.0


def test_a_softmax_is_shares_of_odds_and_its_cost_their_logarithm() -> None:
    readout = READOUTS[0]
    blocks, s, y = _drawn(readout)
    odds = np.exp(s @ blocks["W_out"] + blocks["b_out"])
    shares = odds / odds.sum(1, keepdims=True)
    np.testing.assert_allclose(readout.predict(blocks, s), shares, rtol=1e-13)
    cost = -(y * np.log(shares)).sum(1)
    np.testing.assert_allclose(readout.cost(blocks, s, y), cost, rtol=1e-13)


def test_a_softmax_of_large_logits_does_not_overflow() -> None:
    readout, blocks = READOUTS[0], {"W_out": np.eye(3), "b_out": np.zeros(3)}
    s, y = np.array([[1e4, 1e4, 0.0], [-1e4, 0.0, -1e4]]), np.eye(3)[[0, 0]]
    np.testing.assert_allclose(readout.predict(blocks, s), [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(readout.cost(blocks, s, y), [np.log(2), 1e4])


def test_a_squared_error_reads_the_layer_itself() -> None:
    readout, s = READOUTS[1], np.array([[1.0, 2.0], [0.0, -1.0]])
    y = np.array([[1.0, 0.0], [3.0, 3.0]])
    assert readout.width((2,)) == 2
    assert readout.shapes((2,)) == readout.initial(np.random.default_rng(0), (2,)) == {}
    np.testing.assert_array_equal(readout.predict({}, s), s)
    np.testing.assert_array_equal(readout.cost({}, s, y), [2.0, 12.5])


def test_a_softmax_starts_small_and_without_a_bias() -> None:
    blocks = SoftmaxReadout("a", 300).initial(np.random.default_rng(1), (400,))
    assert blocks["W_out"].shape == (400, 300)
    np.testing.assert_allclose(blocks["W_out"].std(), 0.5 / 20, rtol=0.01)
    np.testing.assert_array_equal(blocks["b_out"], np.zeros(300))


@pytest.mark.parametrize(
    "row", [[0.5, 0.6, 0.0], [0.5, 0.498, 0.0], [1.1, -0.1, 0.0], [-1e-6, 0.5, 0.5], [0, 0, 0]]
)
def test_a_target_that_is_no_probability_is_named(row: list[float]) -> None:
    y = np.array([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5], row, row])
    with pytest.raises(EngineError, match=r"^target 2 is .*, expected probabilities\.$"):
        READOUTS[0].check(y)


@pytest.mark.parametrize("row", [[0.5, 0.5009, 0.0], [0.5, 0.4991, 0.0], [0, 0, 1]])
def test_a_target_may_be_rounded(row: list[float]) -> None:
    READOUTS[0].check(np.array([row]))
    READOUTS[0].check(np.empty((0, 3)))
    READOUTS[1].check(np.array([[-5.0, 7.0]]))


PLACES = (3, SIZE)  # of a read-out by token


@pytest.mark.parametrize(
    ("readout", "shape"),
    [(SoftmaxReadout("a", OUTPUTS), SHAPE), (TokenReadout("a", OUTPUTS), PLACES)],
    ids=["softmax", "tokens"],
)
def test_the_link_of_a_softmax_computes_what_its_formulas_do(
    readout: Readout, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    blocks = {name: rng.standard_normal(size) for name, size in readout.shapes(shape).items()}
    s, reading = rng.standard_normal((SAMPLES, *shape)), reading_of(readout, shape)
    assert reading is not None
    assert reading.link is not None
    link, w, flat = reading.link, blocks[reading.link.block], s.reshape(SAMPLES, -1)
    y = rng.dirichlet(np.ones(OUTPUTS), (SAMPLES, reading.positions)).reshape(SAMPLES, -1)
    logits = link.forward(w, flat).reshape(SAMPLES, -1, OUTPUTS) + blocks[reading.bias]
    odds = np.exp(logits)
    p = (odds / odds.sum(-1, keepdims=True)).reshape(SAMPLES, -1)
    error, slopes = p - y, readout.correlate(blocks, s, y)
    np.testing.assert_allclose(readout.predict(blocks, s), p, rtol=1e-12)
    np.testing.assert_allclose(readout.nudge(blocks, s, y), link.backward(w, error), atol=1e-12)
    np.testing.assert_allclose(slopes[link.block], link.correlate(flat, error), atol=1e-12)
    np.testing.assert_allclose(slopes[reading.bias], error.reshape(-1, OUTPUTS).sum(0), atol=1e-12)


def test_a_read_out_with_another_cost_is_not_taken_for_its_parent() -> None:
    class Doubled(SoftmaxReadout):
        def cost(self, blocks, s, y):  # type: ignore[no-untyped-def]
            return 2 * super().cost(blocks, s, y)

    assert reading_of(SoftmaxReadout("a", OUTPUTS), SHAPE) is not None
    assert reading_of(Doubled("a", OUTPUTS), SHAPE) is None


@pytest.mark.parametrize(("off", "fits"), [(5e-4, True), (-5e-4, True), (1.5e-3, False)])
def test_probabilities_add_up_to_one_within_a_thousandth(off: float, fits: bool) -> None:
    y = np.array([[0.5, 0.25, 0.25 + off]])
    if fits:
        SoftmaxReadout("a", OUTPUTS).check(y)
        return
    with pytest.raises(EngineError, match="expected probabilities"):
        SoftmaxReadout("a", OUTPUTS).check(y)
