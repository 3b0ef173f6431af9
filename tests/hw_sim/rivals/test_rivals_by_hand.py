"""Backprop by hand: every event of its passes, and its gradient from differences of the cost."""

from collections import Counter
from itertools import product
from math import ceil, exp, log, tanh
from typing import Any

import numpy as np
import pytest

from engine import SGD, Training
from engine.errors import EngineError
from engine.learning.run import Run
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.counts import WordCount
from hw_sim.rivals.backprop import Rival, feedforward
from tests.hw_sim.chips.hand_mesh import HandMesh

INPUTS, UNITS, OUTPUTS, SAMPLES, PER_CORE = 3, 5, 2, 4, 2
LOOPED, PLAIN = looped_mlp(INPUTS, UNITS, OUTPUTS), feedforward(looped_mlp(INPUTS, UNITS, OUTPUTS))
RNG = np.random.default_rng(8)
X, Y = RNG.standard_normal((SAMPLES, INPUTS)), np.eye(OUTPUTS)[[0, 1, 1, 0]]
CHIPS = {
    "digital": (DigitalBackend, None, 0),
    "crossbar": (CrossbarBackend, CrossbarConfig(on_off_ratio=np.inf, weight_range=64.0), 0),
    "tiles": (
        CrossbarBackend,
        CrossbarConfig(on_off_ratio=np.inf, weight_range=64.0, tile_rows=2, tile_columns=3), 0,
    ),
    "spiking": (SpikingBackend, SpikingConfig(neurons_per_core=PER_CORE), PER_CORE),
}  # fmt: skip
CORE = {"h0": 0, "h1": 0, "h2": 1, "h3": 1, "h4": 2, "o0": 2, "o1": 3}
"""Units and outputs in their order, two on a core."""
AWAY = ((0, 1, 1, 2), (1, 0, 2, 1), (1, 2, 0, 1), (2, 1, 1, 0))
"""Steps between the cores 0 1 / 2 3 of a square."""
HIDDEN, ANSWERS = ("h0", "h1", "h2", "h3", "h4"), ("o0", "o1")
ENDS: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {
    ("input", "hidden"): ((), HIDDEN),
    ("free", "hidden"): (HIDDEN, HIDDEN),
    ("free", "readout"): (HIDDEN, ANSWERS),
    ("backward", "readout"): (ANSWERS, HIDDEN),
    ("backward", "hidden"): (HIDDEN, HIDDEN),
}
"""Who speaks and who hears in a product; inputs come over the border."""
each_chip = pytest.mark.parametrize(("make", "config", "per_core"), CHIPS.values(), ids=CHIPS)


def _params(network: Network) -> Params:
    params = initial_params(network, np.random.default_rng(1), np.float64)
    params["b"][...], params["b_out"][...] = 0.2, [0.1, -0.3]
    return params


