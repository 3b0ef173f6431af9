"""A convolution as its couplings share it: windows, in groups of channels, and pools behind them.

    pool(z),    z[p] = (window of a at p) W

In groups the channels of the image and those of the filters are cut into equal parts, and each part
of the filters sees its part of the image alone: `W` is one matrix for each group.
"""

from math import prod
from typing import NamedTuple

import numpy as np

from engine.arrays import Array, namespace
from engine.couplings import pooling as pools
from engine.couplings.effort import Effort, summed
from engine.couplings.pooling import Pooling
from engine.couplings.window import Image, Window
from engine.errors import EngineError, check_count


class Filter(NamedTuple):
    """What is made of an image before it meets the units of a layer."""

    window: Window
    pooling: Pooling
    groups: int

    @property
    def is_plain(self) -> bool:
        """Whether there are neither pools nor groups, so that it is a link."""
        return self.pooling == "none" and self.groups == 1

    def reached(self, what: str, source: Image) -> tuple[int, int]:
        """Return the pixels that it makes of an image, or refuse one that it does not fit."""
        self.window.check(what, source)
        pools.check_pooling(what, self.pooling)
        height, width = (self.window.reached(size) for size in source[:2])
        made = [pools.pooled_size(self.pooling, size) for size in (height, width)]
        if min(made) < 1:
            raise EngineError(f"{what} makes {height} x {width} pixels, too few for a 2 x 2 pool.")
        return made[0], made[1]

    def shape(self, what: str, source: Image, target: Image) -> tuple[int, ...]:
        """Return the shape of `W`, or refuse images that it does not join.

        `(kernel^2 channels, filters)`, or the same of one group behind the number of groups.
        """
        made = self.reached(what, source)
        if target[:2] != made:
            raise EngineError(
                f"{what} makes {made[0]} x {made[1]} pixels of {source[0]} x {source[1]}, "
                f"but its target has {target[0]} x {target[1]}."
            )
        check_count(f"groups of {what}", self.groups)
        for end, channels in (("source", source[2]), ("target", target[2])):
            if channels % self.groups:
                raise EngineError(
                    f"{what} has {self.groups} groups, which do not divide the {channels} channels "
                    f"of its {end}."
                )
        matrix = (self.window.kernel**2 * (source[2] // self.groups), target[2] // self.groups)
        return matrix if self.groups == 1 else (self.groups, *matrix)

    def convolved(self, w: Array, a: Array) -> Array:
        """Return what arrives at the positions, `(samples, height, width, channels)`."""
        if self.groups == 1:
            return self.window.forward(w, a)
        parts = [self.window.forward(w[g], self._group(a, g)) for g in range(self.groups)]
        return namespace(a).concatenate(parts, -1)

    def forward(self, w: Array, a: Array) -> Array:
        """Return what arrives at the target."""
        return pools.pooled(self.pooling, self.convolved(w, a))

    def exchange(self, w: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """Return what arrives at the source, and at the target."""
        z = self.convolved(w, a)
        heard = pools.unpooled(self.pooling, z, b)
        return self._backward(w, heard, a.shape[1:]), pools.pooled(self.pooling, z)

    def correlate(self, w: Array, a: Array, b: Array) -> Array:
        """Return `sum_p (window of a at p)' heard[p]` of all samples, in the shape of `w`."""
        heard = b if self.pooling == "none" else self._heard(w, a, b)
        if self.groups == 1:
            return self.window.correlate(a, heard)
        parts = [
            self.window.correlate(self._group(a, g), self._group(heard, g))
            for g in range(self.groups)
        ]
        return namespace(a).concatenate(parts, 0).reshape(w.shape)

    def effort(self, source: Image, target: Image, both_ways: bool) -> Effort:
        """Return what it costs: a position that fills no pool is never computed.

        A mean is summed up where the units of the target are, and scaled once, either way. The
        largest of four is known when all four are: they are words, and its function.
        """
        _, width, filters = target
        side = 1 if self.pooling == "none" else pools.SIDE
        gather = self.window.gather((*source[:2], 1))
        kept = gather.reshape(*(self.window.reached(size) for size in source[:2]), -1)
        kept = kept[: side * target[0], : side * width]
        reads, units = int(np.count_nonzero(kept >= 0)) * source[2], prod(target)
        positions = kept.shape[0] * kept.shape[1]
        products = positions * self.window.kernel**2 * (source[2] // self.groups) * filters
        there = {"mac": products, "weight_read": products, "state_read": reads}
        back = {"mac": products, "weight_read": products, "state_read": units}
        scaled = {"mac": units} if self.pooling == "mean" else {}
        largest, words = {}, 0
        if self.pooling == "max":
            words = positions * filters
            largest = {"activation": units, "state_read": words, "state_write": words}
        drive = summed(there, largest, scaled)
        learn = {"mac": products, "trace_read": products, "trace_write": products}
        seen = summed(there, largest) if self.pooling == "max" else {}
        return Effort(
            drive=summed(drive, back, scaled) if both_ways else drive,
            correlate=summed(seen, learn, {"state_read": reads + units}, scaled),
            words=words,
        )

    def _heard(self, w: Array, a: Array, b: Array) -> Array:
        """What each position hears from its pool: of a mean, whatever it said itself."""
        if self.pooling == "max":
            return pools.unpooled(self.pooling, self.convolved(w, a), b)
        reached = [self.window.reached(size) for size in a.shape[1:3]]
        shape = (len(b), *reached, b.shape[-1])
        silent = namespace(b).zeros(shape, dtype=b.dtype, device=b.device)
        return pools.unpooled(self.pooling, silent, b)

    def _backward(self, w: Array, heard: Array, source: Image) -> Array:
        if self.groups == 1:
            return self.window.backward(w, heard, source)
        part = (*source[:2], source[2] // self.groups)
        parts = [
            self.window.backward(w[g], self._group(heard, g), part) for g in range(self.groups)
        ]
        return namespace(heard).concatenate(parts, -1)

    def _group(self, pixels: Array, g: int) -> Array:
        """View the channels of a group."""
        size = pixels.shape[-1] // self.groups
        return pixels[..., g * size : (g + 1) * size]
