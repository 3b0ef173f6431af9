"""A matrix beside conductances: the stiffness of a node divides what the matrix sends, too."""

import numpy as np

from adapters.torch_backend import TorchBackend
from engine import (
    InputConductance,
    Lateral,
    Layer,
    Network,
    NumbaBackend,
    Predictor,
    Relaxation,
    SoftmaxReadout,
    initial_params,
)
from golden.reference import ReferenceBackend

NETWORK = Network(
    3,
    (Layer("a", (4,), "relu"),),
    (InputConductance("g", "a", 2.0), Lateral("W", "a")),
    SoftmaxReadout("a", 2),
)
STEPS = Relaxation(200, 1e-12)


def test_a_lateral_matrix_beside_conductances_settles_alike_everywhere() -> None:
    params = initial_params(NETWORK, np.random.default_rng(0), np.float64)
    x = np.random.default_rng(1).normal(size=(6, 3))
    y = np.eye(2)[np.arange(6) % 2]
    found = []
    for make in (ReferenceBackend, NumbaBackend, lambda n, p: TorchBackend(n, p, "cpu")):
        backend = make(NETWORK, params)
        clamped = backend.clamp(x, y)
        free = backend.settle(clamped, relaxation=STEPS)
        nudged = backend.settle(clamped, 0.3, STEPS, free.state)
        found.append((free.state, nudged.state))
    for free, nudged in found[1:]:
        np.testing.assert_allclose(free, found[0][0], atol=1e-9)
        np.testing.assert_allclose(nudged, found[0][1], atol=1e-9)
    backend = NumbaBackend(NETWORK, params)
    outputs = backend.predict(backend.settle(backend.clamp(x), relaxation=STEPS))
    predictor = Predictor(backend)
    np.testing.assert_allclose(predictor.predict_outputs(x, STEPS), outputs, atol=1e-9)
    np.testing.assert_array_equal(predictor.predict(x, STEPS), outputs.argmax(axis=1))
