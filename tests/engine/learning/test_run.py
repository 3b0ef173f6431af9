"""What a run remembers as its best epoch."""

import numpy as np
import pytest

from engine.learning.run import Epoch, Run
from engine.model.builders import looped_mlp

NETWORK = looped_mlp(2, 3, 2)


@pytest.mark.parametrize(
    ("results", "best"),
    [
        ([(0.5, 0.8), (0.9, 0.9), (0.1, 0.85)], 2),  # accuracy before cost
        ([(0.5, 0.8), (0.4, 0.8), (0.4, 0.8)], 2),  # then the cost, and the first of equals
        ([(0.5, None), (0.0, None), (0.2, None)], 2),  # a cost of zero is the best there is
        ([(0.5, 0.0), (0.4, 0.0)], 2),
    ],
)
def test_accuracy_decides_and_then_the_cost(
    results: list[tuple[float, float | None]], best: int
) -> None:
    run = Run.start(NETWORK, 1, np.float64, seed=0)
    for number, (cost, accuracy) in enumerate(results, start=1):
        epoch = Epoch(number, 1.0, 1.0, 1.0, 0.0, 0.1).validated(cost, accuracy)
        run.keep_if_best(epoch, np.full(NETWORK.size, float(number)))
        run.history.append(epoch)
    assert run.best_epoch == best
    assert run.best_theta is not None
    assert (run.best_theta == best).all()
