"""An update of the digital chip touches only what changed."""

from typing import Any

import numpy as np
import pytest

from engine.model.builders import layered, looped_mlp
from engine.model.params import Params
from hw_sim.chips import digital
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.messages import feeds, hold, wires
from hw_sim.chips.mirror_kernels import TILE
from tests.hw_sim.chips.patches import NETWORKS, params_of

BEYOND_A_TILE = layered((3, TILE + 4, 2 * TILE + 5, 2))


@pytest.mark.parametrize(
    "network", [layered((3, 4, 5, 2)), BEYOND_A_TILE, looped_mlp(3, 4, 2), *NETWORKS.values()]
)
def test_an_update_touches_only_what_changed(network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the words that the kernels read, mirrors among them: nothing is laid out anew."""
    chip = DigitalBackend(network, params_of(network))
    words = chip._wires.messages.weights
    rng, word = np.random.default_rng(2), 2.0**-chip.config.weight_fraction
    for k in rng.choice(network.size, 20):
        before, update = words.copy(), np.zeros(network.size)
        update[k] = 3 * word
        with monkeypatch.context() as apart:
            for name in ("feeds", "wires", "hold"):
                apart.delattr(digital, name)
            chip.apply(update)
        changed = np.flatnonzero(words != before)
        assert changed[0] == k
        assert words[changed].tolist() == (before[changed] + 3).tolist()
        assert len(changed) == 1 + sum(k in _span(network, name) for name in _mirrored(chip))
    assert chip._wires.messages.weights is chip._feeds.messages.weights is words
    chip.apply(10 * word * rng.standard_normal(network.size))
    held = hold(Params(network, chip.words.astype(float)), np.int64)
    np.testing.assert_array_equal(words, held)
    fresh = feeds(network, held)
    np.testing.assert_array_equal(chip._feeds.bias, fresh.bias)
    np.testing.assert_array_equal(chip._wires.bias, wires(network, held).bias)


def test_the_two_weights_of_a_pair_are_rounded_alike() -> None:
    """Also where a block is larger than the tiles in which its random words are turned."""
    network = looped_mlp(3, 2 * TILE + 5, 2)
    chip = DigitalBackend(network, Params(network, np.zeros(network.size)))
    chip.apply(np.full(network.size, 0.5 * 2.0**-chip.config.weight_fraction))
    words = chip.params["W_rec"]
    np.testing.assert_array_equal(words, words.T)
    drawn = words[np.triu_indices(len(words))]
    assert 0.4 < (drawn > 0.0).mean() < 0.6  # half a word, up as often as not


@pytest.mark.parametrize("change", [1e3, 1e13, 1e300])
def test_an_update_beyond_all_words_saturates_on_its_own_side(change: float) -> None:
    network = looped_mlp(3, 4, 2)
    chip = DigitalBackend(network, Params(network, np.zeros(network.size)))
    for sign in (1, -1):
        chip.apply(np.full(network.size, sign * change))
        assert (chip.words == sign * (2**11 - 1)).all()
    assert chip.saturations.weight == 2 * network.size


def _span(network: Any, name: str) -> range:
    span = network.blocks[name].span
    return range(span.start, span.stop)


def _mirrored(chip: DigitalBackend) -> list[str]:
    """Blocks that are read both ways."""
    ends = {name: (link.source, link.target) for name, link in chip.network.links.items()}
    return [name for name, (a, b) in ends.items() if a in chip.network.columns and a != b]
