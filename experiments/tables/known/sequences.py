"""Sequences and sums: docs/transformer.md and docs/addition.md."""

from dataclasses import replace

from experiments.tables.measurement import ENGINE, Measurement, PageTable, picture_table

TRANSFORMER = (*ENGINE, "experiments/transformer/*.py")

SEQUENCES = Measurement("python -m experiments.transformer", TRANSFORMER, "transformer")

ADDITION = (*ENGINE, "experiments/addition/*.py")
OF_896 = Measurement(
    "python -m experiments.addition train --run-name reliable_896 --seeds 8 --seed 43 "
    "--d-model 8 --d-ff 28 --ffn-rank 3 --frozen-residual 1 --lr 0.015 --train-steps 20000 "
    "--aligned-start 1 --sparse-share 0.5 --curriculum none --batch-size 256 --stop-after 2",
    ADDITION,
    "grokking",
)
OF_456 = Measurement(
    "python -m experiments.addition train --run-name sparse_456 --seeds 4 --seed 43 "
    "--pos-rank 3 --qkv-rank 3 --attn-out-rank 2 --ffn-rank 3 --use-rmsnorm "
    "--tie-qkv shareA_tieKV --train-steps 20000 --aligned-start 1 --sparse-share 0.5 "
    "--curriculum none --batch-size 256 --stop-after 2",
    ADDITION,
    "grokking",
)

MEASUREMENTS = {
    "transformer": SEQUENCES,
    "transformer-picture": replace(SEQUENCES, reader=None, picture="plots/learning.png"),
    "grokking": OF_896,
    "grokking-picture": replace(OF_896, reader=None, picture="reliable_896/grokking.png"),
    "grokking-456": OF_456,
    "energy-adder": Measurement(
        "python -m experiments.addition energy --digits 2 3 --seeds 1",
        (*ADDITION, "experiments/transformer/*.py"),
        "energy_adder",
    ),
}

TABLES = {
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
    "transformer-picture": picture_table(
        "docs/transformer.md",
        "transformer-picture",
        "Cost against update for each task",
        "transformer_learning.png",
    ),
    "grokking": PageTable(
        "docs/addition.md",
        (("grokking", 1), ("grokking-456", 1)),
        (
            "trained parameters",
            "seeds",
            "grokked",
            "exact 95 % interval",
            "steps until all 5,000 validation sums are right",
        ),
    ),
    "grokking-picture": picture_table(
        "docs/addition.md",
        "grokking-picture",
        "Exact sums and right digits on the validation part, one line for each of eight seeds",
        "grokking.png",
    ),
    "energy-adder": PageTable(
        "docs/addition.md",
        (("energy-adder", 4),),
        ("digits", "method", "exact sums", "right digits, %", "not settled, %"),
        2,
    ),
}
