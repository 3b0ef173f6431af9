"""The contract on Brian2: the same relaxation and the same local rule as Brian2 equations.

One group of neurons for each layer, one set of synapses for each coupling, all samples side by
side. Couplings send summed variables, the local rule is a subexpression of the synapses. Made to
check the engine, not to be fast: every step is a run of one time step in Brian2's numpy target.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, IntArray, checked_sum
from engine.backend import Backend
from engine.couplings.link import INPUT, ONE, Link
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.errors import EngineError
from engine.model import dynamics
from engine.model.network import Network
from engine.model.params import Params

try:
    import brian2 as b2
except ImportError:
    raise ImportError('this needs Brian2: pip install "settle[brian2]".') from None

# A step is one time step; inside it the parts run in this order. (The sum of a summed variable
# runs one place before the group that it goes to.)
SOFTMAX_ODDS, SOFTMAX_NORM, SOFTMAX_ERROR, DRIVES, IMAGES = 2, 4, 6, 8, 10

FORMULAS = {
    "tanh": "tanh(total)",
    "hard_sigmoid": "clip(total, 0, 1)",
    "relu": "clip(total, 0, inf)",
}


class Brian2Backend(Backend):
    """Run a network in Brian2, in double precision."""

    solvers = frozenset({"fixed_point"})

    @property
    def dtype(self) -> npt.DTypeLike:
        """Double, which is Brian2's own."""
        return np.dtype(np.float64)

    @property
    def params(self) -> Params:
        """The parameters, which every new simulation takes."""
        return self._params

    def _load(self, params: Params) -> None:
        self._params = params.astype(np.float64)

    def _apply(self, update: FloatArray) -> None:
        self._params.theta[...] = checked_sum(self._params.theta, update)

    def _drive(self, x: FloatArray) -> "_Simulation":
        return _Simulation(self.network, self._params, x)

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        simulation: _Simulation = clamped.drive
        state = simulation.origin() if start is None else start.copy()
        simulation.nudge(beta, clamped.y)
        steps, residual = np.zeros(len(state), np.int64), np.zeros(len(state))
        moving = np.ones(len(state), bool)
        for step in range(1, relaxation.max_steps + 1):
            gap = simulation.image(state) - state
            steps[moving], residual[moving] = step, np.abs(gap).max(-1)[moving]
            moving = residual > relaxation.tolerance  # false for NaN, which `relax` reports
            if not moving.any():
                break
            state[moving] += relaxation.damping * gap[moving]
        return Equilibrium(state, steps, residual, residual <= relaxation.tolerance, beta)

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> None:
        simulation: _Simulation = clamped.drive
        total = Params(self.network, gradient)
        simulation.nudge(1.0 if cost != 0.0 else 0.0, clamped.y)
        simulation.image(equilibrium.state)
        if energy != 0.0:
            for coupling in self.network.couplings:
                total[coupling.name][...] -= energy * simulation.correlation(coupling.name)
        reading = self.network.reading
        if cost != 0.0 and reading and reading.link:
            block, bias = total[reading.link.block], total[reading.bias]
            block += cost * simulation.correlation(reading.link.block)
            bias += cost * simulation.errors().sum(0)