class Ledger(Counter[tuple[str, str, str]]):
    """Events of one sample after the other."""

    def __init__(self, in_array: bool, per_core: int, tile: tuple[int, int]) -> None:
        super().__init__()
        self.in_array, self.per_core, self.tile = in_array, per_core, tile

    def enter(self, phase: str, place: str, **events: int) -> None:
        for kind, times in events.items():
            if times:
                self[phase, place, kind] += times

    def move(self, mesh: HandMesh | None, steps: int, is_trained: bool) -> None:
        """Words between tiles: of every product, and what synapses have not heard just now."""
        if mesh is None:
            return
        self.enter("input", "hidden", hop=mesh.driven("W_in") + mesh.joined("W_in"))
        self.enter("free", "readout", hop=mesh.driven("W_out") + mesh.joined("W_out"))
        for _ in range(steps):
            self.enter("free", "hidden", hop=mesh.driven("W_rec") + mesh.joined("W_rec"))
        if is_trained:
            back = mesh.driven("W_out", back=True) + mesh.joined("W_out", back=True)
            self.enter("backward", "readout", hop=back)
            self.enter("learn", "hidden", hop=mesh.driven("W_in") + mesh.driven("W_in", back=True))
            for _ in range(steps):
                back = mesh.driven("W_rec", back=True) + mesh.joined("W_rec", back=True)
                self.enter("backward", "hidden", hop=back)
                self.enter("learn", "hidden", hop=mesh.driven("W_rec"))

    def matrix(self, phase: str, place: str, sources: int, targets: int) -> None:
        """A product of a vector and a matrix, in the way of the chip."""
        self.enter(phase, place, state_read=sources)
        if self.per_core:
            self.exchange(phase, place, sources)
        if self.in_array:  # deltas go from columns to rows
            rows, columns = self.tile[::-1] if phase == "backward" else self.tile
            words, driven = ceil(sources / (rows or sources)), ceil(targets / (columns or targets))
            self.enter(phase, place, conversion=sources * driven + targets * words)
            self.enter(phase, place, addition=targets * (words - 1))
        for _ in range(sources * targets):
            if self.in_array:
                self.enter(phase, place, cell_read=2)
            else:
                self.enter(phase, place, mac=1, weight_read=1)

    def exchange(self, phase: str, place: str, sources: int) -> None:
        """A message of each source to each core, on its way, and the longer work of a core."""
        speakers, hearers = ENDS[phase, place]
        synapses = Counter(CORE[hearer] for hearer in hearers)
        self.enter(phase, place, message=sources * len(synapses), barrier=1)
        hops = sum(AWAY[CORE[speaker]][core] for speaker in speakers for core in synapses)
        self.enter(phase, place, spike_out=len(speakers), hop=hops)
        on_core, speaking = (
            max(synapses.values()),
            max(Counter(map(CORE.get, speakers)).values(), default=0),
        )
        if sources * (16.0 + 3.8 * on_core) > speaking * (9.7 + 30.0 + 5.1 * len(synapses)):
            self.enter(phase, place, busy_receive=sources, busy_synapse=sources * on_core)
        else:
            self.enter(phase, place, busy_update=speaking, busy_spike=speaking)
            self.enter(phase, place, busy_send=speaking * len(synapses))

    def learn(self, place: str, sources: int, targets: int) -> None:
        """Add an outer product to the slopes: each reads and writes its word."""
        pairs = sources * targets
        if self.per_core:
            _, hearers = ENDS["free", place]
            on_core = max(Counter(CORE[hearer] for hearer in hearers).values())
            self.enter("learn", place, busy_synapse=sources * on_core)
        self.enter("learn", place, state_read=sources + targets, mac=pairs)
        self.enter("learn", place, trace_read=pairs, trace_write=pairs)

    def learn_bias(self, place: str, targets: int, reads: int) -> None:
        self.enter("learn", place, trace_read=targets, trace_write=targets, state_read=reads)

    def forward(self, steps: int) -> None:
        self.matrix("input", "hidden", INPUTS, UNITS)
        self.enter("input", "hidden", weight_read=UNITS, state_write=UNITS)
        self.enter("free", "hidden", activation=UNITS, state_write=UNITS)
        for _ in range(steps):
            self.matrix("free", "hidden", UNITS, UNITS)
            self.enter("free", "hidden", state_read=UNITS)  # the drive
            self.enter("free", "hidden", activation=UNITS, state_write=UNITS)
        self.matrix("free", "readout", UNITS, OUTPUTS)
        self.enter("free", "readout", weight_read=OUTPUTS)
        self.enter("free", "readout", activation=OUTPUTS, state_write=OUTPUTS)
        self.enter("free", "readout", compare=OUTPUTS - 1, divide=OUTPUTS)

    def backward(self, steps: int) -> None:
        self.matrix("backward", "readout", OUTPUTS, UNITS)
        self.enter("backward", "readout", state_write=UNITS)
        self.learn("readout", UNITS, OUTPUTS)
        self.learn_bias("readout", OUTPUTS, OUTPUTS)
        for _ in range(steps + 1):  # the slope of tanh, and the sum of the deltas
            self.enter("backward", "hidden", mac=2 * UNITS)
            self.enter("backward", "hidden", state_read=2 * UNITS, state_write=2 * UNITS)
        for _ in range(steps):
            self.matrix("backward", "hidden", UNITS, UNITS)
            self.enter("backward", "hidden", state_write=UNITS)
            self.learn("hidden", UNITS, UNITS)
        self.learn("hidden", INPUTS, UNITS)
        self.learn_bias("hidden", UNITS, 0)  # with the delta that the inputs have just read


@each_chip
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_every_event_of_a_rival_is_entered_by_hand(
    make: Any, config: Any, per_core: int, steps: int
) -> None:
    network = LOOPED if steps else PLAIN
    trained, asked = (
        make(network, _params(network), config),
        make(network, _params(network), config),
    )
    Rival(steps).gradient(trained, X, Y, np.zeros(network.size))
    Rival(steps).predict(asked, X)
    ledger, forward = (Ledger(make is CrossbarBackend, per_core, trained.tile) for _ in range(2))
    mesh = HandMesh(network, *trained.tile) if any(trained.tile) else None
    for _ in range(SAMPLES):
        ledger.move(mesh, steps, is_trained=True)
        forward.move(mesh, steps, is_trained=False)
        ledger.forward(steps)
        ledger.backward(steps)
        forward.forward(steps)
    ledger.enter("input", "border", off_chip=SAMPLES * INPUTS)
    ledger.enter("backward", "border", off_chip=SAMPLES * OUTPUTS)
    forward.enter("input", "border", off_chip=SAMPLES * INPUTS)
    forward.enter("readout", "border", off_chip=SAMPLES * OUTPUTS)
    assert dict(trained.counts) == dict(ledger)
    assert dict(asked.counts) == dict(forward)


