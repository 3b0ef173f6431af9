"""Verilog of digital chips: docs/rtl.md."""

from dataclasses import replace

from experiments.tables.measurement import ENGINE, Measurement, PageTable

WORDS = Measurement(
    "python -m experiments.circuit words",
    (
        *ENGINE,
        "hw_sim/chips/*.py",
        "hw_sim/rtl/*.py",
        "hw_sim/rtl/verilog/*.v",
        *(f"experiments/circuit/{name}.py" for name in ("verilog", "words")),
    ),
    "words",
)
GATES = Measurement(
    "python -m experiments.circuit verilog results/words/looped.npz "
    "--samples results/words/digits.npz --synthesise",
    (*WORDS.depends, "hw_sim/prices/*.py", "hw_sim/prices/*.toml", "experiments/circuit/gates.py"),
    "gates_logic",
    ("python -m experiments.circuit words --train-only",),
)
MEASUREMENTS = {
    "words": WORDS,
    "gates-logic": GATES,
    "gates-products": replace(GATES, reader="gates_products"),
}

TABLES = {
    "words": PageTable(
        "docs/rtl.md",
        (("words", 10),),
        (
            "network",
            "bits of states / weights / accumulators",
            "states",
            "errors",
            "ends",
            "weights",
            "accumulators clipped",
            "cycles",
            "all words compared",
            "differ",
        ),
        2,
    ),
    "gates-logic": PageTable("docs/rtl.md", (("gates-logic", 8),), ("", "with delays", "without")),
    "gates-products": PageTable(
        "docs/rtl.md", (("gates-products", 5),), ("a product", "value", "range")
    ),
}
