"""What stopped being finite, kept on the device until somebody asks.

To ask a device after every phase would be to wait for it. So the first fault is written down there,
no update is applied from then on, and `Faults.tell` reads the note.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adapters.torch_arrays import torch
from engine.equilibrium import Equilibrium, divergence_of
from engine.errors import DivergenceError

Tensor = torch.Tensor

NONE, STATE, UPDATE = range(3)


class Faults:
    """The first fault: its kind, and the sample, the step and the beta of a state."""

    def __init__(self, device: torch.device) -> None:
        self._kinds = [torch.full((1,), kind, device=device) for kind in (NONE, STATE, UPDATE)]
        self._bits: dict[float, Tensor] = {}
        self._forget()

    def _forget(self) -> None:
        self._first = self._kinds[NONE].repeat(4)

    @property
    def none_yet(self) -> Tensor:
        """Whether nothing has been noted, a scalar on the device."""
        return self._first[0] == NONE

    def watch_states(self, equilibria: Sequence[Equilibrium]) -> None:
        """Note the first sample whose state or residual is not finite."""
        found: Sequence[Any] = equilibria  # of tensors
        samples = len(found[0].state)
        # A maximum hands NaN on, and takes fewer passes than to ask of every number.
        heights = [torch.maximum(e.state.abs().amax(-1), e.residual) for e in found]
        bad = ~torch.cat(heights).isfinite()
        row = bad.int().argmax()[None]
        step = torch.cat([e.steps for e in found]).index_select(0, row)
        beta = torch.cat([self._bits_of(e.beta) for e in found]).index_select(0, row // samples)
        self._note(bad.any(), torch.cat([self._kinds[STATE], row % samples, step, beta]))

    def watch_update(self, bad: Tensor) -> None:
        """Note an update that leads beyond all bounds, a scalar that says so."""
        self._note(bad, self._kinds[UPDATE].repeat(4))

    def _note(self, bad: Tensor, fault: Tensor) -> None:
        self._first = torch.where(bad & self.none_yet, fault, self._first)

    def _bits_of(self, beta: float) -> Tensor:
        """The beta as a whole number, which holds it exactly; uploaded once."""
        if beta not in self._bits:
            bits = int(np.float64(beta).view(np.int64))
            self._bits[beta] = torch.full_like(self._kinds[NONE], bits)
        return self._bits[beta]

    def tell(self) -> None:
        """Read the note; raise what it says, and forget it."""
        kind, sample, step, bits = self._first.tolist()
        if kind == NONE:
            return
        self._forget()
        if kind == STATE:
            raise divergence_of(sample, step, float(np.int64(bits).view(np.float64)))
        raise DivergenceError("the update makes a parameter overflow; nothing was applied.")
