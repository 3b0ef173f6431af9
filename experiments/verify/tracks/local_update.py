"""Track 27: a synapse learns from its own two ends; a backprop rule in its place is found out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from adapters.torch_autograd import bptt_gradient
from adapters.torch_backend import TorchBackend
from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.learning.optimizer import Adam
from engine.learning.spectral import SpectralCap, recurrent_norm, starting_vectors
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params
from experiments.reporting.document import Table
from experiments.verify.dependencies import (
    Offence,
    Rule,
    eqprop_rule,
    readout_gap,
    state_offences,
    traced_offences,
    weight_offences,
)
from experiments.verify.digits import seeds
from experiments.verify.track import Check, Finding, Size, Track, TrackSize
from golden.cases import Factory, initial_case

CLAIM = (
    "The update of a synapse depends on the states at its two ends in the phases and on nothing "
    "else: no other state, no other weight. Backpropagation put in its place fails the same test."
)
BACKENDS: dict[str, Factory] = {
    "numba": NumbaBackend,
    "torch": partial(TorchBackend, device="cpu"),
}
BETA = 0.1
SETTLED = Relaxation(max_steps=2000, tolerance=1e-12)
WEIGHTS = 40
"""How many weights, drawn at random, are changed one after the other."""
UNROLLED = 5
"""Steps of the backprop rule, from the equilibrium on."""
ROUNDING = 1e-12
KEPT = 30
"""Offences of a trial that are written down, about."""


@dataclass(frozen=True)
class Trial:
    """One rule on one network: what was disturbed, and what should not have moved but did."""

    network: str
    rule: str
    seed: int
    disturbed: int
    offences: tuple[Offence, ...]


@dataclass(frozen=True)
class Prepared:
    """A network at its equilibria: everything that a rule may be given."""

    params: Params
    clamped: Clamped
    free: Equilibrium
    phases: tuple[tuple[float, Equilibrium], ...]
    weights: tuple[int, ...]


def verify(size: Size) -> Finding:
    """Disturb what a synapse must not see, and trace what its rule reads."""
    trials: list[Trial] = []
    gaps, traced, global_changes = [], 0, []
    for seed in seeds(size.seeds):
        for name, network in networks(size.amount).items():
            prepared = prepare(network, seed)
            rules = {f"EqProp, {n}": eqprop_rule(make) for n, make in BACKENDS.items()}
            rules["Backprop"] = backprop_rule
            trials += [try_rule(name, n, seed, rule, prepared) for n, rule in rules.items()]
            gaps += [
                readout_gap(make(network, prepared.params), prepared.clamped, prepared.free)
                for make in BACKENDS.values()
            ]
            traced += len(list(traced_offences(network, prepared.params)))
            global_changes.append((name, seed, count_cap_changes(prepared)))
    own = [trial for trial in trials if trial.rule != "Backprop"]
    foreign = [trial for trial in trials if trial.rule == "Backprop"]
    checks = (
        Check("EqProp: dependencies beyond the two ends", _count(own), "=", 0.0),
        Check("EqProp: the same, by tracing the local rules", float(traced), "=", 0.0),
        Check.of_all("Read-out: largest change with both ends held", gaps, "<=", ROUNDING),
        Check.of_all(
            "Backprop: fewest dependencies beyond the two ends on a network",
            [len(trial.offences) for trial in foreign],
            ">=",
            1.0,
        ),
        Check("Adam: parameters moved by another's gradient", float(count_adam_leaks()), "=", 0.0),
    )
    return Finding(
        experiment=(
            f"A looped and a layered network of {size.amount} units a layer settle freely and "
            f"nudged (beta ±{BETA:g}), {size.repeats}, double precision. Then one unit after "
            f"the other is given another state in all phases, and {WEIGHTS} weights drawn at "
            "random are changed one after the other with all states held. The update of every "
            "synapse that does not end there has to be the same in every bit. Independently, every "
            "coupling computes its rule with numbers that remember what they were computed from. "
            f"The same disturbances are given to a rule that backpropagates through {UNROLLED} "
            "steps."
        ),
        checks=checks,
        tables=(_trial_table(trials), _cap_table(global_changes)),
        limits=(
            "The spectral cap is not local: it needs the norm of a whole matrix, and its "
            "projection moves weights by what other weights are. The second table shows that. It "
            "is a constraint beside the learning rule, and training also runs without it.",
            "A read-out synapse sees the error of its output unit. The softmax behind that error "
            "is normalised over all outputs, so the output units have to share one number.",
            "Attention is not examined: its synapses see what arrives at a query or a key, which "
            "is summed over the tokens on the way and is no state of a unit.",
            "A safe beta chosen by the engine (beta = 'auto') looks at the whole read-out matrix.",
            "That the two phases have to be held until a synapse has seen both is not a "
            "dependency, but it is a demand on hardware.",
        ),
        measurements={
            "trials": [
                {
                    "network": trial.network,
                    "rule": trial.rule,
                    "seed": trial.seed,
                    "disturbed": trial.disturbed,
                    "offences": [str(offence) for offence in _sample(trial.offences)],
                    "count": len(trial.offences),
                }
                for trial in trials
            ],
            "readout_gaps": gaps,
        },
    )


def networks(units: int) -> dict[str, Network]:
    """Return the networks on which rules are tried."""
    return {"looped": looped_mlp(4, units, 3), "layered": layered((4, units, units, 3))}


def prepare(network: Network, seed: int) -> Prepared:
    """Draw weights and data and settle in every phase."""
    rng = np.random.default_rng(seed)
    case = initial_case("", network, rng, norm=0.9)
    backend = NumbaBackend(network, case.params)
    clamped = backend.clamp(case.x, case.y)
    free = backend.settle(clamped, relaxation=SETTLED)
    phases = tuple(
        (sign / (2 * BETA), backend.settle(clamped, sign * BETA, SETTLED, free.state))
        for sign in (-1.0, 1.0)
    )
    count = min(WEIGHTS, network.size)
    weights = rng.choice(network.size, count, replace=False)
    return Prepared(case.params, clamped, free, phases, tuple(int(w) for w in weights))


def backprop_rule(
    params: Params, clamped: Clamped, phases: Sequence[tuple[float, Equilibrium]]
) -> FloatArray:
    """Return the gradient by backpropagation through steps from the state of the last phase."""
    start = phases[-1][1].state
    y = clamped.y if clamped.y is not None else np.empty((0, params.network.outputs))
    return bptt_gradient(params.network, params, clamped.x, y, UNROLLED, start)


def try_rule(network: str, name: str, seed: int, rule: Rule, prepared: Prepared) -> Trial:
    """Disturb units and weights, and list every change where there should be none."""
    given = (rule, prepared.params, prepared.clamped, prepared.phases)
    offences = [*state_offences(*given), *weight_offences(*given, prepared.weights)]
    disturbed = prepared.params.network.units + len(prepared.weights)
    return Trial(network, name, seed, disturbed, tuple(offences))


def count_adam_leaks() -> int:
    """Give one parameter a gradient and count the others that move."""
    gradient, optimizer = np.zeros(50), Adam()
    gradient[7] = 1.0
    update = optimizer.update(gradient, np.zeros((optimizer.moments, 50)), 0, optimizer.lr)
    return int(np.count_nonzero(np.delete(update, 7)))


def count_cap_changes(prepared: Prepared) -> tuple[int, int]:
    """Return how many recurrent weights differ after the cap if one is raised, and of how many."""
    params = prepared.params.copy()
    name = params.network.recurrent[0].name
    cap = SpectralCap(0.9 * recurrent_norm(params))
    moved = params.copy()
    moved[name][0, 1] += 0.1
    if len(params.network.layers) == 1:
        moved[name][1, 0] += 0.1
    for changed in (params, moved):
        cap.enforce(changed.network, changed, 0, starting_vectors(changed.network))
    return int(np.count_nonzero(moved[name] != params[name])), params[name].size


def _sample(offences: Sequence[Offence]) -> Sequence[Offence]:
    """Return some of them, of all kinds: there may be thousands."""
    return offences[:: max(1, len(offences) // KEPT)]


def _count(trials: Sequence[Trial]) -> float:
    return float(sum(len(trial.offences) for trial in trials))


def _trial_table(trials: Sequence[Trial]) -> Table:
    rows = []
    for key in dict.fromkeys((trial.network, trial.rule) for trial in trials):
        found = [trial for trial in trials if (trial.network, trial.rule) == key]
        first = next((str(o) for trial in found for o in trial.offences), "none")
        disturbed = sum(trial.disturbed for trial in found)
        rows.append((*key, first, f"{disturbed:,}", f"{_count(found):,.0f}"))
    return Table(
        "Updates that changed although neither end of the synapse did",
        ("Network", "Rule", "The first offence", "Disturbed", "Offences"),
        tuple(rows),
        text_columns=3,
    )


def _cap_table(found: Sequence[tuple[str, int, tuple[int, int]]]) -> Table:
    rows = tuple((name, str(seed), str(moved), str(size)) for name, seed, (moved, size) in found)
    return Table(
        "The spectral cap is not local (not judged)",
        ("Network", "Seed", "Weights moved", "Of"),
        rows,
        caption="Recurrent weights that come out differently after the projection when a single "
        "one was raised before it.",
    )


TRACK = Track(
    number=27,
    title="Local update",
    claim=CLAIM,
    unit="units a layer",
    sizes={
        TrackSize.QUICK: Size(1, 6),
        TrackSize.DEFAULT: Size(3, 12),
        TrackSize.FULL: Size(5, 24),
    },
    verify=verify,
)
