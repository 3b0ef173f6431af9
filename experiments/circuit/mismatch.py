"""A circuit whose devices are not what was programmed, and whose diodes bend beside zero.

A device that is programmed to `g` conducts `m g`: `m` is its own for good. A diode that is to hold
its node above, or below, zero holds it above, or below, its own `t`. Such a diode is ideal in
`s' = s - t`, and Kirchhoff's law at a node is there

    (1 + c) s' = W s' + b + [W t - (1 + c) t]

so the circuit is one of ideal diodes with other bias currents: that is what the engine relaxes.

By the chain rule `dC/dg = m dC/d(m g)`. No synapse knows its `m`: it learns from its real voltages
alone, by `dC/d(m g)`, as if what was written were what conducts. With `m > 0` that is downhill all
the same: a small step changes the cost by `-rate sum m (dC/d(m g))^2`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray, checked_sum
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Equilibrium, Plan
from engine.errors import EngineError
from engine.model.dynamics import compliance, recurrent_drive
from engine.model.network import Network
from engine.model.params import Params

DIODES = {"relu": 1.0, "mirrored_relu": 1.0, "linear": 0.0}
"""How many diodes a node has, of those kinds whose threshold moves both its ends alike."""


@dataclass(frozen=True)
class Mismatch:
    """What one specimen of a circuit is, beside its design."""

    gains: FloatArray
    """`m` of each parameter, `(network.size,)`; one for what is no conductance."""
    thresholds: FloatArray
    """`t` of each node in volts, `(units,)`; zero where there is no diode."""
    most: float = np.inf
    """Largest conductance that can be programmed; the least is that of the network."""

    @classmethod
    def none(cls, network: Network, most: float = np.inf) -> "Mismatch":
        """Return the circuit as it was designed."""
        return cls(np.ones(network.size), np.zeros(network.units), most)


def draw_mismatch(
    network: Network,
    rng: np.random.Generator,
    *,
    device: float = 0.0,
    diode: float = 0.0,
    most: float = np.inf,
) -> Mismatch:
    """Draw a specimen: `ln m` and `t` are normal, with the deviations `device` and `diode`."""
    normal = rng.standard_normal(network.size), rng.standard_normal(network.units)
    ideal = Mismatch.none(network, most)
    for name in network.squares:
        span = network.blocks[name].span
        ideal.gains[span] = np.exp(device * normal[0][span])
    for layer in network.layers:
        columns = network.columns[layer.name]
        ideal.thresholds[columns] = DIODES[layer.activation] * diode * normal[1][columns]
    return ideal


class MismatchedCircuit(NumbaBackend):
    """The compiled engine on a specimen; `params` are the words that were programmed."""

    def __init__(self, network: Network, params: Params, mismatch: Mismatch) -> None:
        for layer in network.layers:
            if layer.activation not in DIODES:
                raise EngineError(
                    f"layer '{layer.name}' has nodes of {layer.activation}, whose diodes have no "
                    "threshold in common."
                )
        dtype = params.theta.dtype
        self._gains = mismatch.gains.astype(dtype)
        self._thresholds = mismatch.thresholds.astype(dtype)
        self._most = np.full(network.size, np.inf, dtype)
        for name in network.squares:
            self._most[network.blocks[name].span] = mismatch.most
        super().__init__(network, params)

    @property
    def params(self) -> Params:
        """The programmed words; the voltages are those of `circuit`."""
        return self._words

    @property
    def circuit(self) -> Params:
        """What conducts: the circuit of ideal diodes whose voltages are off by the thresholds."""
        return self._params

    def _load(self, params: Params) -> None:
        self._words = params.copy()
        np.minimum(self._words.theta, self._most, out=self._words.theta)
        super()._load(self._words)
        self._program()

    def _apply(self, update: FloatArray) -> None:
        words = self._words.theta
        words[...] = np.minimum(checked_sum(words, update), self._most)
        self._program()

    def _program(self) -> None:
        """Bring what conducts up to date with the words."""
        held, network, t = self._params, self.network, self._thresholds
        np.multiply(self._words.theta, self._gains, out=held.theta)
        if not t.any():
            return
        state = t[None]
        nothing = np.zeros((1, network.inputs), state.dtype)
        eased = recurrent_drive(network, held, nothing, state)[0]
        given = compliance(network, held)
        assert given is not None  # every circuit has conductances
        shift = (eased - t) / given
        for coupling in network.couplings:
            if coupling.name not in network.squares:  # a current into each node
                held[coupling.name][...] += shift[network.columns[coupling.layers[0]]]

    def _read(self) -> dict[str, FloatArray]:
        return super()._read() | {"the words": self._words.theta}

    def _relax(
        self, clamped: Clamped, plan: Plan, start: FloatArray | None
    ) -> Sequence[Equilibrium]:
        begin = None if start is None else start - self._thresholds
        found = super()._relax(clamped, plan, begin)
        return [replace(one, state=one.state + self._thresholds) for one in found]