class _Simulation:
    """A network and a batch in Brian2: sample `n`, unit `u` is neuron `n size + u` of its layer."""

    def __init__(self, network: Network, params: Params, x: FloatArray) -> None:
        b2.prefs.codegen.target = "numpy"
        self._network, self._params, self._samples = network, params, len(x)
        for coupling in network.couplings:
            if coupling.name not in network.links:
                kind = type(coupling).__name__
                raise EngineError(f"coupling '{coupling.name}' ({kind}) has no Brian2 equation.")
        self._links = list(network.links.values())
        self._x = x
        self._layers: dict[str, Any] = {}
        self._synapses: dict[str, tuple[Any, IntArray]] = {}
        self._input = b2.NeuronGroup(x.size, "s : 1")
        self._input.s = x.ravel()
        for layer in network.layers:
            self._layers[layer.name] = self._layer(layer.name, layer.size, layer.activation)
        for number, link in enumerate(self._links):
            self._couple(number, link)
        self._readout = None
        if network.reading is None:
            kind = type(network.readout).__name__
            raise EngineError(f"the read-out {kind} has no Brian2 equation.")
        if network.reading.link is not None:
            self._readout = self._softmax(network.reading.link, network.reading.bias)
        parts = [self._input, *self._layers.values()]
        parts += [synapses for synapses, _ in self._synapses.values()]
        self._run = b2.Network(*parts, *(self._readout or ()))

    def _layer(self, name: str, size: int, activation: str) -> Any:
        if activation not in FORMULAS:
            known = ", ".join(FORMULAS)
            raise EngineError(f"activation '{activation}' has no Brian2 equation; known: {known}.")
        links = list(enumerate(self._links))
        terms = [f"from_{k}" for k, link in links if link.target == name]
        terms += [f"back_{k}" for k, link in links if link.source == name and not link.tied]
        lines = [f"{term} : 1" for term in terms]
        lines += ["s : 1", "image : 1", "pull : 1", "goal : 1", "beta : 1", "direct : 1"]
        summed = " + ".join([*terms, "0"])
        lines.append(f"total = {summed} - beta * (pull + direct * (s - goal)) : 1")
        group = b2.NeuronGroup(self._samples * size, "\n".join(lines), order=DRIVES)
        group.run_regularly(f"image = {FORMULAS[activation]}", when="groups", order=IMAGES)
        return group

    def _couple(self, number: int, link: Link) -> None:
        target = self._layers[link.target]
        if link.source == ONE:
            everywhere = np.tile(self._params[link.block], self._samples * link.positions)
            setattr(target, f"from_{number}", everywhere)
            return
        source = self._input if link.source == INPUT else self._layers[link.source]
        half = "0.5 * " if link.tied else ""
        model = f"w : 1\nfrom_{number}_post = w * s_pre : 1 (summed)"
        if not (link.tied or link.clamped):
            model += f"\nback_{number}_pre = w * s_post : 1 (summed)"
        self._connect(link, source, target, f"{model}\nhebb = {half}s_pre * s_post : 1")

    def _connect(self, link: Link, source: Any, target: Any, model: str) -> None:
        """Join the units that a link joins, in every sample; a weight may have many synapses."""
        place, row, column = np.indices((link.positions, link.fan_in, link.fan_out))
        unit = link.gather[place, row]
        there = unit >= 0
        i, j = unit[there], (place * link.fan_out + column)[there]
        weight = (row * link.fan_out + column)[there]
        sample, reached = np.arange(self._samples)[:, None], link.positions * link.fan_out
        synapses = b2.Synapses(source, target, model)
        synapses.connect(i=(sample * link.size + i).ravel(), j=(sample * reached + j).ravel())
        synapses.w = np.tile(self._params[link.block].ravel()[weight], self._samples)
        self._synapses[link.block] = (synapses, weight)

    def _softmax(self, link: Link, bias: str) -> tuple[Any, Any, Any]:
        """Outputs, the norm of each softmax, and what they send back."""
        softmaxes = self._samples * link.positions
        outputs = b2.NeuronGroup(
            softmaxes * link.fan_out,
            "logits : 1\nbias : 1\nodds : 1\ns : 1\ngoal : 1\nnorm : 1 (linked)",
            order=SOFTMAX_ODDS,
        )
        outputs.bias = np.tile(self._params[bias], softmaxes)
        pool = b2.NeuronGroup(softmaxes, "norm : 1", order=SOFTMAX_NORM)
        owner = np.repeat(np.arange(softmaxes), link.fan_out)
        outputs.norm = b2.linked_var(pool, "norm", index=owner)
        outputs.run_regularly("odds = exp(logits + bias)", when="groups", order=SOFTMAX_ODDS)
        outputs.run_regularly("s = odds / norm - goal", when="groups", order=SOFTMAX_ERROR)
        gather = b2.Synapses(outputs, pool, "norm_post = odds_pre : 1 (summed)")
        gather.connect(i=np.arange(len(owner)), j=owner)
        model = "w : 1\nlogits_post = w * s_pre : 1 (summed)\npull_pre = w * s_post : 1 (summed)"
        layer = self._layers[link.source]
        self._connect(link, layer, outputs, f"{model}\nhebb = s_pre * s_post : 1")
        return outputs, pool, gather

    def origin(self) -> FloatArray:
        """`sigma` of the clamped drive, where a relaxation begins by itself."""
        drive = dynamics.clamped_drive(self._network, self._params, self._x)
        state: FloatArray = dynamics.activate(self._network, drive)
        return state

    def nudge(self, beta: float, y: FloatArray | None) -> None:
        """Set the nudge of the layer that is read out, and the targets."""
        layer = self._layers[self._network.readout.layer]
        layer.beta = beta
        goal = np.zeros(self._samples * self._network.outputs) if y is None else y.ravel()
        if self._readout is not None:
            self._readout[0].goal = goal
        else:
            layer.direct, layer.goal = 1.0, goal

    def image(self, state: FloatArray) -> FloatArray:
        """Let Brian2 compute `T(s)` in one time step."""
        for name, group in self._layers.items():
            group.s = np.ravel(self._network.of(name, state))
        self._run.run(b2.defaultclock.dt, namespace={})
        images = [
            np.array(group.image[:]).reshape(self._samples, -1) for group in self._layers.values()
        ]
        return np.concatenate(images, axis=1)

    def correlation(self, name: str) -> FloatArray:
        """What the synapses of a block measure, summed over samples, in the shape of the block."""
        if name not in self._synapses:  # a bias: its synapse has one end
            states = np.array(self._layers[self._network.links[name].target].s[:])
            total: FloatArray = states.reshape(-1, self._params[name].size).sum(0)
            return total
        synapses, weight = self._synapses[name]
        measured = np.array(synapses.hebb[:]).reshape(self._samples, -1).sum(0)
        found = np.zeros_like(self._params[name])
        np.add.at(found.reshape(-1), weight, measured)
        return found

    def errors(self) -> FloatArray:
        """`p - y` of the outputs, one row for each softmax."""
        if self._readout is None:
            raise EngineError("a read-out inside the energy has no errors of its own.")
        found: FloatArray = np.array(self._readout[0].s[:]).reshape(len(self._readout[1]), -1)
        return found
