"""What the hardware command offers, by name: to import the chips themselves takes seconds."""

import argparse
import re

from experiments.options import known, meant, present_path

BUILT = ("looped", "deep", "conv")
"""Networks that the command builds."""
TRANSFORMER = "transformer"
SIZES = re.compile(r"\d+(-\d+){2,}")
SPELLINGS = (*BUILT, TRANSFORMER, "sizes such as 64-128-10", "a saved network FILE.npz")
SUBSTRATES = {
    "digital": ("digital_45nm", "digital_7nm", "gpu", "microcontroller"),
    "crossbar": ("rram_crossbar",),
    "spiking": ("loihi_like",),
}
"""The chips, each with the technologies that price it; `hw_sim.chips.catalogue` has the chips."""
CELLS = (
    "rram_isaac", "rram_neurram", "rram_2v", "neurosim_ideal", "neurosim_real", "pcm",
)  # fmt: skip
"""Devices that a crossbar may be made of; `hw_sim.prices.cell_presets` has their numbers."""
TECHNOLOGIES = tuple(name for names in SUBSTRATES.values() for name in names)
PRICE_FILES = (".toml", ".yaml", ".yml")


def network(text: str) -> str:
    """Return what names a network, for `type=` of an option."""
    if text.endswith(".npz"):
        return str(present_path(text))
    if text in (*BUILT, TRANSFORMER) or SIZES.fullmatch(text):
        return text
    near = meant(text, (*BUILT, TRANSFORMER))
    raise argparse.ArgumentTypeError(
        f"there is no network {text[:40]!r}; known: {', '.join(SPELLINGS)}{near}"
    )


def technology(text: str) -> str:
    """Return what names a technology or a file with prices, for `type=` of an option."""
    is_file = text.endswith(PRICE_FILES)
    return str(present_path(text)) if is_file else known("technology", TECHNOLOGIES)(text)
