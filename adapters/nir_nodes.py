"""The nodes of a network's couplings and read-out in NIR, and the parameters in such nodes."""

from dataclasses import fields
from typing import Any

import numpy as np

from adapters.nir_file import nir
from adapters.nir_images import Grid, block_of, convolution_nodes, lay_out, vision_of
from engine.arrays import FloatArray
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT, ONE, Link
from engine.errors import CheckpointError, EngineError
from engine.model.network import Layer, Network
from engine.model.params import Params

OUTPUT = "output"
FREE = ("tau", "metadata", "input_type", "output_type")
"""Fields of a node that say nothing of the equilibrium."""

Edges = list[tuple[str, str]]


class Graph:
    """Nodes and edges in the making; no two nodes have one name."""

    def __init__(self, grids: dict[str, Grid]) -> None:
        self.grids = grids
        self.nodes: dict[str, Any] = {}
        self.edges: Edges = []

    def add(self, name: str, node: Any) -> None:
        """Add a node."""
        if name in self.nodes:
            raise EngineError(f"two nodes of the NIR graph would be called '{name}'.")
        self.nodes[name] = node

    def join(self, name: str, source: str, target: str, node: Any) -> None:
        """Add a node between two others; one that takes a row reads an image through a `Flatten`.

        An image is a row in NIR's order, so that `node` has a column for each of its cells.
        """
        if isinstance(node, nir.Linear | nir.Affine) and self.grids[source].sides:
            source = self._row_of(source)
        self.add(name, node)
        self.edges += [(source, name), (name, target)]

    def _row_of(self, source: str) -> str:
        name = f"{source}_row"
        if (source, name) not in self.edges:
            self.add(name, nir.Flatten(np.array(self.grids[source].shape), start_dim=0))
            self.edges.append((source, name))
        return name


def nodes_of(params: Params) -> Graph:
    """Return the nodes and edges of a network."""
    network = params.network
    graph = Graph(lay_out(network))
    graph.add(INPUT, nir.Input(np.array(graph.grids[INPUT].shape)))
    for layer in network.layers:
        graph.add(layer.name, _neurons(layer, params, graph.grids[layer.name]))
    for coupling in network.couplings:
        for way in _ways(coupling, params, graph.grids):
            graph.join(*way)
    graph.add(OUTPUT, nir.Output(np.array([network.outputs])))
    _read_out(params, graph)
    return graph


def params_of(network: Network, nodes: dict[str, Any]) -> Params:
    """Collect the parameters from the nodes, which have to be those of the network."""
    grids = lay_out(network)
    params = Params(network, np.empty(network.size, nodes[network.layers[0].name].v_leak.dtype))
    for coupling in network.couplings:
        link, name = _link(coupling, network), coupling.name
        if link.source == ONE:
            leak = grids[link.target].collect(nodes[link.target].v_leak)
            params[name][...] = leak.reshape(link.positions, -1)[0].reshape(params[name].shape)
        elif vision_of(coupling, network):
            params[name][...] = block_of(nodes[name])
        else:
            params[name][...] = _matrix(nodes[name], grids[link.source])
    if network.reading and network.reading.link:
        params["W_out"][...] = _matrix(nodes["W_out"], grids[network.readout.layer])
        params["b_out"][...] = nodes["W_out"].bias
    params.check()
    _check_same(nodes, nodes_of(params).nodes)
    return params


def _neurons(layer: Layer, params: Params, grid: Grid) -> Any:
    """Return the leaky integrators of a layer; a cell without a unit has no resistance."""
    ones = np.ones(layer.size, params.theta.dtype)
    biases = [
        link
        for link in params.network.links.values()
        if (link.source, link.target) == (ONE, layer.name)
    ]
    if len(biases) > 1:
        raise EngineError(f"layer '{layer.name}' has two biases; a NIR neuron has one.")
    bias = 0 * ones
    for link in biases:
        bias = link.forward(params[link.block], ones[None, :1])[0]
    return nir.LI(
        tau=np.ones(grid.shape, ones.dtype),
        r=grid.spread(ones),
        v_leak=grid.spread(bias),
        metadata={"activation": layer.activation},
    )


def _link(coupling: Coupling, network: Network) -> Link:
    """Return the link of a coupling, or refuse one that NIR has no node for."""
    link = network.links.get(coupling.name)
    known = link and (link.whole or link.source == ONE or vision_of(coupling, network))
    if link is None or not known:
        kind = type(coupling).__name__
        raise EngineError(f"coupling '{coupling.name}' ({kind}) has no NIR node.")
    return link


def _ways(
    coupling: Coupling, params: Params, grids: dict[str, Grid]
) -> list[tuple[str, str, str, Any]]:
    """Name, source, target and node of each way a coupling sends signals."""
    link = _link(coupling, params.network)
    if link.source == ONE:
        return []
    block, seen = params[link.block], vision_of(coupling, params.network)
    if seen:
        return convolution_nodes(seen, block, grids)
    two_ways = not (link.tied or link.clamped)
    if grids[link.target].sides or (two_ways and grids[link.source].sides):
        image = link.target if grids[link.target].sides else link.source
        raise EngineError(
            f"coupling '{link.block}' sends a row of signals to layer '{image}', which a "
            "convolution makes an image: NIR has no node that turns one into the other."
        )
    ends = (link.source, link.target)
    ways = [(link.block, *ends, nir.Linear(_columns(block, grids[link.source])))]
    if two_ways:
        ways.append((f"{link.block}_back", *ends[::-1], nir.Linear(block.copy())))
    return ways


def _read_out(params: Params, graph: Graph) -> None:
    """Add the read-out, whose outputs have the engine's order, be they an image or not."""
    network, layer = params.network, params.network.readout.layer
    reading, grid = network.reading, graph.grids[layer]
    if reading is None or reading.positions > 1:
        raise EngineError(f"the read-out {type(network.readout).__name__} has no NIR node.")
    if reading.link is not None:
        weight = _columns(params["W_out"], grid)
        graph.join("W_out", layer, OUTPUT, nir.Affine(weight, params["b_out"].copy()))
    elif grid.sides is None:
        graph.edges.append((layer, OUTPUT))
    else:
        units = np.eye(network.outputs, dtype=params.theta.dtype)
        graph.join("units", layer, OUTPUT, nir.Linear(_columns(units, grid)))


def _columns(block: FloatArray, source: Grid) -> FloatArray:
    """Return a block `(units, outputs)` as NIR's matrix `(outputs, cells)`."""
    return np.ascontiguousarray(source.spread(block.T).reshape(block.shape[1], -1))


def _matrix(node: Any, source: Grid) -> FloatArray:
    """Return the block `(units, outputs)` of a node."""
    return source.collect(node.weight.reshape(-1, *source.shape)).T


def _check_same(nodes: dict[str, Any], expected: dict[str, Any]) -> None:
    """Refuse nodes that say something else than the parameters found in them."""
    for name, node in expected.items():
        for field in fields(node):
            same = field.name in FREE or np.array_equal(
                getattr(nodes[name], field.name), getattr(node, field.name)
            )
            if not same and name.endswith("_back"):
                raise CheckpointError(
                    f"node '{name}' differs from '{name.removesuffix('_back')}': a coupling has "
                    "one matrix."
                )
            if not same:
                raise CheckpointError(
                    f"node '{name}' has another {field.name} than its network can have."
                )
