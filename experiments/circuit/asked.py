"""What is asked of a circuit: the saved network, samples for it, a nudge, and its parts."""

import argparse
from pathlib import Path
from typing import Any

from adapters.spice_netlist import Parts
from adapters.spice_run import SpiceError
from engine import Network, NumbaBackend, Params
from engine.archives import ArchiveError, read_arrays
from engine.arrays import FloatArray
from engine.errors import reason
from engine.learning.predict import checked_data
from experiments.options import named_path, positive_number, whole
from experiments.tasks import TASKS, TaskError, find_task

SPLIT_SEED = 42
LARGEST_FILE = 1 << 30
"""Bytes of a file of samples."""


def add_circuit(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say which circuit, which samples and which parts."""
    add = parser.add_argument
    add("network", type=named_path, metavar="NETWORK.npz", help="a saved resistive network")
    add(
        "--data",
        type=named_path,
        metavar="FILE",
        help="your samples: .npz with x (samples, inputs) as the network reads them, and y",
    )
    add("--task", metavar="NAME", help=f"or the test part of a task: {', '.join(TASKS)}")
    add("--samples", nargs="+", type=whole(0, 10**9), default=[0], metavar="K", help="which (0)")
    add("--beta", type=positive_number, default=0.1, metavar="B", help="nudge, in siemens (0.1)")
    add("--diode", choices=("ideal", "shockley"), default="ideal", help="(ideal)")
    add(
        "--saturation",
        type=positive_number,
        default=1e-14,
        metavar="A",
        help="of a diode (1e-14)",
    )
    add("--emission", type=positive_number, default=1.0, metavar="N", help="of a diode (1)")
    add(
        "--source-resistance",
        type=positive_number,
        default=0.0,
        metavar="OHM",
        help="of each input",
    )
    add(
        "--wire-resistance",
        type=positive_number,
        default=0.0,
        metavar="OHM",
        help="of each conductance",
    )


def parts_of(options: argparse.Namespace) -> Parts:
    """Return the parts that were asked for."""
    return Parts(
        options.diode,
        options.saturation,
        options.emission,
        options.source_resistance,
        options.wire_resistance,
    )


def samples_of(params: Params, options: argparse.Namespace) -> tuple[FloatArray, FloatArray | None]:
    """Return the samples that were asked for, and their targets if there are any."""
    if (options.data is None) == (options.task is None):
        raise SpiceError("say which samples: either --data FILE or --task NAME.")
    x, y = _read_task(options.task) if options.task is not None else _read(options.data)
    if x.ndim == 0 or not len(x):
        raise TaskError(f"{options.data} has x of shape {x.shape}, which holds no sample.")
    for k in options.samples:
        if k >= len(x):
            raise SpiceError(f"there is no sample {k}: the last one is {len(x) - 1}.")
    backend, chosen = NumbaBackend(params.network, params), options.samples
    if y is None:
        return backend.clamp(x[chosen]).x, None
    targets: tuple[FloatArray, FloatArray] = checked_data(backend, x, y)
    return targets[0][chosen], targets[1][chosen]


def sizes_of(network: Network) -> list[int]:
    """Return the inputs and the nodes of each layer; `up1` and `down1` are halves of one."""
    nodes: dict[str, int] = {}
    for name, columns in network.columns.items():
        layer = name.removeprefix("up").removeprefix("down")
        nodes[layer] = nodes.get(layer, 0) + columns.stop - columns.start
    return [network.inputs, *nodes.values()]


def _read_task(name: str) -> tuple[FloatArray, Any]:
    """Return the test part of a task."""
    split = find_task(name).load(SPLIT_SEED)
    return split.x_test, split.y_test


def _read(path: Path) -> tuple[FloatArray, Any]:
    """Return the arrays `x` and, if it is there, `y` of a file."""
    if not path.is_file():
        raise TaskError(f"there is no file {path}.")
    try:
        arrays = read_arrays(path, LARGEST_FILE)
    except (ArchiveError, OSError) as error:
        raise TaskError(
            f"{path} is not a readable .npz of plain arrays: {reason(error)}."
        ) from None
    if "x" not in arrays:
        raise TaskError(f"{path} has no array 'x'.")
    return arrays["x"], arrays.get("y")
