"""What the chip is told to do, and every word that the simulated substrate finds while doing it.

A rehearsal plays commands on a `DigitalBackend` and writes down what a test bench needs: the
commands, the words that come from outside, and the words to compare with.
"""

from collections.abc import Iterator

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.model.params import Params
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import GAIN_FRACTION, RANDOM_BITS
from hw_sim.rtl.description import BENCH, filled, hex_lines, module_text, parameters
from hw_sim.rtl.plan import Plan, RtlError
from hw_sim.rtl.schedule import Schedule

LOAD, SAMPLE, FREE, NUDGE, READ, LEARN, LEARN_READOUT, UPDATE, UPDATE_AS_ASKED = range(1, 10)
"""Commands of the chip, as `control.v` numbers them."""
FIELDS = {
    "command": 4, "gain": 16, "limit": 16, "tolerance": 32, "negate": 4, "rate": 8, "read_rate": 8,
    "seed": 32, "steps": 16, "gap": 32, "accumulators": 32, "weights": 32, "spare": 16,
}  # fmt: skip
"""Of a line of the script, with their bits: what is told, and what the command ends with."""
ANY_DISTANCE = 2.0**8
"""A tolerance that no word of a state exceeds."""
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
"""Below this no tolerance of a nudged phase is scaled, as `engine.estimate` has it."""


