"""Closed forms against autograd: the right ones pass, each wrong one is named."""

import runpy
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given

from engine.couplings.dense import Dense, InputDrive, Lateral
from engine.couplings.link import Link, Shapes, dense
from engine.couplings.readout import SoftmaxReadout
from engine.model.activation import ACTIVATIONS
from engine.model.builders import looped_mlp
from engine.model.network import Layer, Network
from experiments.fuzz.strategies import transformers
from golden import couplings
from golden.cases import judged_networks
from golden.couplings import check_activation, check_coupling, check_network


@dataclass(frozen=True)
class Cubic:
    """`Phi = sum_j w_j s_j^3 / 3`: a coupling that the engine does not have."""

    name: str
    layer: str
    power: int = 2
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        return (self.layer,)

    def shape(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        return shapes[self.layer]

    def initial(
        self, rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]
    ) -> np.ndarray:
        return rng.standard_normal(self.shape(shapes))

    def potential(self, w: Any, x: Any, *states: Any) -> Any:
        return (w * states[0] ** 3).sum(-1) / 3

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        return (w * states[0] ** self.power,)

    def correlate(self, w: Any, x: Any, *states: Any) -> Any:
        return (states[0] ** 3).sum(0) / 3


class OneWay(Dense):
    """Sends the transposed signal to its source."""

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        a, b = states
        return b @ w, a @ w


class TwiceTooStrong(Lateral):
    """Forgets the half of `s' s / 2`."""

    link = Lateral.link  # else it would be no lateral link, and its block not symmetric

    def correlate(self, w: Any, x: Any, *states: Any) -> Any:
        return 2 * super().correlate(w, x, *states)


class Misshapen(InputDrive):
    """Returns the transposed correlation."""

    def correlate(self, w: Any, x: Any, *states: Any) -> Any:
        return super().correlate(w, x, *states).T


class WrongReadout(SoftmaxReadout):
    """Nudges the wrong way, and its bias does not learn."""

    def nudge(self, blocks: Any, s: Any, y: Any) -> Any:
        return -super().nudge(blocks, s, y)

    def correlate(self, blocks: Any, s: Any, y: Any) -> Any:
        slopes = super().correlate(blocks, s, y)
        return slopes | {"b_out": 0 * slopes["b_out"]}


def failing(network: Network) -> list[str]:
    metrics = check_network(network, np.random.default_rng(0))
    return [metric.name for metric in metrics if not metric.passed]


def with_coupling(coupling: Any) -> Network:
    return Network(
        3,
        (Layer("low", (4,)), Layer("high", (4,))),
        (InputDrive("W_in", "low"), coupling),
        SoftmaxReadout("high", 2),
    )


@pytest.mark.parametrize("name", judged_networks())
def test_closed_forms_of_every_network(name: str) -> None:
    assert failing(judged_networks()[name]) == []


@given(transformers().filter(lambda network: network.readout.outputs > 1))  # else all slopes are 0
def test_closed_forms_of_any_attention(network: Network) -> None:
    assert failing(network) == []


def test_every_form_of_a_network_is_checked() -> None:
    names = [m.name for m in check_network(looped_mlp(3, 4, 2), np.random.default_rng(0))]
    parts = ("drive", "correlate", "link")
    forms = [f"{block} {form}" for block in ("W_in", "b", "W_rec") for form in parts]
    forms += ["network drive", "read-out nudge", "W_out correlate", "b_out correlate"]
    assert names == [*forms, "hidden sigma"]


class Crossed(Dense):
    """Says that it is the link from its target to its source."""

    def link(self, shapes: Shapes) -> Link:
        return dense(self.name, self.target, self.source, shapes)

    potential, drive, correlate = Dense.potential, Dense.drive, Dense.correlate


def test_a_coupling_that_names_the_wrong_link_is_found() -> None:
    assert failing(with_coupling(Crossed("own", "low", "high"))) == ["own link"]


def test_coupling_of_ones_own_is_checked_too() -> None:
    assert failing(with_coupling(Cubic("own", "high"))) == []
    assert failing(with_coupling(Cubic("own", "high", power=1))) == ["own drive", "network drive"]


@pytest.mark.parametrize(
    ("coupling", "names"),
    [
        (OneWay("W", "low", "high"), ["W drive", "network drive"]),
        (TwiceTooStrong("W", "low"), ["W correlate", "W link"]),
        (Misshapen("W", "high"), ["W correlate"]),
    ],
    ids=["drive", "correlate", "shape"],
)
def test_wrong_form_is_named(coupling: Any, names: list[str]) -> None:
    assert failing(with_coupling(coupling)) == names


def test_a_small_error_of_the_drive_is_seen() -> None:
    class Almost(Dense):
        def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
            source, target = super().drive(w, x, *states)
            return source, target * (1 + 1e-9)

    rng = np.random.default_rng(1)
    w, x = rng.standard_normal((3, 4)), rng.standard_normal((5, 2))
    ends = [rng.standard_normal((5, 3)), rng.standard_normal((5, 4))]
    drive, correlate = check_coupling(Almost("W", "a", "b"), w, x, ends)
    assert drive.value == pytest.approx(1e-9, rel=1e-3)
    assert not drive.passed
    assert correlate.passed


def test_wrong_readout_is_named() -> None:
    network = replace(looped_mlp(3, 4, 2), readout=WrongReadout("hidden", 2))
    assert failing(network) == ["read-out nudge", "b_out correlate"]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_sigma_is_the_inverse_of_the_slope_of_its_convex_term(name: str) -> None:
    rule = ACTIVATIONS[name]
    s = np.linspace(max(rule.low, -2.0), min(rule.high, 2.0), 21)[1:-1]
    assert check_activation(name, rule, s).passed
    bent = replace(rule, sigma=lambda h: rule.sigma(0.999 * h))
    assert not check_activation(name, bent, s).passed


def test_without_torch_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'need torch: pip install "settle\[torch\]"'):
        runpy.run_path(couplings.__file__)


class Thrice(Dense):
    """Sends and learns three times what it should."""

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        return tuple(3 * part for part in super().drive(w, x, *states))

    def correlate(self, w: Any, x: Any, *states: Any) -> Any:
        return 3 * super().correlate(w, x, *states)


def test_an_error_is_relative_to_what_is_right() -> None:
    rng = np.random.default_rng(3)
    w, x, a, b = (rng.standard_normal(shape) for shape in ((3, 2), (4, 1), (4, 3), (4, 2)))
    metrics = check_coupling(Thrice("W", "a", "b"), w, x, [a, b])
    assert [metric.name for metric in metrics] == ["W drive", "W correlate"]
    np.testing.assert_allclose([metric.value for metric in metrics], 2.0, rtol=1e-12)
