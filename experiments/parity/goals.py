"""What the parity experiment is measured by: published numbers, goals and margins, as fractions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """Published accuracies (mean, std) of a task, and what EqProp is to reach here.

    `margin` is both the goal for the size of the gap and the margin of the equivalence test.
    """

    backprop: tuple[float, float]
    eqprop: tuple[float, float]
    goal: float
    margin: float


REFERENCES: dict[str, Reference] = {
    "digits": Reference((0.9704, 0.0035), (0.9463, 0.0073), goal=0.975, margin=0.005),
    "mnist": Reference((0.9491, 0.0005), (0.9422, 0.0008), goal=0.981, margin=0.002),
    "fashion_mnist": Reference((0.8325, 0.0033), (0.8332, 0.0021), goal=0.888, margin=0.003),
    "cartpole": Reference((0.9980, 0.0008), (0.9713, 0.0164), goal=0.995, margin=0.003),
    "acrobot": Reference((0.9797, 0.0047), (0.9683, 0.0117), goal=0.990, margin=0.003),
}
"""The published runs used 5,000 training images, no environment and a biased gradient."""