class Rehearsal:
    """A substrate and its twin, on which every single step is looked at without being counted."""

    def __init__(self, plan: Plan, params: Params, schedule: Schedule) -> None:
        self.plan, self.schedule = plan, schedule
        self.chip = DigitalBackend(plan.network, params, plan.config)
        self._twin = DigitalBackend(plan.network, params, plan.config)
        self.rounding = _rounding(params, self.chip.words)
        self.lines: list[dict[str, int]] = []
        """The script: a line for each command, with its `FIELDS`."""
        self._given: list[int] = []
        self._seen: dict[str, list[int]] = {
            name: [] for name in ("states", "drives", "ends", "errors", "weights")
        }
        self._tell(LOAD, seed=plan.config.seed)
        self._given += self._walked(self.chip.words)
        self._show("weights", self._walked(self.chip.words))

    def train(self, x: FloatArray, y: FloatArray) -> None:
        """Let the chip learn a batch by itself: free phase, two nudges, and its own update."""
        plan, schedule = self.plan, self.schedule
        schedule.check(plan, len(x))
        self._check_targets(y)
        gradient = np.zeros(plan.network.size)
        share = 1.0 / len(x)
        for one in self._samples(x, y):
            free = self._free(one)
            if not plan.direct:
                self.chip.accumulate(one, free, gradient, cost=share)
                self._read(LEARN_READOUT, self._errors(one, free.state), ends=True)
            for sign in (-1, 1):
                phase = self._nudge(one, free, sign * schedule.beta)
                self._learn(phase, negate=sign < 0)
                energy = sign / (2 * schedule.beta) * share
                self.chip.accumulate(one, phase, gradient, energy=energy)
        self._update(-schedule.lr * gradient, len(x), local=True)

    def visit(self, x: FloatArray, y: FloatArray, update: FloatArray) -> None:
        """Settle every sample, with and without nudges, read it, and take a controller's update."""
        self._check_targets(y)
        for one in self._samples(x, y):
            free = self._free(one)
            if not self.plan.direct:
                self.chip.predict(free)
                self._read(READ, self._shares(free.state), ends=False)
            for sign in (1, -1):
                self._learn(self._nudge(one, free, sign * self.schedule.beta), negate=sign < 0)
        self._update(update, len(x), local=False)

    def bench_files(self) -> dict[str, str]:
        """Return the test bench and its words, by the names of their files."""
        plan, widths = self.plan, parameters(self.plan)
        bits = {
            "states": plan.config.state_bits, "drives": plan.config.accumulator_bits,
            "ends": plan.word_bits, "errors": plan.config.state_bits + 1,
            "weights": plan.config.weight_bits,
        }  # fmt: skip
        texts = {f"{name}.hex": hex_lines(words, bits[name]) for name, words in self._seen.items()}
        texts["given.hex"] = hex_lines(self._given, plan.host_bits)
        texts["script.hex"] = "".join(f"{_packed(line)}\n" for line in self.lines)
        counts = {name.upper(): len(words) for name, words in self._seen.items()}
        counts["OWNS"] = counts.pop("ENDS")
        counts |= {"COMMANDS": len(self.lines), "GIVEN": len(self._given)}
        counts["MOST_CYCLES"] = self._most_cycles()
        for name in (BENCH, "stream_check"):
            texts[f"{name}.v"] = filled(module_text(name), {**widths, **counts})
        return texts

    @property
    def words(self) -> int:
        """How many words are compared: all that the chip shows, and how each command ends."""
        phases = sum(line["command"] in (FREE, NUDGE) for line in self.lines)
        return sum(map(len, self._seen.values())) + 2 * len(self.lines) + 2 * phases

    def _samples(self, x: FloatArray, y: FloatArray) -> Iterator[Clamped]:
        """Give one sample after the other to the chip."""
        for n in range(len(x)):
            inputs = self.chip.input_words(x[n : n + 1], counted=False)
            self._given += [*inputs[0].tolist(), *self.chip.target_words(y[n : n + 1])[0].tolist()]
            self._tell(SAMPLE)
            yield self.chip.clamp(x[n : n + 1], y[n : n + 1])

    def _free(self, one: Clamped) -> Equilibrium:
        self._show("drives", one.drive[0].tolist())
        twin = self._twin.clamp(one.x, one.y)
        start = self._twin.settle(twin, relaxation=Relaxation(1, ANY_DISTANCE))
        self._show("states", self._state_words(start.state))
        return self._phase(FREE, one, 0.0, self.schedule.free, None, start.state)

    def _nudge(self, one: Clamped, free: Equilibrium, beta: float) -> Equilibrium:
        relaxation = self.schedule.nudged.nudged(beta, ROUNDING)
        return self._phase(NUDGE, one, beta, relaxation, free.state, free.state)

    def _phase(
        self,
        command: int,
        one: Clamped,
        beta: float,
        relaxation: Relaxation,
        start: FloatArray | None,
        state: FloatArray,
    ) -> Equilibrium:
        """Relax, and show the words that every step found, also those that were dropped."""
        lsb = 2.0**-self.plan.config.state_fraction
        found = self.chip.settle(one, beta, relaxation, start)
        twin, single = self._twin.clamp(one.x, one.y), Relaxation(1, 0.0)
        for _ in range(int(found.steps[0])):
            if command == NUDGE and not self.plan.direct:
                self._show("errors", self._errors(one, state))
            state = self._twin.settle(twin, beta, single, state).state
            self._show("states", self._state_words(state))
        widest = 2 ** (self.plan.config.state_bits + 1) - 1
        gain = int(np.floor(beta * 2**GAIN_FRACTION + 0.5))
        limit, tolerance = relaxation.max_steps, min(int(relaxation.tolerance / lsb), widest)
        self._tell(command, gain=gain, limit=limit, tolerance=tolerance)
        self.lines[-1] |= {"steps": int(found.steps[0]), "gap": round(found.residual[0] / lsb)}
        return found

    def _read(self, command: int, words: list[int], ends: bool) -> None:
        self._show("errors", words)
        if ends:  # every output keeps its error, to learn from it
            self._show("ends", words)
        self._tell(command)

    def _learn(self, phase: Equilibrium, negate: bool) -> None:
        self._show("ends", self._state_words(phase.state))
        self._tell(LEARN, negate=int(negate))

    def _update(self, update: FloatArray, samples: int, local: bool) -> None:
        bits = self.plan.host_bits
        if local:
            rate, read_rate = self.schedule.shifts(self.plan, samples)
        else:
            scale = 2.0 ** (self.plan.config.weight_fraction + RANDOM_BITS)
            most = float(2 ** (bits - 1) - 1)
            asked = np.floor(np.clip(update * scale, -most, most)).astype(np.int64)
            self._given += self._walked(asked)
            rate = read_rate = 0
        self.chip.apply(update.copy())
        self._twin.apply(update.copy())
        self._show("weights", self._walked(self.chip.words))
        self._tell(UPDATE if local else UPDATE_AS_ASKED, rate=rate, read_rate=read_rate)

    def _errors(self, one: Clamped, state: FloatArray) -> list[int]:
        """Return the words that outputs are off by, at a state."""
        targets = self.chip.target_words(one.y)[0]
        return [int(word) for word in np.array(self._shares(state)) - targets]

    def _shares(self, state: FloatArray) -> list[int]:
        """Return the outputs at a state."""
        still = np.zeros(1)
        seen = Equilibrium(state, still.astype(np.int64), still, still == 0.0, 0.0)
        scale = 2.0**self.plan.config.state_fraction
        return [round(float(p) * scale) for p in self._twin.predict(seen)[0]]

    def _state_words(self, state: FloatArray) -> list[int]:
        return [round(float(s) * 2.0**self.plan.config.state_fraction) for s in state[0]]

    def _walked(self, words: IntArray) -> list[int]:
        return [int(words[k]) for k in self.plan.order()]

    def _check_targets(self, y: FloatArray) -> None:
        largest = float(np.abs(y).max())
        if largest > 1.0:
            raise RtlError(f"a target is {largest:g} in size, more than 1, which its word holds.")

    def _show(self, kind: str, words: list[int]) -> None:
        self._seen[kind] += words

    def _tell(self, command: int, **told: int) -> None:
        """Add a command, after the substrate has done what it says."""
        clipped = self.chip.saturations
        ended = {"accumulators": clipped.accumulator, "weights": clipped.weight}
        self.lines.append({"command": command} | told | ended)

    def _most_cycles(self) -> int:
        """Return more cycles than any command takes, by its longest loops."""
        plan = self.plan
        network, state = plan.network, plan.config.state_bits
        sweep = 4 * (network.units + network.outputs + 40) + network.outputs * (state + 8)
        steps = max(self.schedule.free.max_steps, self.schedule.nudged.max_steps)
        return 1000 + network.inputs * 4 + sweep * (steps + 1) + 4 * network.size


def _rounding(params: Params, words: IntArray) -> str:
    """Say what became of the weights when they were rounded to words."""
    lost = int(((words == 0) & (params.theta != 0)).sum())
    return f"Rounded to words, {lost:,} of {len(words):,} weights become zero."


def _packed(line: dict[str, int]) -> str:
    """Return a line of the script as one word, its first field first."""
    word = 0
    for name, bits in FIELDS.items():
        # A counter of an uncompiled kernel is a number of numpy, too narrow for a line.
        word = word << bits | int(line.get(name, 0)) & (1 << bits) - 1
    return f"{word:0{sum(FIELDS.values()) // 4}x}"
