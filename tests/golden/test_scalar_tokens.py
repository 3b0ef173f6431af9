"""The scalar formulas one by one against the closed forms, which are written apart from them."""

import numpy as np
import pytest

from engine.arrays import by_sample
from engine.couplings.coupling import Coupling
from engine.model.builders import energy_transformer, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params
from golden import scalar
from golden.draws import draw_inputs, draw_probabilities

NETWORKS = {
    "looped": looped_mlp(3, 4, 2),
    "layered": layered((3, 4, 2, 3)),
    "squared": layered((3, 2, 3), readout="squared_error"),
    "plain": energy_transformer(4, 3, width=4, heads=2, head_size=3, sharpness=1.7),
    "one head": energy_transformer(3, 2, width=3, heads=1, head_size=2, sees_itself=True),
    "causal": energy_transformer(3, 4, width=2, heads=3, head_size=1, causal=True, outputs=2),
    "both": energy_transformer(3, 3, width=2, causal=True, sees_itself=True),
    "memories": energy_transformer(4, 3, width=4, memories=5, sharpness=0.6, outputs=3),
}
COUPLINGS = [
    pytest.param(network, coupling, id=f"{name}: {coupling.name}")
    for name, network in NETWORKS.items()
    for coupling in network.couplings
]
SAMPLES = 3


def _drawn(network: Network) -> tuple[Params, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    params = Params(network, rng.normal(0.0, 0.8, network.size))
    state = rng.uniform(-0.9, 0.9, (SAMPLES, network.units))
    x, y = (draw(network, rng, SAMPLES) for draw in (draw_inputs, draw_probabilities))
    return params, x, y, state


def _flat(states: list[np.ndarray], sample: int) -> list[list[float]]:
    """What the scalar formulas read: a flat list for each layer."""
    return [by_sample(state)[sample].tolist() for state in states]


@pytest.mark.parametrize(("network", "coupling"), COUPLINGS)
def test_what_a_coupling_sends_is_its_drive(network: Network, coupling: Coupling) -> None:
    params, x, _, state = _drawn(network)
    w, ends = params[coupling.name], network.ends(coupling, state)
    shape = network.shapes[coupling.layers[0]]
    expected = coupling.drive(w, x, *([] if coupling.clamped else ends))
    for k in range(SAMPLES):
        given = [] if coupling.clamped else _flat(ends, k)
        sent = scalar.send(coupling, w.tolist(), x[k].tolist(), given, shape)
        assert len(sent) == len(expected)
        for part, drive in zip(sent, expected, strict=True):
            np.testing.assert_allclose(part, by_sample(drive)[k], rtol=0, atol=1e-13)


@pytest.mark.parametrize(("network", "coupling"), COUPLINGS)
def test_what_a_coupling_learns_is_its_correlation(network: Network, coupling: Coupling) -> None:
    params, x, _, state = _drawn(network)
    w, ends = params[coupling.name], network.ends(coupling, state)
    shape = network.shapes[coupling.layers[0]]
    total = np.zeros(w.size)
    for k in range(SAMPLES):
        part = scalar.correlate(coupling, w.tolist(), x[k].tolist(), _flat(ends, k), shape)
        total += np.array(part)
    expected = coupling.correlate(w, x, *ends)
    np.testing.assert_allclose(total, np.ravel(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_read_outs_predict_nudge_and_learn_as_they_should(network: Network) -> None:
    params, _, y, state = _drawn(network)
    readout, read = network.readout, network.of(network.readout.layer, state)
    blocks = {name: block.tolist() for name, block in params.items()}
    totals = dict.fromkeys(readout.shapes(network.shapes[readout.layer]), 0.0)
    for k in range(SAMPLES):
        (s,), target = _flat([read], k), y[k].tolist()
        found = scalar.predict(readout, blocks, s)
        np.testing.assert_allclose(found, readout.predict(params, read)[k], rtol=0, atol=1e-13)
        pull = scalar.nudge(readout, blocks, s, target)
        expected = by_sample(readout.nudge(params, read, y))[k]
        np.testing.assert_allclose(pull, expected, rtol=0, atol=1e-13)
        learned = scalar.correlate_readout(readout, blocks, s, target)
        assert set(learned) == set(totals)
        totals = {name: totals[name] + np.array(part) for name, part in learned.items()}
    for name, slopes in readout.correlate(params, read, y).items():
        np.testing.assert_allclose(totals[name], slopes.ravel(), rtol=0, atol=1e-12)


def test_large_scores_do_not_overflow() -> None:
    network = NETWORKS["memories"]
    params, x, _, state = _drawn(network)
    params.theta[...] *= 1e3
    s, shape = network.of("tokens", state), network.shapes["tokens"]
    for coupling in network.recurrent:
        w = params[coupling.name]
        (sent,) = scalar.send(coupling, w.tolist(), x[0].tolist(), _flat([s], 0), shape)
        (drive,) = coupling.drive(w, x, s)
        np.testing.assert_allclose(sent, by_sample(drive)[0], rtol=1e-9, atol=1e-9)
    blocks = {name: block.tolist() for name, block in params.items()}
    found = scalar.predict(network.readout, blocks, state[0].tolist())
    np.testing.assert_allclose(found, network.readout.predict(params, s)[0], atol=1e-9)
