"""The options of the commands that train, declared without importing what trains."""

import argparse

from experiments.addition.config import (
    CELL_UPDATES,
    ENERGY_UPDATES,
    TYINGS,
    ModelConfig,
    TrainConfig,
)
from experiments.addition.sums import TEST_SEEDS, TEST_SIZE
from experiments.options import (
    MOST_TIMES,
    add_out,
    add_workers,
    plain_name,
    positive,
    seed_count,
    seed_number,
    whole,
)

LARGEST_BATCH = 10**6
"""Sums in an update, so that it fits the memory."""
MOST_DIGITS = 18
"""Of an operand, so that a sum fits 64 bits."""
MOST_SUMS = len(TEST_SEEDS) * TEST_SIZE


def add_training(parser: argparse.ArgumentParser) -> None:
    """Declare the options; their names are those of the published code where it has them."""
    add = parser.add_argument
    add("--run-name", type=plain_name, required=True, metavar="NAME", help="folder below --out")
    add_out(parser, "results/runs")
    add("--seeds", type=seed_count, default=1, metavar="N", help="train N seeds from --seed on (1)")
    add_workers(parser, "seeds")
    add("--device", default="cpu", help="cpu, cuda, mps or auto; all seeds in one stack if not cpu")
    add("--fresh", action="store_true", help="train again instead of going on")
    model, train = ModelConfig(), TrainConfig()
    for name, text in (
        ("d-model", "width"),
        ("d-ff", "width of the feed-forward layer"),
        ("n-layer", "layers"),
        ("n-head", "heads"),
        ("pos-rank", "rank of the position embedding, 0 is full"),
        ("qkv-rank", "rank of the query, key and value maps, 0 is full"),
        ("attn-out-rank", "rank of the attention's output map, 0 is full"),
        ("ffn-rank", "rank of the feed-forward maps, 0 is full"),
    ):
        default = getattr(model, name.replace("-", "_"))
        add(f"--{name}", type=int, default=default, metavar="N", help=f"{text} ({default})")
    add("--use-rmsnorm", action="store_true", help="RMSNorm in place of LayerNorm")
    add("--tie-qkv", default=model.tie_qkv, metavar="MODE", help=", ".join(TYINGS))
    add(
        "--frozen-residual",
        type=float,
        default=0.0,
        metavar="X",
        help="deviation, in units of 1/sqrt(inputs), of a random matrix that is added to every "
        "low-rank linear map and never trained (0: none)",
    )
    add("--seed", type=seed_number, default=train.seed, metavar="N", help=f"first ({train.seed})")
    for name, least, most, text in (
        ("train-steps", 1, MOST_TIMES, "updates"),
        ("batch-size", 1, LARGEST_BATCH, "sums in an update"),
        ("warmup-steps", 0, MOST_TIMES, "updates until the learning rate is at its peak"),
        ("eval-interval", 1, MOST_TIMES, "updates between evaluations"),
        ("stop-after", 0, MOST_TIMES, "evaluations in a row without an error to stop, 0 is never"),
    ):
        default = getattr(train, name.replace("-", "_"))
        help_text = f"{text} ({default})"
        add(f"--{name}", type=whole(least, most), default=default, metavar="N", help=help_text)
    for name, text in (
        ("lr", "peak of the learning rate"),
        ("weight-decay", "decoupled weight decay"),
        ("min-lr-ratio", "last learning rate over its peak"),
        ("grad-clip", "largest norm of the gradient"),
        ("carry-share", "share of sums with long carries, which fades in training, 0: published"),
        ("sparse-share", "share of sums with zeros at random places, 0: published lengths"),
        ("aligned-start", "deviation of positions that start alike by weight, 0: published start"),
    ):
        default = getattr(train, name.replace("-", "_"))
        add(f"--{name}", type=float, default=default, metavar="X", help=f"{text} ({default:g})")
    add(
        "--curriculum",
        type=_curriculum,
        default=train.curriculum,
        metavar="DIGITS:STEPS,...",
        help="most digits of an operand for so many updates, then ten; or 'none' (3:2000,6:5000)",
    )


def add_adders(adder: argparse.ArgumentParser, research: argparse.ArgumentParser) -> None:
    """Declare the options of `cell` and of `energy`."""
    for parser, seeds, updates in (
        (adder, 5, CELL_UPDATES),
        (research, 3, ENERGY_UPDATES),
    ):
        add = parser.add_argument
        add("--seeds", type=seed_count, default=seeds, metavar="N", help=f"how many ({seeds})")
        add("--seed", type=seed_number, default=0, metavar="N", help="the first (0)")
        add("--updates", type=positive, default=updates, metavar="N", help=f"updates ({updates})")
        add_out(parser, "results/addition")
    many = f"at most {MOST_SUMS:,} ({MOST_SUMS:,})"
    adder.add_argument("--sums", type=positive, default=MOST_SUMS, metavar="N", help=many)
    add = research.add_argument
    digits = whole(1, MOST_DIGITS)
    add("--digits", type=digits, nargs="+", default=[2, 3], metavar="N", help="of operands (2 3)")
    add_workers(research, "trainings")


def _curriculum(text: str) -> tuple[tuple[int, int], ...]:
    if text == "none":
        return ()
    parts = [part.split(":") for part in text.split(",")]
    if not all(len(part) == 2 and all(number.isdecimal() for number in part) for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form 3:2000,6:5000")
    return tuple((int(digits), int(steps)) for digits, steps in parts)
