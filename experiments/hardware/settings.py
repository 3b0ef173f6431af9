"""The settings of the hardware runs, and how `--set` changes them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from engine.equilibrium import Relaxation
from engine.errors import EngineError, check_count
from engine.learning.optimizer import Adam
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training
from experiments.assignments import assigned, split_assignment
from experiments.hardware.choices import BUILT
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.crossbar import CROSSBAR
from hw_sim.chips.settings import ChipSettings

UNBOUNDED = (f"{CROSSBAR.name}.on_off_ratio",)
"""Settings that may be larger, even infinite: an ideal device has no current when it is off."""
RIVALS = ("backprop", "bptt")
LEARNERS = ("eqprop", *RIVALS)
LOOPED, DEEP, CONV = BUILT
NETWORKS = {LOOPED: LEARNERS, DEEP: LEARNERS, CONV: LEARNERS}
"""What `--network` knows, and who is counted on it."""


def learners_of(network: str) -> tuple[str, ...]:
    """Return who is counted on a network: on the user's own it is EqProp alone."""
    return NETWORKS.get(network, LEARNERS[:1])


BETA = 0.6
"""Came out of the tuning for every chip; the learning rates are theirs (`hw_sim.chips`)."""


@dataclass(frozen=True)
class Settings:
    """Everything that a run depends on, apart from task, learner, substrate and seed."""

    hidden: int = 64
    """Units of the looped network, or of each layer of the deep one."""
    layers: int = 2
    """Hidden layers of the deep network."""
    channels: int = 8
    """Of the first layer of a convolutional network; the second has twice as many."""
    activation: str = "tanh"
    """Of all units: tanh or hard_sigmoid, which are those that chips relax."""
    backprop_activation: str | None = None
    """Of plain backprop, which relaxes nothing: relu, too. None: as all."""
    epochs: int = 10
    looks: int = 4
    """At the validation part, in each epoch: where accuracy lies between them is interpolated."""
    batch_size: int = 32
    lr: float | None = None
    """None: as tuned for the learner and the substrate."""
    beta: float = BETA
    free_steps: int = 20
    nudged_steps: int = 10
    tolerance: float = 1e-3
    cap: float = 0.9
    cap_every: int = 5
    local_optimizer: bool = False
    """Whether the optimizer sits at the synapses, or gradients go to a controller and back."""
    bptt_steps: int = 10
    """Steps of the unrolled network; EqProp needs about as many to settle."""
    chips: Mapping[str, ChipSettings] = field(
        default_factory=lambda: {name: chip.settings for name, chip in CHIPS.items()}
    )

    def __post_init__(self) -> None:
        check_count("looks", self.looks)

    def chosen(self, learner: str, substrate: str, network: str = LOOPED) -> "Settings":
        """Return the same with the learning rate that was tuned, if it is open.

        A network for which none was tuned has those of the looped one.
        """
        tuned = CHIPS[substrate].tuned
        return (
            replace(self, lr=tuned.get(network, tuned[LOOPED])[learner])
            if self.lr is None
            else self
        )

    def on_chip(self, name: str, settings: ChipSettings) -> "Settings":
        """Return the same with other settings of one chip."""
        return replace(self, chips={**self.chips, name: settings})

    def values(self) -> dict[str, Any]:
        """Return everything by name, as plain values; those of a chip under its own name."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "chips"}
        return plain | {name: asdict(chip) for name, chip in self.chips.items()}

    @property
    def free(self) -> Relaxation:
        """How a free phase relaxes."""
        return Relaxation(self.free_steps, self.tolerance)

    def training(self, seed: int) -> Training:
        """Return the settings as the engine takes them."""
        assert self.lr is not None, "choose the learner and the substrate first"
        return Training(
            epochs=self.epochs,
            batch_size=self.batch_size,
            beta=self.beta,
            free=self.free,
            nudged=replace(self.free, max_steps=self.nudged_steps),
            optimizer=Adam(self.lr),
            cap=SpectralCap(self.cap, self.cap_every),
            seed=seed,
        )


def changed(settings: Settings, assignments: Sequence[str]) -> Settings:
    """Return settings after `key=value` assignments, such as `crossbar.stuck=0.1`."""
    for assignment in assignments:
        key, text = split_assignment(assignment)
        group, dot, name = key.partition(".")
        said, bounded = f"--set {key}", key not in UNBOUNDED
        if dot:
            if group not in CHIPS:
                known = ", ".join(CHIPS)
                raise EngineError(f"{said}: no substrate '{group}'; known: {known}.")
            part = assigned(settings.chips[group], name, text, said, bounded=bounded)
            settings = settings.on_chip(group, part)
        else:
            settings = assigned(settings, group, text, said, fixed=("chips",), bounded=bounded)
    return settings
