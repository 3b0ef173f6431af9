"""What the tables of README and docs were measured by, and where they stand."""

from dataclasses import dataclass

ENGINE = ("engine/**/*.py",)
PARITY = (
    *ENGINE,
    "adapters/torch_*.py",
    "experiments/parity/*.py",
    "experiments/contest/*.py",
    "experiments/tasks/*.py",
    "experiments/statistics.py",
)
VISION = tuple(pattern.replace("/parity/", "/vision/") for pattern in PARITY)
HARDWARE = (
    *ENGINE,
    "hw_sim/**/*.py",
    "hw_sim/**/*.toml",
    "experiments/hardware/*.py",
    "experiments/tasks/*.py",
)
CIRCUIT = (*ENGINE, "experiments/circuit/train.py", "experiments/tasks/*.py")
BENCHMARK = (*ENGINE, "adapters/torch_*.py", "experiments/benchmark/*.py")
TRANSFORMER = (*ENGINE, "experiments/transformer/*.py")


@dataclass(frozen=True)
class Measurement:
    """A command, and the files of code on which what it measures depends.

    `reader` names the function of `readers.py` that makes rows of what the command wrote. Without
    one the rows are entered by hand from its output, and the page says so.
    """

    command: str
    depends: tuple[str, ...]
    reader: str | None = None


@dataclass(frozen=True)
class PageTable:
    """A table between its markers in a page: rows of measurements, one after the other.

    `parts` has the names of the measurements and how many rows of each there are. With `line` the
    rows are items of a list in these words. `picture` is a file instead, which a page at the root
    shows with its header as the title.
    """

    page: str
    parts: tuple[tuple[str, int], ...]
    header: tuple[str, ...] = ()
    text_columns: int = 1
    line: str = ""
    picture: str = ""


def _circuit(options: str) -> Measurement:
    return Measurement(f"python -m experiments.circuit train {options}", CIRCUIT, "circuit")


MEASUREMENTS = {
    "parity": Measurement("python -m experiments.parity --no-controls", PARITY, "parity"),
    "parity-images": Measurement(
        "python -m experiments.parity --tasks mnist fashion_mnist --no-controls", PARITY, "parity"
    ),
    "parity-picture": Measurement(
        "python -m experiments.parity --tasks all --no-controls", PARITY, "parity_picture"
    ),
    "vision": Measurement("python -m experiments.vision --full", VISION, "vision"),
    "hardware": Measurement("python -m experiments.hardware --no-sweeps", HARDWARE, "hardware"),
    "circuit-digits": _circuit("--task digits --hidden 128 --seeds 3"),
    "circuit-mnist": _circuit("--task mnist --hidden 512 --epochs 10 --seeds 3"),
    "circuit-fashion": _circuit("--task fashion_mnist --hidden 256 128 --epochs 6"),
    "circuit-fashion-larger": _circuit(
        "--task fashion_mnist --hidden 512 256 --epochs 8 --seeds 3"
    ),
    "transformer": Measurement("python -m experiments.transformer", TRANSFORMER),
    "speed": Measurement(
        "python -m experiments.benchmark --part floor epoch --threads 1 2", BENCHMARK
    ),
    "speed-defaults": Measurement(
        "python -m experiments.benchmark --part defaults --threads 1", BENCHMARK
    ),
    "speed-convolution": Measurement(
        "python -m experiments.benchmark --part convolution --threads 1", BENCHMARK
    ),
}
"""By name."""

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
    "chip": PageTable(
        "README.md",
        (("hardware", 6),),
        line="{0}: **{2}** of backprop, **{3}** of BPTT",
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
    "hardware": PageTable(
        "docs/hardware.md",
        (("hardware", 6),),
        (
            "Substrate and technology",
            "Test accuracy, %",
            "over backprop, feed-forward",
            "over BPTT, same network",
        ),
    ),
    "circuits": PageTable(
        "docs/circuits.md",
        (
            ("circuit-digits", 1),
            ("circuit-mnist", 1),
            ("circuit-fashion", 1),
            ("circuit-fashion-larger", 1),
        ),
        ("task", "circuit", "epochs", "seeds", "test accuracy, %", "goal, %", "processor time"),
        text_columns=2,
    ),
    "transformer": PageTable(
        "docs/transformer.md",
        (("transformer", 8),),
        (
            "sequences",
            "method",
            "wrong of the held-out tokens, seed by seed",
            "right, %",
            "lowest cosine with autograd",
            "lopsided there",
        ),
        text_columns=2,
    ),
    "speed": PageTable(
        "docs/performance.md", (("speed", 9),), ("what", "goal", "1 thread", "2 threads"), 4
    ),
    "speed-defaults": PageTable(
        "docs/performance.md",
        (("speed-defaults", 2),),
        (
            "network",
            "batch 32",
            "batch 64",
            "multiply-adds over backprop's",
            "held out, EqProp and backprop (batch 32)",
        ),
        5,
    ),
    "speed-convolution": PageTable(
        "docs/performance.md",
        (("speed-convolution", 6),),
        ("what", "goal", "28x28x1, 32-64", "32x32x3, 32-64-128"),
        4,
    ),
}
"""By the name of their markers."""
