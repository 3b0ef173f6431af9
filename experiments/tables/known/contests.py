"""EqProp against backprop: README and docs/vision.md."""

from experiments.tables.measurement import ENGINE, Measurement, PageTable

PARITY = (
    *ENGINE,
    "adapters/torch_*.py",
    "experiments/parity/*.py",
    "experiments/contest/*.py",
    "experiments/tasks/*.py",
    "experiments/statistics.py",
)
VISION = tuple(pattern.replace("/parity/", "/vision/") for pattern in PARITY)

MEASUREMENTS = {
    "parity": Measurement("python -m experiments.parity --no-controls", PARITY, "parity"),
    "parity-images": Measurement(
        "python -m experiments.parity --tasks mnist fashion_mnist --no-controls --circuits",
        PARITY,
        "parity",
    ),
    "parity-picture": Measurement(
        "python -m experiments.parity --tasks all --no-controls",
        PARITY,
        picture="plots/accuracy.png",
    ),
    "vision": Measurement("python -m experiments.vision --full", VISION, "vision"),
}

TABLES = {
    "parity": PageTable(
        "README.md",
        (("parity", 3), ("parity-images", 2)),
        (
            "Task",
            "Backprop, published",
            "EqProp, published",
            "Backprop, same network",
            "Backprop, best baseline",
            "EqProp (looped)",
            "EqProp (layered)",
            "Gap to same network",
            "Gap to best baseline (95 % CI)",
        ),
    ),
    "parity-picture": PageTable(
        "README.md",
        (("parity-picture", 1),),
        ("Accuracy of each contestant on five tasks",),
        picture="docs/images/parity_accuracy.png",
    ),
    "vision": PageTable(
        "docs/vision.md",
        (("vision", 11),),
        (
            "Task",
            "Source",
            "Network: channels / stride",
            "Steps, free + nudged",
            "EqProp, %",
            "Backprop, same layers, %",
        ),
        text_columns=3,
    ),
}
