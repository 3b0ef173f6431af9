"""The networks of the parity experiment that relax, read out by softmax or as a number.

Where a number is to be predicted, one linear unit on top is part of the energy; it is joined to
the last hidden layer by a matrix that carries signals both ways.
"""

from itertools import pairwise

from engine.couplings.coupling import Coupling
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SquaredError
from engine.errors import check_count
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer, Network
from experiments.contest.baselines import check_activation
from experiments.parity.settings import ParitySettings
from experiments.tasks import Task

OUTPUT = "output"


def layer_sizes(task: Task, settings: ParitySettings) -> tuple[int, ...]:
    """Return the sizes of inputs, hidden layers and outputs, where layers lie upon each other."""
    check_count("layers", settings.layers)
    return task.inputs, *(settings.hidden,) * settings.layers, task.classes


def layered_network(task: Task, settings: ParitySettings) -> Network:
    """Return the network whose hidden layers share one matrix with each neighbour."""
    check_activation(settings.activation)
    sizes = layer_sizes(task, settings)
    if not task.continuous:
        return layered(sizes, settings.activation)
    names = [f"layer{k + 1}" for k in range(settings.layers)]
    couplings: list[Coupling] = [InputDrive("W_1", names[0])]
    couplings += [Dense(f"W_{k + 2}", *pair) for k, pair in enumerate(pairwise(names))]
    return _read_as_number(task.inputs, names, settings, couplings)


def looped_network(task: Task, settings: ParitySettings) -> Network:
    """Return the network with one layer coupled to itself."""
    check_activation(settings.activation)
    if not task.continuous:
        return looped_mlp(task.inputs, settings.hidden, task.classes, settings.activation)
    couplings: list[Coupling] = [InputDrive("W_in", "hidden"), Lateral("W_rec", "hidden")]
    return _read_as_number(task.inputs, ["hidden"], settings, couplings)


def _read_as_number(
    inputs: int, names: list[str], settings: ParitySettings, couplings: list[Coupling]
) -> Network:
    start = 0.5 if settings.activation == "hard_sigmoid" else 0.0  # the middle of its range
    biases: list[Coupling] = [
        Bias("b" if name == "hidden" else f"b_{name}", name, start) for name in names
    ]
    top: list[Coupling] = [Dense("W_out", names[-1], OUTPUT), Bias("b_out", OUTPUT)]
    layers = [Layer(name, (settings.hidden,), settings.activation) for name in names]
    layers.append(Layer(OUTPUT, (1,), "linear"))
    return Network(inputs, tuple(layers), (*couplings, *biases, *top), SquaredError(OUTPUT))
