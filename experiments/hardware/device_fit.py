"""A measured device in the report: its points beside the curve that stands for all cells."""

from matplotlib.figure import Figure as Drawing

from experiments.hardware.contest import Summary
from experiments.reporting.document import Table
from experiments.reporting.number_text import number
from experiments.reporting.plot_style import (
    BLUE,
    SOFT,
    VERMILION,
    add_legend,
    draw_panels,
    is_leftmost,
)
from hw_sim.chips.crossbar import CROSSBAR
from hw_sim.chips.devices import Device, Response, load_device

MARKS = 60
"""Points beyond which a branch is drawn thinner."""


def device_of(summary: Summary) -> Device | None:
    """Return the device that the crossbar was set to, if it ran with one."""
    for group in summary.outcomes.values():
        path = group[0].settings[CROSSBAR.name]["device"]
        if group[0].substrate == CROSSBAR.name and path:
            return load_device(path)
    return None


def draw_device(device: Device | None) -> Drawing | None:
    """Draw both branches: measured levels over pulses, and the fitted curve."""
    if device is None:
        return None
    branches = {"Potentiation": device.up, "Depression": device.down}
    titles = [f"{name}, rms {_share(way.rms_error)} %" for name, way in branches.items()]
    figure, grid = draw_panels(titles, height=2.9)
    for axes, way in zip(grid, branches.values(), strict=True):
        size = 4.0 if len(way.pulses) <= MARKS else 1.5
        axes.plot(way.pulses, 100 * way.measured, "o", color=VERMILION, markersize=size)
        axes.plot(way.knots[0], 100 * way.knots[1], color=BLUE, linewidth=1.4)
        axes.axhline(0.0, color=SOFT, linewidth=0.6)
        axes.axhline(100.0, color=SOFT, linewidth=0.6)
        axes.set_xlabel("pulses")
        if is_leftmost(axes):
            axes.set_ylabel("level, % of the range")
    add_legend(figure, [("measured", VERMILION, ":"), ("model of a cell", BLUE, "-")])
    return figure


def device_table(device: Device | None) -> Table | None:
    """State what the curve leaves of the measured levels, in percent of the range."""
    if device is None:
        return None
    rows = tuple(
        (name, str(len(way.pulses)), _share(way.rms_error), _share(_largest(way)))
        for name, way in (("potentiation", device.up), ("depression", device.down))
    )
    header = ("Branch", "Points", "Residual, rms, %", "largest, %")
    caption = (
        "Measured levels against the curve, in percent of the range of the device, which takes "
        f"{device.pulses:.3g} pulses; Roff / Ron is {device.on_off_ratio:.3g}."
    )
    return Table("Fit of the device", header, rows, caption)


def _largest(way: Response) -> float:
    return float(abs(way.measured - way.fitted).max())


def _share(value: float) -> str:
    return number(100 * value, 2)
