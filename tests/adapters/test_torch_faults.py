"""The first fault is kept on the device, and told in the words of the contract."""

import numpy as np
import pytest
import torch

from adapters.torch_faults import Faults
from engine.equilibrium import Equilibrium, finite
from engine.errors import DivergenceError

BETAS = (0.0, 0.1, -1 / 3)
CPU = torch.device("cpu")


def phases() -> list[Equilibrium]:
    """Three phases of four samples, with steps that tell all of them apart."""
    steps = torch.arange(1, 13).reshape(3, 4)
    state, residual, settled = torch.zeros(4, 5), torch.zeros(4), torch.ones(4, dtype=torch.bool)
    return [
        Equilibrium(state.clone(), steps[k], residual.clone(), settled, beta)
        for k, beta in enumerate(BETAS)
    ]


def told(faults: Faults) -> str:
    with pytest.raises(DivergenceError) as error:
        faults.tell()
    return str(error.value)


def in_numpy(found: Equilibrium) -> str:
    """What the contract says of such an equilibrium."""
    arrays = (np.asarray(a) for a in (found.state, found.steps, found.residual, found.converged))
    with pytest.raises(DivergenceError) as error:
        finite(Equilibrium(*arrays, found.beta))
    return str(error.value)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("phase", range(3))
@pytest.mark.parametrize("sample", [0, 2, 3])
@pytest.mark.parametrize("where", ["state", "residual"])
def test_a_fault_names_its_sample_step_and_beta(
    wrong: float, phase: int, sample: int, where: str
) -> None:
    faults, found = Faults(CPU), phases()
    getattr(found[phase], where)[sample] = abs(wrong) if where == "residual" else wrong
    faults.watch_states(found)
    assert not faults.none_yet
    assert told(faults) == in_numpy(found[phase])
    assert faults.none_yet
    faults.tell()


def test_large_numbers_are_no_fault() -> None:
    faults, found = Faults(CPU), phases()
    for phase in found:
        phase.state[...], phase.residual[...] = -3e38, 3e38
    faults.watch_states(found)
    faults.watch_update(torch.tensor(False))
    faults.tell()


def test_the_first_fault_is_the_one_that_is_told() -> None:
    faults, found = Faults(CPU), phases()
    found[1].state[2, 4] = np.nan
    faults.watch_states(found)
    first = in_numpy(found[1])
    found[0].state[0, 0] = np.nan
    faults.watch_states(found)
    faults.watch_update(torch.tensor(True))
    assert told(faults) == first
    faults.watch_update(torch.tensor(True))
    faults.watch_states(found)
    assert "overflow; nothing was applied" in told(faults)
