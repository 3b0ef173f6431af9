"""The errors and costs of the read-out."""

import numpy as np

from engine.compiled.reading import softmax_errors


def test_errors_of_a_softmax_and_their_costs_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(8)
    logits, targets = 5.0 * rng.standard_normal((4, 3)) + 800.0, rng.dirichlet([1, 1, 1], 4)
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    expected, costs = -(targets * np.log(shares)).sum(1), np.full(4, np.nan)
    softmax_errors(logits, targets, costs, 0, len(logits))
    np.testing.assert_allclose(logits, shares - targets, rtol=0, atol=1e-14)
    np.testing.assert_allclose(costs, expected, rtol=1e-13)
