"""No chip and no setting of one ends in anything but a result or one sentence."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Adam, EngineError, initial_params, looped_mlp
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.counts import optimizer_counts
from hw_sim.formula import dense_counts
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import load_technologies

NETWORK = looped_mlp(3, 4, 2)
PARAMS = initial_params(NETWORK, np.random.default_rng(0), np.float64)
ODD: list[Any] = [
    None, "text", "", "a\0b", 3.5, -1, 0, True, 10**30, float("nan"), float("inf"), 1j, b"x",
    object(), int, [], {}, (1,), [None], np.array([1, 2]), NETWORK,
]  # fmt: skip
COUNTS = {"samples": 1, "free_evaluations": 1, "nudged_evaluations": 1, "phases": 1}


def _default(config: type) -> dict[str, Any]:
    return {field.name: getattr(config(), field.name) for field in fields(config)}


def _chip(config: Any) -> dict[str, Any]:
    return {"network": NETWORK, "params": PARAMS, "config": config}


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "DigitalConfig": (DigitalConfig, _default(DigitalConfig)),
    "CrossbarConfig": (CrossbarConfig, _default(CrossbarConfig)),
    "SpikingConfig": (SpikingConfig, _default(SpikingConfig)),
    "DigitalBackend": (DigitalBackend, _chip(DigitalConfig())),
    "CrossbarBackend": (CrossbarBackend, _chip(CrossbarConfig())),
    "SpikingBackend": (SpikingBackend, _chip(SpikingConfig())),
    "load_technologies": (load_technologies, {"path": Path("absent.toml")}),
    "dense_counts": (dense_counts, {"network": NETWORK} | COUNTS),
    "optimizer_counts": (
        optimizer_counts,
        {"network": NETWORK, "optimizer": Adam(), "updates": 1},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_odd_argument_is_taken_or_refused_in_one_sentence(name: str) -> None:
    function, arguments = CALLS[name]
    refused = []
    for argument in arguments:
        for value in ODD:
            try:
                function(**arguments | {argument: value})
            except (EngineError, TechnologyError) as error:
                refused.append(str(error))
            except Exception as error:
                pytest.fail(f"{argument} = {value!r}: {type(error).__name__}: {error}")
    assert len(refused) > len(arguments)
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in refused)
