"""Resistive networks: docs/circuits.md."""

from dataclasses import replace

from experiments.tables.measurement import ENGINE, Measurement, PageTable, picture_table

TRAINED = (*ENGINE, "experiments/circuit/train.py", "experiments/tasks/*.py")
PARTS = (*ENGINE, "adapters/spice_*.py", "experiments/tasks/*.py")
"""Of all that compares ngspice with the engine."""
LOADED = ("train", "recipe", "asked")
AGREED = (
    *PARTS,
    "hw_sim/chips/*.py",
    "hw_sim/rtl/*.py",
    "hw_sim/rtl/verilog/*.v",
    *(f"experiments/circuit/{name}.py" for name in ("agree", "verilog", "watching")),
)
COMMAND = "python -m experiments.circuit"
AGREE = f"{COMMAND} agree"
DIGITS = f"{COMMAND} train --task digits --hidden 128 --seeds 3"
MNIST = f"{COMMAND} train --task mnist --hidden 100 --epochs 1 --out results/circuit-mnist"


def _learned(options: str) -> Measurement:
    return Measurement(f"{COMMAND} train {options}", TRAINED, "circuit")


def _of_trained(kind: str, options: str, first: str = DIGITS) -> Measurement:
    """Return a comparison with ngspice, `spice` or `transient`, of a circuit that is trained."""
    names = (*LOADED, kind, "watching") if kind == "transient" else (*LOADED, kind)
    depends = (*PARTS, *(f"experiments/circuit/{name}.py" for name in names))
    return Measurement(f"{COMMAND} {kind} {options}", depends, kind, (first,))


SPREAD = Measurement(
    f"{COMMAND} spread --task digits --hidden 128",
    (
        *ENGINE,
        "experiments/tasks/*.py",
        *(
            f"experiments/circuit/{name}.py"
            for name in ("mismatch", "recipe", "specimens", "spread", "spread_report")
        ),
    ),
    "spread",
)
LARGEST = "results/circuit/circuit-42.npz --task digits"
SMALLEST = "results/agree/circuit-2-4-2"

MEASUREMENTS = {
    "circuit-digits": _learned("--task digits --hidden 128 --seeds 3"),
    "circuit-mnist": _learned("--task mnist --hidden 512 --epochs 10 --seeds 3"),
    "circuit-fashion": _learned("--task fashion_mnist --hidden 256 128 --epochs 6"),
    "circuit-fashion-larger": _learned(
        "--task fashion_mnist --hidden 512 256 --epochs 8 --seeds 3"
    ),
    "agreement": Measurement(AGREE, AGREED, "agreement"),
    "schematic": Measurement(
        f"{COMMAND} draw {SMALLEST}.cir",
        (*AGREED, *(f"experiments/circuit/{n}.py" for n in ("draw", "schematic*", "symbols"))),
        first=(AGREE,),
        picture="schematic.png",
        out="schematic.png",
    ),
    "spice": _of_trained("spice", f"{LARGEST} --samples 0 1 2"),
    "spice-mnist": _of_trained("spice", "results/circuit-mnist/circuit-42.npz --task mnist", MNIST),
    "spice-shockley": _of_trained("spice", f"{LARGEST} --samples 0 1 2 --diode shockley"),
    "spice-leaking": _of_trained(
        "spice", f"{LARGEST} --samples 0 1 2 --diode shockley --saturation 1e-6 --emission 2"
    ),
    "transient": _of_trained("transient", LARGEST),
    "transient-shockley": _of_trained("transient", f"{LARGEST} --diode shockley"),
    "transient-picture": Measurement(
        f"{COMMAND} transient {SMALLEST}.npz --data {SMALLEST}-samples.npz --samples 1",
        (*AGREED, *(f"experiments/circuit/{n}.py" for n in ("transient", "waveform_plot"))),
        first=(AGREE,),
        picture="transient.png",
    ),
    "spread": SPREAD,
    "spread-picture": replace(SPREAD, reader=None, picture="spread.png"),
}

PAGE = "docs/circuits.md"

TABLES = {
    "circuits": PageTable(
        PAGE,
        (
            ("circuit-digits", 1),
            ("circuit-mnist", 1),
            ("circuit-fashion", 1),
            ("circuit-fashion-larger", 1),
        ),
        ("task", "circuit", "epochs", "seeds", "test accuracy, %", "goal, %", "processor time"),
        text_columns=2,
    ),
    "agreement": PageTable(
        PAGE, (("agreement", 12),), ("network", "compared", "largest difference", "goal"), 2
    ),
    "schematic": picture_table(
        PAGE,
        "schematic",
        "A circuit of two inputs, four hidden nodes and two outputs",
        "circuit_schematic.png",
    ),
    "spice": PageTable(
        PAGE,
        (("spice", 1), ("spice-mnist", 1), ("spice-shockley", 1), ("spice-leaking", 1)),
        ("circuit", "diodes", "largest voltage", "largest difference", "goal"),
        2,
    ),
    "transient": PageTable(
        PAGE,
        (("transient", 2), ("transient-shockley", 2)),
        (
            "circuit",
            "diodes",
            "phase",
            "ngspice",
            "engine",
            "in RC",
            "waveforms apart",
            "end, from the fixed point",
        ),
        3,
    ),
    "transient-picture": picture_table(
        PAGE,
        "transient-picture",
        "Voltages of a circuit while it settles",
        "circuit_transient.png",
    ),
    "spread": PageTable(
        PAGE,
        (("spread", 10),),
        (
            "mismatch of conductances",
            "spread of diodes, V",
            "specimens",
            "loaded, %",
            "worst",
            "in place, %",
            "worst",
            "gain, points",
            "better / same / worse",
        ),
        0,
    ),
    "spread-picture": picture_table(
        PAGE,
        "spread-picture",
        "Accuracy against the spread of conductances and of diodes, loaded and trained in place",
        "circuit_spread.png",
    ),
}
