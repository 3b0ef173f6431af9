"""All chips that there are, by name: the one list that a new one has to enter."""

from hw_sim.chips.crossbar import CROSSBAR
from hw_sim.chips.digital import DIGITAL
from hw_sim.chips.spiking import SPIKING

CHIPS = {chip.name: chip for chip in (DIGITAL, CROSSBAR, SPIKING)}
