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
    address: str = ""
    """Where it can be read, if that is known."""


LIN = ("Lin et al. 2024", "https://arxiv.org/abs/2405.02546")
LABORIEUX = ("Laborieux et al. 2021, GPU", "https://doi.org/10.3389/fnins.2021.633674")
SCELLIER = ("Scellier et al. 2023, GPU", "https://arxiv.org/abs/2312.15103")
ELAYEDAM = ("Elayedam and Srinivasan 2025, GPU", "https://arxiv.org/abs/2509.26003")
DCHN = "4 convolutions 128-256-512-512, 3x3, max pooling"
PUBLISHED = (
    Publication("MNIST", 0.9835, "dense layers", "", "best dense network"),
    Publication("MNIST", 0.9903, "spiking, 2 convolutions and 2 dense", "", *LIN),
    Publication("Fashion-MNIST", 0.9111, "spiking, 2 convolutions and 2 dense", "", *LIN),
    Publication("CIFAR-10", 0.883, DCHN, "250 + 25", *LABORIEUX),
    Publication("CIFAR-10", 0.904, DCHN, "60 + 20", *SCELLIER),
    Publication(
        "CIFAR-10",
        0.939,
        "Hopfield-Resnet13, skip connections",
        "120 + 50",
        *ELAYEDAM,
    ),
)
