"""Where contestants may compute, by name and without what computes there."""

import argparse

from experiments.options import present_path

COMPILED = "compiled"
"""In place of a torch device: the kernels of the engine."""
DEVICES = ("cpu", "cuda", "mps")


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare `--device`, where torch is to run."""
    text = "EqProp on torch, there (default: compiled kernels)"
    parser.add_argument("--device", choices=DEVICES, help=text)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Declare what changes settings, and what keeps the networks that they lead to."""
    add = parser.add_argument
    text = "change settings of all contestants, such as lr=0.01"
    add("--set", nargs="+", action="extend", metavar="KEY=VALUE", help=text)
    add("--settings", type=present_path, metavar="FILE", help="settings as --tune wrote them")
    add("--save-weights", action="store_true", help="keep each network in the folder, as .npz")
