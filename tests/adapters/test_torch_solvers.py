"""The loop: samples that settle leave in bunches, and the last drive leads to where they ended."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from adapters import torch_phase
from adapters.torch_backend import TorchBackend
from adapters.torch_phase import Phase
from adapters.torch_products import GRAIN, is_fast, plain_products
from adapters.torch_solvers import Pace, settle
from engine.equilibrium import Equilibrium, Relaxation
from engine.model import dynamics
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params

SAMPLES, UNITS = 3 * GRAIN + 5, 192
LARGE = looped_mlp(6, UNITS, 3)


def _settled(solver: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Equilibrium, list[int]]:
    """Return where a batch ends, and the rows of each evaluation of `T`."""
    rows: list[int] = []
    image: Callable[..., torch.Tensor] = torch_phase.Phase.image

    def watched(phase: Phase, state: torch.Tensor, still: bool) -> torch.Tensor:
        rows.append(len(state))
        return image(phase, state, still)

    rng = np.random.default_rng(2)
    backend = TorchBackend(LARGE, initial_params(LARGE, rng), "cpu")
    x = rng.normal(size=(SAMPLES, 6)) * np.linspace(0.01, 3.0, SAMPLES)[:, None]
    with monkeypatch.context() as patch:
        patch.setattr(torch_phase.Phase, "image", watched)
        return backend.settle(backend.clamp(x), relaxation=Relaxation(40, 1e-4, solver)), rows


@pytest.mark.parametrize("solver", ["fixed_point", "anderson"])
def test_samples_that_leave_in_bunches_end_where_they_would_alone(
    monkeypatch: pytest.MonkeyPatch, solver: str
) -> None:
    found, rows = _settled(solver, monkeypatch)
    with plain_products():
        expected, alone = _settled(solver, monkeypatch)
    assert len(set(alone) - {SAMPLES}) > 1  # they settle one after the other
    np.testing.assert_array_equal(found.steps, expected.steps)
    np.testing.assert_allclose(found.state, expected.state, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.residual, expected.residual, rtol=0, atol=1e-5)
    if is_fast(torch.zeros(1)):
        assert {count % GRAIN for count in rows if count != SAMPLES} == {0}
        assert all(
            0 <= more - few < GRAIN or more == SAMPLES
            for more, few in zip(rows, alone, strict=True)
        )


@pytest.mark.parametrize("pace", [Pace(1), Pace(3, gathers=False)], ids=["gathered", "masked"])
@pytest.mark.parametrize("network", [LARGE, layered((6, 20, 15, 3))], ids=["looped", "layered"])
@pytest.mark.parametrize("solver", ["fixed_point", "sweeps"])
def test_the_last_drive_leads_to_the_state(network: Network, pace: Pace, solver: str) -> None:
    rng = np.random.default_rng(3)
    backend = TorchBackend(network, initial_params(network, rng), "cpu")
    x = backend.own(rng.normal(size=(SAMPLES, 6)) * np.linspace(-0.2, 2.0, SAMPLES)[:, None])
    drive = backend.clamp(x).drive
    phase = Phase(network, dict(backend.blocks), x, None, drive, heard={})
    start, way = dynamics.begin(network, drive, solver), Relaxation(3, 1e-3, solver)
    state, steps, residual, heard = settle(phase, start, way, pace)
    settled = residual <= way.tolerance
    assert 0 < int(settled.sum()) < SAMPLES
    assert heard is not None
    off = (dynamics.activate(network, heard) - state).abs().amax(-1)
    assert off[~settled].max() == 0.0
    assert off[settled].max() <= way.tolerance
    assert int(steps.max()) == way.max_steps
