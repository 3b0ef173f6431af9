"""Published results of EqProp on images, each with its network and its steps."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Publication:
    """One result; `steps` are those of the free and of a nudged phase, where they are known."""

    task: str
    accuracy: float
    network: str
    steps: str
    source: str


DCHN = "4 convolutions 128-256-512-512, 3x3, max pooling"
PUBLISHED = (
    Publication("MNIST", 0.9835, "dense layers", "", "best dense network"),
    Publication("MNIST", 0.9903, "spiking, 2 convolutions and 2 dense", "", "Lin et al. 2024"),
    Publication(
        "Fashion-MNIST", 0.9111, "spiking, 2 convolutions and 2 dense", "", "Lin et al. 2024"
    ),
    Publication("CIFAR-10", 0.883, DCHN, "250 + 25", "Laborieux et al. 2021, GPU"),
    Publication("CIFAR-10", 0.904, DCHN, "60 + 20", "Scellier et al. 2023, GPU"),
    Publication(
        "CIFAR-10",
        0.939,
        "Hopfield-Resnet13, skip connections",
        "120 + 50",
        "Elayedam and Srinivasan 2025, GPU",
    ),
)
