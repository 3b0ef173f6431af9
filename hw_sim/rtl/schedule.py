"""How the chip settles and learns: nudges, steps and learning rates as its words."""

from dataclasses import dataclass, field
from math import log2

import numpy as np

from engine.equilibrium import Relaxation
from hw_sim.chips.fixed_point import GAIN_FRACTION, RANDOM_BITS
from hw_sim.rtl.plan import BATCH_BITS, FURTHEST_SHIFT, GAIN_BITS, Plan, RtlError

MOST_STEPS = 2**16 - 1


@dataclass(frozen=True)
class Schedule:
    """How the chip settles and learns. What it learns by itself has to be powers of two."""

    beta: float = 0.125
    free: Relaxation = field(default_factory=lambda: Relaxation(30, 0.0))
    nudged: Relaxation = field(default_factory=lambda: Relaxation(10, 0.0))
    lr: float = 0.0625

    def __post_init__(self) -> None:
        for name, value in (("beta", self.beta), ("learning rate", self.lr)):
            if not (value > 0 and log2(value).is_integer()):
                raise RtlError(f"the {name} is {value:g}, expected a power of two: synapses shift.")
        for relaxation in (self.free, self.nudged):
            if relaxation.max_steps > MOST_STEPS:
                raise RtlError(
                    f"a phase of {relaxation.max_steps} steps is too long: the chip counts "
                    f"{MOST_STEPS}."
                )

    def check(self, plan: Plan, samples: int) -> None:
        """Refuse what does not fit in the words of the chip."""
        if self.gain >= 2 ** (GAIN_BITS - 1) or self.gain == 0:
            raise RtlError(f"beta {self.beta:g} does not fit in a nudge of {GAIN_BITS} bits.")
        if samples > 2 ** (BATCH_BITS - 1) or not log2(samples).is_integer():
            raise RtlError(
                f"a batch has {samples} samples, expected a power of two of at most "
                f"{2 ** (BATCH_BITS - 1)}: synapses divide by shifting."
            )
        for shift in self.shifts(plan, samples):
            if abs(shift) >= FURTHEST_SHIFT:
                raise RtlError(
                    f"the learning rate {self.lr:g} shifts a trace by {shift} bits, at most "
                    f"{FURTHEST_SHIFT - 1} are possible."
                )

    @property
    def gain(self) -> int:
        """The nudge as a word."""
        return int(np.floor(self.beta * 2**GAIN_FRACTION + 0.5))

    def shifts(self, plan: Plan, samples: int) -> tuple[int, int]:
        """Return the powers of two of a trace that are an update, of couplings and read-out.

        A trace counts products of state words, `2^-2f`, and an update is `2^-(g + 16)`.
        """
        config = plan.config
        unit = config.weight_fraction + RANDOM_BITS - 2 * config.state_fraction
        rate = int(log2(self.lr / samples))
        return unit + rate - int(log2(2 * self.beta)), unit + rate
