"""What a chip is to those who list, set, build, price or train it: one object for each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.model.network import Network
from engine.model.params import Params
from hw_sim.chips.settings import ChipSettings
from hw_sim.chips.substrate import Substrate

DENSE = (
    "mac", "activation", "state_read", "state_write", "weight_read", "weight_write", "trace_read",
    "trace_write", "off_chip", "compare", "divide",
)  # fmt: skip
"""Events of every chip."""


@dataclass(frozen=True)
class Chip:
    """A kind of simulated chip."""

    name: str
    """As options, settings and reports call it."""
    backend: Callable[[Network, Params, Any], Substrate]
    settings: ChipSettings
    """What it is like, unless it is set otherwise."""
    technologies: tuple[str, ...]
    """In which it is priced, unless one is asked for."""
    events: tuple[str, ...]
    """What has to have a price before it is run."""
    tuned: Mapping[str, Mapping[str, float]]
    """Learning rates by network and learner, chosen by `python -m experiments.hardware --tune` on
    the validation part of digits with seeds that no report uses."""

    def build(self, network: Network, params: Params, settings: ChipSettings) -> Substrate:
        """Return the chip with a network loaded."""
        return self.backend(network, params, settings)

    def settings_from(self, values: Mapping[str, Any]) -> ChipSettings:
        """Return settings from their values by name; what is left out is as in their class."""
        return type(self.settings)(**values)
