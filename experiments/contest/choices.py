"""Where contestants may compute, by name and without what computes there."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from experiments.options import FIRST_SEED, meant, present_path, seed_count, shortened
from experiments.source import field_names

COMPILED = "compiled"
"""In place of a torch device: the kernels of the engine."""
DEVICES = ("cpu", "cuda", "mps")

FIXED = ("data", "device")
"""Settings that have an option of their own, or none."""

AUTO = "auto"
MOST_SEEDS = 30
"""Up to which `--seeds auto` goes if nothing is said."""


class SeedCount(NamedTuple):
    """How many seeds are run at most, and whether fewer do if they decide."""

    most: int
    until_decided: bool = False


def add_seed_count(parser: argparse.ArgumentParser, usual: str) -> None:
    """Declare `--seeds`; `usual` says how many there are if nothing is said."""
    text = (
        f"seeds from {FIRST_SEED} on ({usual}); auto adds some until decided, up to "
        f"{MOST_SEEDS} or auto:MOST"
    )
    parser.add_argument("--seeds", type=_seeds, metavar="N", help=text)


def _seeds(text: str) -> SeedCount:
    """Read `5`, `auto` or `auto:50`."""
    word, colon, most = text.partition(":")
    if word != AUTO:
        return SeedCount(seed_count(text))
    return SeedCount(seed_count(most) if colon else MOST_SEEDS, until_decided=True)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare `--device`, where torch is to run."""
    text = "EqProp on torch, there (default: compiled kernels)"
    parser.add_argument("--device", choices=DEVICES, help=text)


def add_settings(parser: argparse.ArgumentParser, path: Path, owner: str) -> None:
    """Declare what changes settings, and what keeps the networks that they lead to.

    The settings are the fields of the class `owner` in the file `path`, which is not imported.
    """
    add = parser.add_argument
    text = "change settings of all contestants, such as lr=0.01"
    key = _assignment(lambda: [name for name in field_names(path, owner) if name not in FIXED])
    add("--set", nargs="+", action="extend", type=key, metavar="KEY=VALUE", help=text)
    add("--settings", type=present_path, metavar="FILE", help="settings as --tune wrote them")
    add("--save-weights", action="store_true", help="keep each network in the folder, as .npz")


def _assignment(names: Callable[[], list[str]]) -> Callable[[str], str]:
    """Return a reader of `key=value` that knows the keys; values are read with their settings."""

    def read(text: str) -> str:
        key, equals, _ = text.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"'{shortened(text)}' is no KEY=VALUE")
        known = names()
        if key.strip() not in known:
            listed = f"known: {', '.join(known)}{meant(key.strip(), known)}"
            raise argparse.ArgumentTypeError(
                f"there is no setting '{shortened(key.strip())}'; {listed}"
            )
        return text

    return read
