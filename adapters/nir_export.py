"""Networks as NIR, the Neuromorphic Intermediate Representation, and back.

`write_nir` and `read_nir` keep a network exactly: a layer is a leaky integrator whose leak voltage
is its bias, `tau du/dt = b - u + sum W s`, a coupling is one node for each direction, linear or a
convolution. NIR has no activation and no learning: the graph's metadata names them, as text.
`to_spiking` is the approximation that spiking simulators can run as it is.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from adapters.nir_file import graph_bytes, nir, read_graph
from adapters.nir_nodes import OUTPUT, nodes_of, params_of
from engine.border import checked
from engine.couplings.link import INPUT, ONE
from engine.equilibrium import Relaxation
from engine.errors import CheckpointError, EngineError, check_count
from engine.learning.checkpoint import check_place, describe_network, network_from
from engine.learning.estimator import Estimator, centered, check_estimator
from engine.learning.spectral import recurrent_matrix
from engine.model.params import Params

FORMAT = "settle nir 1"
STEP_S = 1e-4
"""Time step of a spiking simulation for which `to_spiking` sets its constants."""
PEAK_STEPS = 100
"""Steps between the spikes of a unit whose state is one: 100 Hz."""
SYNAPSE_S = 0.05
MEMBRANE_S = 10.0
"""So long that the leak between two spikes is far below one step."""


@checked
@dataclass(frozen=True)
class LearningRule:
    """How a network was trained: the phases of the estimate and how they settled.

    A synapse changes by `-rate sum_k c_k dE/dw(s^{beta_k})` over the pairs `(beta_k, c_k)`.
    """

    estimator: Estimator = field(default_factory=lambda: centered(0.1))
    free: Relaxation = field(default_factory=Relaxation)
    nudged: Relaxation = field(default_factory=Relaxation)

    def __post_init__(self) -> None:
        check_estimator(self.estimator)


@checked
def to_nir(params: Params, rule: LearningRule | None = None) -> Any:
    """Return the exact graph of a network, a `nir.NIRGraph`."""
    params.check()
    graph, rule = nodes_of(params), rule or LearningRule()
    network = describe_network(params.network)
    head = {"format": FORMAT, "network": network, "rule": asdict(rule)}
    return nir.NIRGraph(graph.nodes, graph.edges, metadata={"settle": json.dumps(head)})


def from_nir(graph: Any) -> tuple[Params, LearningRule]:
    """Return the network and the rule in a graph that `to_nir` made, with its weights of now."""
    try:
        head = json.loads(graph.metadata["settle"])
        if head["format"] != FORMAT:
            raise CheckpointError(f"the graph has format '{head['format']}', expected '{FORMAT}'.")
        network, text = network_from(head["network"]), head["rule"]
        pairs = tuple((float(beta), float(c)) for beta, c in text["estimator"])
        rule = LearningRule(pairs, Relaxation(**text["free"]), Relaxation(**text["nudged"]))
        return params_of(network, graph.nodes), rule
    except EngineError:
        raise
    except Exception as error:  # a graph from elsewhere can lack anything
        raise CheckpointError(
            f"this is no NIR graph of a Settle network: {type(error).__name__} {error}."
        ) from None


@checked
def write_nir(path: Path | str, params: Params, rule: LearningRule | None = None) -> None:
    """Write the exact graph to an HDF5 file with its checksum, whole or not at all."""
    path, content = Path(path), graph_bytes(to_nir(params, rule))
    check_place(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@checked
def read_nir(path: Path | str) -> tuple[Params, LearningRule]:
    """Read what `write_nir` wrote, or another tool after it.

    NIR files hold arrays and text; none of it is executed.
    """
    return from_nir(read_graph(Path(path)))


@checked
def to_spiking(params: Params, peak_steps: int = PEAK_STEPS) -> Any:
    """Return a graph of spiking neurons whose rates approximate the free equilibrium.

    All layers become one population of current-based LIF neurons, which simulators with a recurrent
    layer can run. A unit in state `s` fires every `peak_steps / s` steps of `STEP_S`; synapses
    of `SYNAPSE_S` turn spikes into smooth currents. A spike comes one or two steps late, so the
    error is up to `2 / peak_steps`, which a coupling of norm `q` magnifies to `1 / (1 - q)` of it.
    Rates are not negative and not limited by one: it needs hard sigmoids that stay below one.
    """
    check_count("peak_steps", peak_steps)
    network = params.network
    for layer in network.layers:
        if layer.activation != "hard_sigmoid":
            raise EngineError(
                f"layer '{layer.name}' has activation '{layer.activation}': a rate is not "
                "negative, so spiking neurons need hard_sigmoid."
            )
    for coupling in network.couplings:
        if coupling.name not in network.links:
            raise EngineError(f"coupling '{coupling.name}' is no matrix, so no spikes carry it.")
    params.check()
    weight, bias = np.zeros((network.units, network.inputs)), np.zeros(network.units)
    for link in network.links.values():
        if link.source == INPUT:
            weight[network.columns[link.target]] += link.matrix(params[link.block]).T
        elif link.source == ONE:
            bias[network.columns[link.target]] += link.matrix(params[link.block])[0]
    synapse = STEP_S / SYNAPSE_S
    ones = np.ones(network.units)
    population = nir.CubaLIF(
        tau_syn=SYNAPSE_S * ones,
        tau_mem=MEMBRANE_S * ones,
        r=MEMBRANE_S / STEP_S * ones,
        v_leak=0 * ones,
        v_threshold=ones,
        w_in=SYNAPSE_S / STEP_S * ones,
    )
    drive = synapse / peak_steps
    nodes = {
        INPUT: nir.Input(np.array([network.inputs])),
        "drive": nir.Affine(drive * weight, drive * bias),
        "units.population": population,
        "units.recurrent": nir.Linear(synapse * recurrent_matrix(params)),
        OUTPUT: nir.Output(np.array([network.units])),
    }
    edges = [
        (INPUT, "drive"),
        ("drive", "units.population"),
        ("units.population", "units.recurrent"),
        ("units.recurrent", "units.population"),
        ("units.population", OUTPUT),
    ]
    head = {"step_s": STEP_S, "peak_steps": peak_steps, "network": describe_network(network)}
    return nir.NIRGraph(nodes, edges, metadata={"settle_spiking": json.dumps(head)})