def _outputs(params: Params, x: list[float], steps: int) -> list[float]:
    """The logits of one sample, unit by unit; a lateral pair may differ."""
    units = range(UNITS)
    drive = [params["b"][j] + sum(v * params["W_in"][i, j] for i, v in enumerate(x)) for j in units]
    state = [tanh(value) for value in drive]
    for _ in range(steps):
        told = [sum(state[i] * params["W_rec"][i, j] for i in units) for j in units]
        state = [tanh(value + more) for value, more in zip(drive, told, strict=True)]
    return [
        params["b_out"][k] + sum(state[i] * params["W_out"][i, k] for i in units)
        for k in range(OUTPUTS)
    ]


def _cost(params: Params, steps: int) -> float:
    """Mean cross entropy of the batch."""
    total = 0.0
    for x, y in zip(X.tolist(), Y, strict=True):
        logits = _outputs(params, x, steps)
        total += log(sum(exp(v) for v in logits)) - logits[int(y.argmax())]
    return total / SAMPLES


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_the_gradient_is_the_slope_of_the_cost(steps: int) -> None:
    network = LOOPED if steps else PLAIN
    params, gradient, step = _params(network), np.zeros(network.size), 1e-5
    chip = CrossbarBackend(network, params, CHIPS["crossbar"][1])  # type: ignore[arg-type]
    cost = Rival(steps).gradient(chip, X, Y, gradient)
    assert cost == pytest.approx(_cost(params, steps), abs=1e-12)
    slopes = Params(network, np.zeros(network.size))
    for k in range(network.size):
        ends = []
        for sign in (1, -1):
            moved = params.copy()
            moved.theta[k] += sign * step
            ends.append(_cost(moved, steps))
        slopes.theta[k] = (ends[0] - ends[1]) / (2 * step)
    if steps:
        slopes["W_rec"][...] = (slopes["W_rec"] + slopes["W_rec"].T) / 2
    np.testing.assert_allclose(gradient, slopes.theta, atol=1e-8)
    found = Rival(steps).predict(chip, X)
    for row, x in zip(found, X.tolist(), strict=True):
        odds = [exp(v) for v in _outputs(params, x, steps)]
        np.testing.assert_allclose(row, [odd / sum(odds) for odd in odds], atol=1e-12)


def test_a_step_descends_by_the_gradient_and_reports_it() -> None:
    chip = SpikingBackend(LOOPED, _params(LOOPED))
    gradient = np.zeros(LOOPED.size)
    cost = Rival(2).gradient(chip, X, Y, gradient)
    training = Training(optimizer=SGD(0.1, 0.0), cap=None, schedule="constant")
    report = Rival(2)(chip, X, Y, training, Run.start(LOOPED, 1, np.float64, 0), 5)
    assert (report.cost, report.free_steps) == (cost, 2.0)
    assert (report.nudged_steps, report.unsettled) == (0.0, 0.0)
    moved = chip.params.theta - _params(LOOPED).theta
    np.testing.assert_allclose(moved, -0.1 * gradient, atol=1e-12)


@each_chip
def test_memory_by_hand(make: Any, config: Any, per_core: int) -> None:
    """The trajectory, the drive, two deltas and their sum; logits and error of the outputs.

    On the digital chip drive, sum and logits are accumulators, and there are tables.
    """
    chip = make(LOOPED, _params(LOOPED), config)
    cells = 2 if make is CrossbarBackend else 0
    sums, digital = 2 * UNITS + OUTPUTS, make is DigitalBackend
    for steps, moments in product((0, 1, 7), (0, 2)):
        own = WordCount(
            states=UNITS * (steps + 1) + 2 * UNITS + OUTPUTS + (4096 if digital else sums),
            weights=LOOPED.size * (cells == 0),
            traces=LOOPED.size * (1 + moments),
            cells=LOOPED.size * cells,
            wide=(sums + 8192) * digital,
            wide_bits=(32 * sums + 25 * 8192) * digital,
        )
        assert Rival(steps).words(chip, moments) == own


@pytest.mark.parametrize("steps", [1.0, "2", -1])
def test_steps_are_a_whole_number(steps: Any) -> None:
    with pytest.raises(EngineError, match="expected 0 or a whole number above"):
        Rival(steps)


def test_a_read_out_inside_the_energy_is_refused() -> None:
    squared = layered((INPUTS, UNITS), readout="squared_error")
    params = initial_params(squared, np.random.default_rng(0), np.float64)
    with pytest.raises(EngineError, match="backprop is counted for a softmax read-out only"):
        Rival(1).predict(DigitalBackend(squared, params), X)
