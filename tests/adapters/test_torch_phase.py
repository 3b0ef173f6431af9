"""Differences of activations in few passes are those of the formulas, and as exact."""

import numpy as np
import pytest
import torch

from adapters.torch_phase import _differ, _prepare
from engine.model.activation import ACTIVATIONS


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("size", [1e-6, 1e-2, 3.0])
def test_a_difference_is_that_of_the_formula(name: str, size: float) -> None:
    rule, rng = ACTIVATIONS[name], np.random.default_rng(0)
    drive, extra = 2.0 * rng.standard_normal(500), size * rng.standard_normal(500)
    drive[:3], extra[3:5] = (0.0, 1.0, -1.0), 0.0
    for dtype in (torch.float64, torch.float32):
        held, further = (torch.tensor(array, dtype=dtype) for array in (drive, extra))
        found = _differ(rule, *_prepare(rule, held), further)
        few = 8.0 * torch.finfo(dtype).eps
        torch.testing.assert_close(found, rule.difference(held, further), rtol=few, atol=0.0)
