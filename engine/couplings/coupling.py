"""Couplings: the terms of the potential `Phi`, each in three closed forms.

`potential` is a scalar for every sample, `drive` is dPhi/ds for each layer the coupling touches,
and `correlate` is dPhi/dw summed over the samples, which is all that its synapses can measure. A
coupling that is a product of two states with a matrix also says which `link` it is: all that
executes, counts or caps it reads the link (`engine.couplings.link`).
The forms hold for numpy arrays and torch tensors, so golden checks the last two against autograd
of the first. `docs/maths.md` derives them; `docs/extending.md` says how to add one.
"""

from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from engine.arrays import Array, FloatArray
from engine.couplings.link import Shapes


@runtime_checkable
class Coupling(Protocol):
    """A term of `Phi` with one block of parameters, `w`.

    States come in the order of `layers`, each `(samples, *shape)`; `x` is `(samples, inputs)`.
    """

    clamped: ClassVar[bool]
    """Whether the drive ignores the state, so that it is computed once for a batch."""

    @property
    def name(self) -> str:
        """Name of the parameter block."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers it touches."""

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """Shape of `w`, given that of every layer and of the input."""

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """Draw a starting value of `w`."""

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """Phi of this coupling for every sample, `(samples,)`."""

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """dPhi/ds for each of `layers`, in any shape; a clamped coupling needs no states."""

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """dPhi/dw summed over samples, in the shape of `w`."""
