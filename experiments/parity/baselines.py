"""The feed-forward baseline of the parity experiment."""

from adapters.torch_arrays import torch
from experiments.contest.baselines import TorchClassifier, draw_uniformly


class FeedForward(TorchClassifier):
    """A tanh or ReLU MLP with two hidden layers."""

    def __init__(self, sizes: tuple[int, int, int, int], activation: str, seed: int) -> None:
        inputs, first, second, outputs = sizes
        bend = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[activation]
        model = torch.nn.Sequential(
            torch.nn.Linear(inputs, first),
            bend(),
            torch.nn.Linear(first, second),
            bend(),
            torch.nn.Linear(second, outputs),
        )
        draw_uniformly(model, seed)
        super().__init__(model)
