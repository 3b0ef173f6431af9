"""The user's own network: sizes, a saved network, or a transformer, and the task it is run on."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from engine.arrays import IntArray
from engine.errors import EngineError, shown
from engine.learning import checkpoint
from engine.model.builders import layered
from engine.model.network import Network
from engine.model.params import Params, initial_params
from experiments.hardware.choices import SIZES, SPELLINGS, TRANSFORMER
from experiments.hardware.settings import NETWORKS, Settings
from experiments.tasks import Split, Task
from experiments.transformer.sequences import (
    TASKS,
    TEST,
    TRAINING,
    VALIDATION,
    draw_sequences,
)
from experiments.transformer.settings import TransformerSettings
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.digital import DIGITAL
from hw_sim.chips.messages import check_network

REVERSAL = TASKS["reversal"]
SMALL = TransformerSettings(vocabulary=10, length=8)
"""What `--network transformer` is: that of `experiments.transformer`."""
DRAWN = {TRAINING: 2048, VALIDATION: 500, TEST: 1000}
"""Sequences of each part."""
UNSIMULATED = Settings(
    epochs=8, batch_size=SMALL.batch, lr=SMALL.lr, beta=SMALL.beta, free_steps=SMALL.free_steps,
    nudged_steps=SMALL.nudged_steps, tolerance=SMALL.tolerance,
)  # fmt: skip
"""Of networks that no chip runs, unless they are set: those of the transformers."""


@dataclass(frozen=True, eq=False)
class OwnNetwork:
    """A network that is no choice of the command, with the parameters that it was saved with."""

    title: str
    network: Network
    saved: Params | None = None

    def start(self, seed: int) -> Params:
        """Return the parameters that training starts from."""
        return self.saved or initial_params(self.network, np.random.default_rng(seed))

    @cached_property
    def refused(self) -> str:
        """Why no chip runs it; empty if they do."""
        return refusal(self.network)

    @property
    def settings(self) -> Settings:
        """What it is trained with, unless it is set."""
        return UNSIMULATED if self.refused else Settings()

    @property
    def reads_tokens(self) -> bool:
        """Whether it answers at several positions, as sequences are."""
        return self.network.reading is not None and self.network.reading.positions > 1

    @property
    def sees_images(self) -> bool:
        """Whether a layer of it is pixels: height, width and channels."""
        return any(len(layer.shape) == 3 for layer in self.network.layers)


def refusal(network: Network) -> str:
    """Say why no chip runs a network; empty if they do."""
    try:
        check_network(network)
    except EngineError as error:
        return str(error)
    return ""


def find_network(text: str) -> OwnNetwork | None:
    """Return the user's own network, or `None` for one that the command builds itself."""
    if text in NETWORKS:
        return None
    if text == TRANSFORMER:
        return OwnNetwork(text, SMALL.network)
    if text.endswith(".npz"):
        params, _, _ = checkpoint.load(text)
        return OwnNetwork(text, params.network, params)
    if SIZES.fullmatch(text):
        return OwnNetwork(text, layered([int(size) for size in text.split("-")]))
    raise EngineError(f"there is no network {shown(text)}; known: {', '.join(SPELLINGS)}.")


def check_fits(own: OwnNetwork, task: Task) -> None:
    """Refuse a task with other inputs or other outputs."""
    network = own.network
    if (network.inputs, network.outputs) != (task.inputs, task.classes):
        raise EngineError(
            f"network {own.title} has {network.inputs} inputs and {network.outputs} outputs, but "
            f"task '{task.name}' has {task.inputs} and {task.classes}."
        )


def runnable_substrates(own: OwnNetwork, asked: list[str] | None, settings: Settings) -> list[str]:
    """Return the chips that a network is run on; refuse one that was asked for and cannot run it.

    What no chip runs is counted by a formula, as digital logic would do it.
    """
    if own.refused:
        if asked and asked != [DIGITAL.name]:
            raise EngineError(
                f"network {own.title} runs on no chip, so it is counted as {DIGITAL.name} logic "
                f"only: {own.refused}"
            )
        return [DIGITAL.name]
    names, first = asked or list(CHIPS), own.start(0)
    for name in names:
        CHIPS[name].build(own.network, first, settings.chips[name])
    return names


def token_task(own: OwnNetwork) -> Task:
    """Return the reversal of sequences, as long and with as many tokens as a network reads."""
    network, reading = own.network, own.network.reading
    assert reading is not None, "a network that reads tokens has a reading"
    if network.inputs != reading.positions:
        raise EngineError(
            f"network {own.title} reads {network.inputs} tokens and answers "
            f"{reading.positions}: there is no task for it."
        )
    vocabulary = network.outputs // reading.positions
    load = partial(_load_sequences, vocabulary, network.inputs)
    return Task("reversal", REVERSAL.title, network.inputs, network.outputs, load)


def _load_sequences(vocabulary: int, length: int, seed: int) -> Split:
    """Draw sequences; targets are one row for a sequence, one-hot at each position."""
    rng = np.random.default_rng([seed, 2])
    parts: list[IntArray] = []
    for part, count in DRAWN.items():
        x = draw_sequences(rng, part, count, vocabulary, length)
        answers = np.eye(vocabulary, dtype=np.int64)[REVERSAL.answer(x)]
        parts += [x, answers.reshape(count, -1)]
    x_train, y_train, x_valid, y_valid, x_test, y_test = parts
    inputs = (x.astype(np.float32) for x in (x_train, x_valid, x_test))
    none, one = np.zeros((), np.float32), np.ones((), np.float32)
    described = f"{REVERSAL.title} of {length} tokens out of {vocabulary}"
    a, b, c = inputs
    return Split(a, y_train, b, y_valid, c, y_test, none, one, described)
