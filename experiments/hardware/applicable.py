"""Options that would do nothing are refused before anything is imported: what each one is for."""

import argparse
from collections.abc import Mapping, Sequence

from experiments.hardware.choices import BUILT, SUBSTRATES, TRANSFORMER

MODES = ("compare", "published", "explain", "tune", "sweep")
"""Options that say what is done in place of the report; one at a time."""
WHAT = frozenset(
    ("task", "data", "network", "substrate", "bits", "tiles", "neurons_per_core", "cells", "set")
)
READ_BY: Mapping[str, frozenset[str]] = {
    "compare": frozenset(("out",)),
    "published": frozenset(("out",)),
    "explain": WHAT | {"technology"},
    "tune": WHAT | {"out", "fresh"},
    "sweep": WHAT | {"technology", "out", "fresh", "seeds"},
}
"""What each mode has a use for."""
CHIP_OF = {
    "bits": "digital", "tiles": "crossbar", "cells": "crossbar", "neurons_per_core": "spiking",
}  # fmt: skip
LOOPED, DEEP, CONV = BUILT
NETWORKS_OF = {
    "hidden": (LOOPED, DEEP),
    "layers": (DEEP,),
    "channels": (CONV,),
    "activation": BUILT,
    "backprop_activation": BUILT,
    "bptt_steps": BUILT,
}
"""Settings that only some networks have."""


def check_applicable(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse, in one sentence, what was given and would do nothing."""
    given = {name for name, value in vars(options).items() if value != parser.get_default(name)}
    modes = [mode for mode in MODES if mode in given]
    if len(modes) > 1:
        parser.error(f"{_flag(modes[0])} and {_flag(modes[1])} are done one at a time")
    for mode in modes:
        for name in sorted(given - READ_BY[mode] - {mode, "workers"}):  # how, not what
            parser.error(f"{_flag(name)} does nothing with {_flag(mode)}")
    swept = [key for key, _ in options.sweep or ()]
    for key in swept:
        if swept.count(key) > 1:
            parser.error(f"--sweep has {key} twice")
    if {"task", "data"} <= given:
        parser.error("--task and --data are two tasks: give one of them")
    if options.network == TRANSFORMER and "task" in given:
        parser.error(f"--task does nothing with --network {TRANSFORMER}, which reverses sequences")
    _check_chips(parser, options)
    _check_settings(parser, options)


def _check_chips(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse what is of a chip that is left out."""
    homes = {name: chip for chip, names in SUBSTRATES.items() for name in names}
    technologies = options.technology or ()
    chosen = options.substrate
    if not chosen and options.network == TRANSFORMER:
        chosen = [next(iter(SUBSTRATES))]
    if not chosen and technologies and all(name in homes for name in technologies):
        chosen = list(dict.fromkeys(homes[name] for name in technologies))
    chosen = chosen or list(SUBSTRATES)
    for name in technologies:
        if homes.get(name, chosen[0]) not in chosen:
            parser.error(_left_out(f"technology {name}", homes[name], chosen))
    unused = unused_on(options, chosen)
    if unused:
        parser.error(unused)


def unused_on(options: argparse.Namespace, chosen: Sequence[str]) -> str:
    """Say which option is of a chip that is not among those chosen; empty if none is."""
    asked = [
        (_flag(name), chip) for name, chip in CHIP_OF.items() if getattr(options, name) is not None
    ]
    keys = [text.partition("=")[0].strip() for text in options.set]
    keys += [key for key, _ in options.sweep or ()]
    asked += [(key, key.partition(".")[0]) for key in keys if "." in key]
    for what, chip in asked:
        if chip in SUBSTRATES and chip not in chosen:
            return _left_out(what, chip, chosen)
    return ""


def _left_out(what: str, chip: str, chosen: Sequence[str]) -> str:
    return f"{what} is of the {chip} chip, and only {', '.join(chosen)} is run"


def _check_settings(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse settings of networks that are not built."""
    keys = [text.partition("=")[0].strip() for text in options.set]
    for key in [*keys, *(key for key, _ in options.sweep or ())]:
        networks = NETWORKS_OF.get(key)
        if networks is not None and options.network not in networks:
            parser.error(
                f"setting {key} is of the networks {', '.join(networks)}, not of {options.network}"
            )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
