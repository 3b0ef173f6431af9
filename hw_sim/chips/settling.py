"""How long a crossbar takes whose states stay analog: integrated, not counted in steps.

    ds/dt = -s + T(s)

in time constants of its units, with the weights that its cells have. While a chip simulates such a
phase it iterates `T`, which is one way to its fixed point, and tallies by the step what goes on all
the time: cells conduct, neurons bend, the errors of a softmax are sampled. Here the steps of a
phase are exchanged for the time constants that it really takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.arrays import FloatArray, IntArray
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.chips.messages import input_ways, recurrent_ways
from hw_sim.counts import Amounts, OpCounts

MOST_EVALUATIONS = 20_000
ONCE = ("conversion", "state_write")
"""Events at a layer that end a phase, however long it was: states are read."""


@dataclass(frozen=True)
class Settling:
    """Time constants after which the slowest of some samples had settled."""

    free: float
    nudged: float
    samples: int
    tolerance: float
    """Of the free phase; that of the nudged one is in proportion to its beta."""

    @property
    def phases(self) -> dict[str, float]:
        """The time constants of each phase that relaxes."""
        return {"free": self.free, "nudged": self.nudged}


def measure_settling(
    params: Params, x: FloatArray, y: FloatArray | IntArray, beta: float, tolerance: float
) -> Settling:
    """Integrate the free phase, and from its end both nudges, of samples with these targets.

    Nothing on an analog chip knows when a sample has settled: it waits for the slowest.
    """
    backend = NumbaBackend(params.network, params.astype(float))
    clamped = backend.clamp(x, y)
    way = Relaxation(MOST_EVALUATIONS, tolerance, "ode")
    free = backend.settle(clamped, 0.0, way)
    nudged = [
        backend.settle(clamped, sign * beta, way.nudged(beta), free.state) for sign in (-1, 1)
    ]
    for phase in (free, *nudged):
        if not phase.converged.all():
            raise EngineError(
                f"the crossbar did not settle in {MOST_EVALUATIONS} evaluations: {phase.summary()}."
            )
    longest = [float(phase.times.max()) for phase in (free, *nudged) if phase.times is not None]
    return Settling(longest[0], max(longest[1:]), len(x), tolerance)


def in_time_constants(network: Network, counts: OpCounts | Amounts, settling: Settling) -> Amounts:
    """Exchange the steps of the free and the nudged phase for time constants.

    The counts are those of a crossbar with `convert_each_step` false.
    """
    events: Mapping[tuple[str, str, str], float] = dict(counts)
    factors = {
        phase: time / steps
        for phase, time in settling.phases.items()
        if (steps := steps_of_relaxation(network, events, phase)) > 0.0
    }
    return Amounts(
        {
            (phase, place, kind): count
            * (1.0 if place in network.columns and kind in ONCE else factors.get(phase, 1.0))
            for (phase, place, kind), count in events.items()
        }
    )


def steps_of_relaxation(
    network: Network, events: Mapping[tuple[str, str, str], float], phase: str
) -> float:
    """Return the mean steps of a relaxation: each reads all cells of a layer, and ends once."""
    layer = next(way.link.target for way in input_ways(network))
    heard = (*recurrent_ways(network), *input_ways(network))
    cells = sum(2 * way.link.macs for way in heard if way.ends[1] == layer)
    relaxations = events.get((phase, layer, "conversion"), 0.0) / network.sizes[layer]
    steps = events.get((phase, layer, "cell_read"), 0.0) / cells
    return steps / relaxations if relaxations else 0.0
