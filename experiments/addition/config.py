"""What a run is: the shape of the transformer, and how it is trained."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeVar, get_args

from experiments.addition.sums import POSITIONS, VOCABULARY

Tying = Literal[
    "none",
    "all",
    "qk",
    "kv",
    "shareA",
    "shareB",
    "shareB_tieQK",
    "shareB_tieKV",
    "shareA_tieKV",
    "shareA_tieQK",
]
"""Which of the query, key and value maps share their factors; `parameters.py` says how."""

TYINGS: tuple[str, ...] = get_args(Tying)
FACTOR_TYINGS = tuple(name for name in TYINGS if name.startswith("share"))
"""Tyings that share one factor of a low-rank map, so that a full-rank map has none to share."""

CELL_UPDATES, ENERGY_UPDATES = 1500, 2000
"""Of the adders that learn by equilibrium propagation."""
LARGEST_SIZE = 4096
"""Bound on every size of a model, so that no file can ask for more memory than there is."""


class AdditionError(ValueError):
    """A setting, a file or a number that the experiment refuses, as one sentence."""


@dataclass(frozen=True)
class ModelConfig:
    """A decoder-only pre-norm transformer; the names are those of the published checkpoint.

    A rank of 0 is full rank. `frozen_residual` is the deviation of a random matrix that is added
    to every low-rank linear map and never trained, in units of `1 / sqrt(inputs)`; 0 is none.
    """

    n_layer: int = 1
    d_model: int = 7
    n_head: int = 1
    d_ff: int = 14
    dropout: float = 0.0
    max_seq_len: int = POSITIONS
    vocab_size: int = VOCABULARY
    pos_rank: int = 0
    qkv_rank: int = 0
    attn_out_rank: int = 0
    ffn_rank: int = 0
    use_rmsnorm: bool = False
    tie_qkv: str = "none"
    frozen_residual: float = 0.0

    def __post_init__(self) -> None:
        for name in ("n_layer", "d_model", "n_head", "d_ff"):
            _check_whole(name, getattr(self, name), 1, LARGEST_SIZE)
        for name in ("pos_rank", "qkv_rank", "attn_out_rank", "ffn_rank"):
            _check_whole(name, getattr(self, name), 0, LARGEST_SIZE)
        if (self.max_seq_len, self.vocab_size) != (POSITIONS, VOCABULARY):
            raise AdditionError(
                f"the model reads {self.max_seq_len} positions of {self.vocab_size} tokens, "
                f"expected {POSITIONS} of {VOCABULARY}: ten-digit addition."
            )
        if self.d_model % self.n_head:
            raise AdditionError(f"d_model {self.d_model} is no multiple of n_head {self.n_head}.")
        if self.tie_qkv not in TYINGS:
            raise AdditionError(f"unknown tie_qkv '{self.tie_qkv}'; known: {', '.join(TYINGS)}.")
        if self.tie_qkv in FACTOR_TYINGS and self.qkv_rank == 0:
            raise AdditionError(f"tie_qkv '{self.tie_qkv}' shares a factor: it needs a qkv_rank.")
        if not isinstance(self.use_rmsnorm, bool):
            raise AdditionError(f"use_rmsnorm is {self.use_rmsnorm!r}, expected true or false.")
        _check_number("dropout", self.dropout, 0.0, 1.0)
        _check_number("frozen_residual", self.frozen_residual, 0.0, 100.0)


@dataclass(frozen=True)
class TrainConfig:
    """AdamW with a linear warm-up and a cosine, on a curriculum of ever more digits."""

    seed: int = 43
    train_steps: int = 54_000
    batch_size: int = 512
    lr: float = 0.02
    weight_decay: float = 0.01
    warmup_steps: int = 1350
    min_lr_ratio: float = 0.1
    grad_clip: float = 1.0
    eval_interval: int = 500
    curriculum: tuple[tuple[int, int], ...] = ((3, 2000), (6, 5000))
    """Pairs of most digits and steps; after the last one come ten digits."""
    carry_share: float = 0.0
    """Share of a batch whose sums carry over many places; it falls to zero between a quarter and
    three quarters of the training. 0 is the published training."""
    sparse_share: float = 0.0
    """Share of a batch whose operands have zeros at random places; the others are as long as the
    curriculum allows. 0 is the published training, on operands of random lengths."""
    aligned_start: float = 0.0
    """Deviation of position embeddings that start alike for digits of equal weight, with queries
    that start as keys; 0 is the published start, at which everything is drawn apart."""
    stop_after: int = 0
    """Evaluations in a row without an error after which to stop; 0 is never."""

    def __post_init__(self) -> None:
        for name in ("train_steps", "batch_size", "eval_interval"):
            _check_whole(name, getattr(self, name), 1)
        for name in ("seed", "warmup_steps", "stop_after"):
            _check_whole(name, getattr(self, name), 0)
        _check_number("lr", self.lr, 1e-12, 1e3)
        _check_number("grad_clip", self.grad_clip, 1e-12, 1e12)
        _check_number("weight_decay", self.weight_decay, 0.0, 1e3)
        _check_number("min_lr_ratio", self.min_lr_ratio, 0.0, 1.0)
        _check_number("carry_share", self.carry_share, 0.0, 1.0)
        _check_number("sparse_share", self.sparse_share, 0.0, 1.0)
        _check_number("aligned_start", self.aligned_start, 0.0, 100.0)
        for digits, steps in self.curriculum:
            _check_whole("digits of the curriculum", digits, 1, 10)
            _check_whole("steps of the curriculum", steps, 0)

    def rate(self, step: int) -> float:
        """Learning rate at `step`, counted from 0."""
        if step < self.warmup_steps:
            return self.lr * (step + 1) / self.warmup_steps
        left = max(1, self.train_steps - self.warmup_steps)
        share = min(1.0, (step - self.warmup_steps) / left)
        low = self.lr * self.min_lr_ratio
        return low + (self.lr - low) * 0.5 * (1.0 + math.cos(math.pi * share))

    def most_digits(self, step: int) -> int:
        """Most digits of an operand at `step`."""
        end = 0
        for digits, steps in self.curriculum:
            end += steps
            if step < end:
                return digits
        return 10

    def carrying(self, step: int) -> float:
        """Share of sums with long carries at `step`."""
        left = 1.5 - 2.0 * step / self.train_steps
        return self.carry_share * min(1.0, max(0.0, left))


Config = TypeVar("Config", ModelConfig, TrainConfig)


def config_from(kind: type[Config], values: Any, *, ignore_unknown: bool = False) -> Config:
    """Build a configuration from what a file holds, or say what is wrong with it."""
    if not isinstance(values, dict):
        raise AdditionError(f"a {kind.__name__} is a {type(values).__name__}, expected a table.")
    known = {field.name for field in fields(kind)}
    unknown = sorted(str(name) for name in values if name not in known)
    if unknown and not ignore_unknown:
        raise AdditionError(f"a {kind.__name__} has an unknown field '{unknown[0]}'.")
    kept = {name: value for name, value in values.items() if name in known}
    if "curriculum" in kept:
        kept["curriculum"] = tuple(tuple(phase) for phase in kept["curriculum"])
    try:
        return kind(**kept)
    except (TypeError, KeyError) as error:
        raise AdditionError(f"a {kind.__name__} cannot be read: {error}.") from None


def as_table(config: ModelConfig | TrainConfig) -> dict[str, Any]:
    """Return a configuration as plain values, for a file."""
    return asdict(config)


def _check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = f"at least {least}" if most is None else f"from {least} to {most}"
        raise AdditionError(f"{name} is {value!r}, expected a whole number {limit}.")


def _check_number(name: str, value: Any, least: float, most: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and least <= value <= most):
        raise AdditionError(f"{name} is {value!r}, expected a number from {least:g} to {most:g}.")
