"""Where the units of a layer lie in NIR, and the nodes of a convolution.

The engine orders an image `(height, width, channels)`, NIR `(channels, height, width)`. A coupling
sends signals both ways, and NIR has no transposed convolution. Where windows lie one pixel apart,
that is the convolution with the turned kernel. Where they lie further apart, it has no node, so
the target takes the grid of its source, on which its own pixels lie as far apart as the windows.
The cells between them have no resistance, so that they stay at zero, which every activation leaves
where it is; kernels that read such a grid are dilated. Both ways then carry the very same products.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters.nir_file import nir
from engine.arrays import FloatArray
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT, Link
from engine.couplings.window import Image, Window
from engine.errors import EngineError
from engine.model.network import Network


@dataclass(frozen=True)
class Grid:
    """The place of each unit: in a row, or as pixels `step` cells apart on `sides` cells."""

    units: tuple[int, ...]
    """`(units,)`, or `(height, width, channels)` in pixels."""
    sides: tuple[int, int] | None = None
    """Height and width in cells; a row has none."""
    step: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in NIR: `(units,)`, or `(channels, height, width)` in cells."""
        return self.units if self.sides is None else (self.units[2], *self.sides)

    def spread(self, values: FloatArray) -> FloatArray:
        """Return `(..., size)` in the engine's order as `(..., *shape)`; free cells are zero."""
        if self.sides is None:
            return values.copy()
        lead = values.shape[:-1]
        cells = np.zeros((*lead, *self.shape), values.dtype)
        self._pixels(cells)[...] = np.moveaxis(values.reshape(*lead, *self.units), -1, -3)
        return cells

    def collect(self, cells: FloatArray) -> FloatArray:
        """Return `(..., *shape)` as `(..., size)` in the engine's order."""
        if self.sides is None:
            return cells.copy()
        pixels = np.moveaxis(self._pixels(cells), -3, -1)
        return pixels.reshape(*cells.shape[:-3], -1)

    def _pixels(self, cells: FloatArray) -> FloatArray:
        height, width, _ = self.units
        view: FloatArray = cells[..., :: self.step, :: self.step][..., :height, :width]
        return view

    def seen_through(self, window: Window, pixels: Image) -> "Grid":
        """Return the grid of the `pixels` that see this one through a window."""
        assert self.sides is not None
        shrinks = self.step * (window.kernel - 1 - 2 * window.padding)
        height, width = (side - shrinks for side in self.sides)
        return Grid(pixels, (height, width), self.step * window.stride)


@dataclass(frozen=True)
class Vision:
    """A link that is a convolution: `window` read from `image`."""

    link: Link
    window: Window
    image: Image


def vision_of(coupling: Coupling, network: Network) -> Vision | None:
    """Return what a coupling is as a convolution; `None` if it is none."""
    link, seeing = network.links.get(coupling.name), getattr(coupling, "filter", None)
    if link is None or seeing is None:
        return None
    window = seeing.window
    image: Any = getattr(coupling, "image", network.shapes[link.source])
    same = np.array_equal(link.gather, window.gather(image))
    return Vision(link, window, image) if same else None


def lay_out(network: Network) -> dict[str, Grid]:
    """Return the grid of the input and of every layer, or refuse what fits on none.

    Only what a convolution touches is an image; all else is a row.
    """
    visions = [seen for c in network.couplings if (seen := vision_of(c, network))]
    shared = [seen for seen in visions if not seen.link.clamped]
    above = {seen.link.target for seen in shared}
    grids: dict[str, Grid] = {}
    for seen in visions:
        if seen.link.source not in above:
            _place(grids, seen, seen.link.source, Grid(seen.image, seen.image[:2]))
    for seen in visions:  # one that only the input drives may have any stride
        if seen.link.target not in above:
            pixels = _pixels(network, seen.link.target)
            _place(grids, seen, seen.link.target, Grid(pixels, pixels[:2]))
    while shared:
        ready = [seen for seen in shared if seen.link.source in grids]
        for seen in ready or shared[:1]:
            below = grids.get(seen.link.source) or _refuse(seen)
            pixels = _pixels(network, seen.link.target)
            found = below.seen_through(seen.window, pixels)
            _place(grids, seen, seen.link.target, found)
        shared = [seen for seen in shared if seen not in ready]
    for seen in visions:
        grid = grids[seen.link.target]
        if seen.link.clamped and (grid.step != 1 or grid.sides != grid.units[:2]):
            _refuse(seen)
    return {name: grids.get(name, Grid((size,))) for name, size in network.sizes.items()}


def convolution_nodes(
    seen: Vision, block: FloatArray, grids: dict[str, Grid]
) -> list[tuple[str, str, str, Any]]:
    """Return name, source, target and `nir.Conv2d` of each way that a convolution sends."""
    link, (kernel, stride, padding) = seen.link, seen.window
    source, target = grids[link.source], grids[link.target]
    weight = block.reshape(kernel, kernel, -1, link.fan_out)
    forth = _node(
        weight.transpose(3, 2, 0, 1),
        source,
        stride if link.clamped else 1,
        padding * source.step,
        source.step,
    )
    ways = [(link.block, link.source, link.target, forth)]
    if not link.clamped:
        turned = weight[::-1, ::-1].transpose(2, 3, 0, 1)
        back = _node(turned, target, 1, (kernel - 1 - padding) * source.step, source.step)
        ways.append((f"{link.block}_back", link.target, link.source, back))
    return ways


def block_of(node: Any) -> FloatArray:
    """Return the block `(kernel^2 channels, channels)` of a convolution from its node."""
    weight: FloatArray = node.weight
    return weight.transpose(2, 3, 1, 0).reshape(-1, len(weight))


def _node(weight: FloatArray, source: Grid, stride: int, padding: int, dilation: int) -> Any:
    return nir.Conv2d(
        input_shape=source.sides,
        weight=np.ascontiguousarray(weight),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=1,
        bias=np.zeros(len(weight), weight.dtype),
    )


def _pixels(network: Network, layer: str) -> Image:
    height, width, channels = network.shapes[layer]
    return height, width, channels


def _place(grids: dict[str, Grid], seen: Vision, name: str, grid: Grid) -> None:
    if grids.setdefault(name, grid) != grid:
        _refuse(seen)


def _refuse(seen: Vision) -> Grid:
    link = seen.link
    ends = "the input" if link.source == INPUT else f"layer '{link.source}'"
    raise EngineError(
        f"convolution '{link.block}' from {ends} to layer '{link.target}' has no NIR node: the "
        "other convolutions put their pixels on grids that it does not join."
    )
