"""How fast Settle is: docs/performance.md and docs/parallel.md."""

from dataclasses import replace

from experiments.tables.measurement import ENGINE, Measurement, PageTable, picture_table

BENCHMARK = (*ENGINE, "adapters/torch_*.py", "experiments/benchmark/*.py")


def _benchmark(options: str, reader: str) -> Measurement:
    return Measurement(f"python -m experiments.benchmark --part {options}", BENCHMARK, reader)


GROWTH = _benchmark("growth --threads 1", "growth")

MEASUREMENTS = {
    "speed": _benchmark("floor epoch --threads 1 2", "speed"),
    "speed-defaults": _benchmark("defaults --threads 1", "speed_defaults"),
    "speed-convolution": _benchmark("convolution --threads 1", "speed_convolution"),
    "growth": GROWTH,
    "growth-crossings": replace(GROWTH, reader="crossings"),
    "growth-picture": replace(GROWTH, reader=None, picture="plots/growth.png"),
    "prediction": _benchmark("prediction", "prediction"),
    "parallel": _benchmark("parallel", "parallel"),
}

PAGE = "docs/performance.md"

TABLES = {
    "speed": PageTable(PAGE, (("speed", 9),), ("what", "goal", "1 thread", "2 threads"), 4),
    "speed-defaults": PageTable(
        PAGE,
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
        PAGE,
        (("speed-convolution", 6),),
        ("what", "goal", "28x28x1, 32-64", "32x32x3, 32-64-128"),
        4,
    ),
    "growth": PageTable(
        PAGE,
        (("growth", 4),),
        (
            "axis",
            "time of EqProp",
            "backprop",
            "BPTT",
            "memory of EqProp",
            "backprop",
            "BPTT",
            "memory of EqProp within",
        ),
    ),
    "growth-crossings": PageTable(
        PAGE,
        (("growth-crossings", 8),),
        ("axis", "rival", "less memory (ratio, first to last)", "less time (ratio, first to last)"),
        4,
    ),
    "growth-picture": picture_table(
        PAGE, "growth-picture", "Memory and time of one training step along each axis", "growth.png"
    ),
    "prediction": PageTable(
        PAGE,
        (("prediction", 9),),
        ("what", "samples", "CPU µs", "against", "CPU µs", "ratio"),
    ),
    "parallel": PageTable(
        "docs/parallel.md",
        (("parallel", 4),),
        (
            "what",
            "rows of each",
            "a step, ms",
            "efficiency",
            "predicted, ms",
            "predicted over measured",
        ),
    ),
}
