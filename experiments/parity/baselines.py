"""The feed-forward baseline of the parity experiment."""

from collections.abc import Sequence
from itertools import pairwise

from adapters.torch_arrays import torch
from experiments.contest.baselines import BENDS, TorchLearner, draw_uniformly


class FeedForward(TorchLearner):
    """An MLP of layers `sizes = (inputs, hidden, ..., outputs)`."""

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str,
        seed: int,
        device: str = "cpu",
        continuous: bool = False,
    ) -> None:
        *hidden, last = pairwise(sizes)
        parts: list[torch.nn.Module] = []
        for pair in hidden:
            parts += [torch.nn.Linear(*pair), BENDS[activation]()]
        model = torch.nn.Sequential(*parts, torch.nn.Linear(*last))
        draw_uniformly(model, seed)
        super().__init__(model, device, continuous)
