"""Cells of crossbars by name: what is known of a device, each number with its source and status.

A preset changes the settings of the crossbar that it states, and prices of its cells in every
technology that prices cells; all else stays as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hw_sim.prices.price import Price
from hw_sim.prices.technology import Technology

MLP = "MLP+NeuroSim 3.0, Cell.cpp"
ENDURANCE = Price(
    "weight_write", 1e8, 1e6, 1e9, "writes", "any", "endurance of resistive cells", "recalled"
)


@dataclass(frozen=True)
class Stated:
    """A setting of the crossbar with what it rests on."""

    value: float
    source: str
    status: str


@dataclass(frozen=True)
class CellPreset:
    """A device: settings of the crossbar, and what a read and a write of its cell take."""

    title: str
    settings: Mapping[str, Stated]
    read: Price
    write: Price
    endurance: Price = ENDURANCE

    def assignments(self, chip: str) -> list[str]:
        """Return the settings as `--set` takes them."""
        return [f"{chip}.{name}={stated.value:g}" for name, stated in self.settings.items()]


def read_price(
    on_ohm: float, off_ohm: float, source: str, volt: float = 0.2, second: float = 1e-8
) -> Price:
    """Return `V^2 G t`: of a cell that is on; low one that is off in a tenth of the time, high ten.

    The time of a read is that of settling, which nobody states for a cell alone.
    """
    energy = volt**2 * second
    ends = energy / on_ohm, 0.1 * energy / off_ohm, 10 * energy / on_ohm
    said = f"V^2 G t at {volt:g} V and {1e9 * second:g} ns: {source}"
    return Price("cell_read", *ends, "fJ", "any", said, "recalled")


def write_price(picojoule: float, low: float, high: float, source: str, status: str) -> Price:
    """Return what one pulse takes."""
    ends = 1e-12 * picojoule, 1e-12 * low, 1e-12 * high
    return Price("weight_write", *ends, "pJ", "any", source, status)


RRAM_WRITE = write_price(1.0, 0.1, 10.0, "RRAM write pulse", "recalled")


def _read(value: float, source: str) -> Stated:
    return Stated(value, source, "read")


PRESETS = {
    "rram_isaac": CellPreset(
        "RRAM of ISAAC, 1.33 and 20 kOhm",
        {"on_off_ratio": _read(15.0, "ISAAC (Shafiee et al. 2016): 1.33 kOhm on, 20 kOhm off")},
        read_price(1.33e3, 2e4, "ISAAC (Shafiee et al. 2016), 1.33 and 20 kOhm"),
        RRAM_WRITE,
    ),
    "rram_neurram": CellPreset(
        "RRAM of NeuRRAM, 250 kOhm and 1 MOhm",
        {"on_off_ratio": _read(4.0, "NeuRRAM: 250 kOhm on, 1 MOhm off")},
        read_price(2.5e5, 1e6, "NeuRRAM, 250 kOhm and 1 MOhm"),
        RRAM_WRITE,
    ),
    "rram_2v": CellPreset(
        "RRAM set at 2 V, 6 and 900 kOhm",
        {"on_off_ratio": _read(150.0, "NeuroSim: 6 kOhm on, 900 kOhm off, 2 V set")},
        read_price(6e3, 9e5, "NeuroSim, 6 and 900 kOhm"),
        RRAM_WRITE,
    ),
    "neurosim_ideal": CellPreset(
        "Ideal analog cell of NeuroSim, 0.2 and 10 MOhm",
        {
            "on_off_ratio": _read(50.0, f"{MLP}, IdealDevice: 5 uS on, 100 nS off"),
            "levels": _read(64, f"{MLP}, IdealDevice: 64 states"),
            "nonlinearity": _read(0.0, f"{MLP}, IdealDevice"),
            "asymmetry": _read(0.0, f"{MLP}, IdealDevice"),
            "device_variation": _read(0.0, f"{MLP}, IdealDevice"),
            "cycle_variation": _read(0.0, f"{MLP}, IdealDevice"),
            "read_noise": _read(0.0, f"{MLP}, IdealDevice: read noise is off"),
        },
        read_price(2e5, 1e7, f"{MLP}, IdealDevice", 0.5, 5e-9),
        write_price(0.102, 0.004, 0.2, f"{MLP}, IdealDevice: V^2 G t at 2 V, 10 ns and the mean "
                    "conductance; low off, high on", "read"),
    ),
    "neurosim_real": CellPreset(
        "Nonlinear analog cell of NeuroSim, 0.1 and 2.1 MOhm",
        {
            "on_off_ratio": _read(21.0, f"{MLP}, RealDevice: 10 uS on, 476 nS off"),
            "levels": _read(31, f"{MLP}, RealDevice: 31 states"),
            "nonlinearity": Stated(
                4.0, f"{MLP}, RealDevice: label 4.22, a last pulse of exp(-4) of the first",
                "second-hand",
            ),
            "asymmetry": _read(0.0, f"{MLP}, RealDevice: labels 4.22 and -4.22"),
            "device_variation": _read(0.0, f"{MLP}, RealDevice: sigma 0"),
            "cycle_variation": _read(
                0.155, f"{MLP}, RealDevice: 0.005 of the range, of which a pulse is 1 in 31"
            ),
            "read_noise": _read(0.0, f"{MLP}, RealDevice: read noise is off"),
        },
        read_price(1e5, 2.1e6, f"{MLP}, RealDevice", 0.5, 5e-9),
        write_price(1.68, 0.152, 3.2, f"{MLP}, RealDevice: V^2 G t at 2 V, 80 ns and the mean "
                    "conductance; low off, high on", "read"),
    ),
    "pcm": CellPreset(
        "Phase-change memory, 40 kOhm and 4 MOhm",
        {
            "on_off_ratio": Stated(100.0, "phase-change cells: 25 uS on, 0.25 uS off", "recalled"),
            "asymmetry": Stated(0.5, "melting resets a cell at once; guessed", "recalled"),
            "cycle_variation": Stated(0.3, "spread of a pulse; guessed", "recalled"),
        },
        read_price(4e4, 4e6, "phase-change cells, 40 kOhm and 4 MOhm"),
        write_price(10.0, 1.0, 30.0, "PCM write pulse", "recalled"),
    ),
}  # fmt: skip
"""By the names that `--cells` takes."""


def priced_with(technology: Technology, preset: CellPreset) -> Technology:
    """Return a technology with the prices of a preset, if it prices cells at all."""
    if "cell_read" not in technology.prices["energy"]:
        return technology
    prices = {section: dict(group) for section, group in technology.prices.items()}
    prices["energy"] |= {"cell_read": preset.read, "weight_write": preset.write}
    prices["endurance"]["weight_write"] = preset.endurance
    return replace(technology, prices=prices)
