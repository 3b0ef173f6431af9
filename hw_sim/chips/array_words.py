"""What the kernels read of one set of arrays, laid out once and written where it lies."""

from collections.abc import Sequence

import numpy as np

from engine.arrays import FloatArray
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.chips.arrays import arrays, cell_starts, tile_table
from hw_sim.chips.cells import CellArray, CrossbarConfig
from hw_sim.chips.kernel_arguments import Arrays, Messages
from hw_sim.chips.messages import (
    Way,
    block_table,
    feeds,
    hold,
    input_ways,
    readout_ways,
    recurrent_ways,
    sum_biases,
    wires,
)
from hw_sim.chips.mirror_kernels import mirror_blocks
from hw_sim.chips.wires import lines_of, see_pairs


class ArrayWords:
    """Currents of arrays at a voltage of one, variances of their noise, and their tiles."""

    def __init__(self, network: Network, config: CrossbarConfig) -> None:
        self._network, self._config = network, config
        self._held = hold(Params(network, np.zeros(network.size)), np.float64)
        self._loud = self._held.copy() if config.read_noise else self._held[:0]
        self.feeds, self.wires = feeds(network, self._held), wires(network, self._held)
        silent = Messages(*(part[:0] for part in self.feeds.messages))
        loud_in = loud = loud_out = silent
        if config.read_noise:
            loud_in, among = feeds(network, self._loud).messages, wires(network, self._loud)
            loud, loud_out = among.messages, among.readout

        def arrays_of(ways: Sequence[Way], loud: Messages, width: int) -> Arrays:
            tiles = tile_table(ways, config.tile, config.convert_each_step)
            return Arrays(tiles, bool(config.read_noise), loud, *np.zeros((2, 1, width)))

        out = [Way(way.link, back) for way in readout_ways(network) for back in (False, True)]
        self.into = arrays_of(input_ways(network), loud_in, network.units)
        self.between = arrays_of(recurrent_ways(network), loud, network.units)
        self.out = arrays_of(out, loud_out, network.outputs)

    def write(self, cells: CellArray, biases: FloatArray) -> None:
        """Turn cells into currents, as their ends see them; `biases (size,)` are words beside."""
        network, config, starts = self._network, self._config, cell_starts(self._network)
        loudness = (config.read_noise * config.weight_range) ** 2
        for way in arrays(network):
            name, shape = way.link.block, (way.link.fan_in, way.link.fan_out)
            conducts = config.off, config.wire_resistance, config.weight_range, loudness
            lines = lines_of(shape, config.tile, *conducts)
            span = network.blocks[name].span
            see_pairs(cells.level, starts[name], shape, lines, self._held, self._loud, span.start)
        for words in (self._held, self._loud)[: 1 + bool(config.read_noise)]:
            mirror_blocks(words, words[network.size :], block_table(network))
        for name in network.blocks.keys() - starts.keys():
            self._held[network.blocks[name].span] = biases[network.blocks[name].span]
        self.feeds.bias[...] = sum_biases(network, self._held)
