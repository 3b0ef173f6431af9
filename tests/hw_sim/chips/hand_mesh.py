"""The mesh of tiles by hand: every weight has a tile, every word a home, one word after another.

Nothing here is shared with `hw_sim`: tiles and hops are written down from `docs/hardware.md`.
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil, sqrt

from engine.couplings.dense import Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout
from engine.model.network import Network

Tile = tuple[int, int, int]
"""Block, and its row and column among the tiles of the block."""


def walked(start: int, end: int, count: int) -> list[int]:
    """Tiles that a word leaves: along its row first, but along its column out of the last row."""
    side = ceil(sqrt(count))
    (y, x), (to_y, to_x) = divmod(start, side), divmod(end, side)
    left, is_last = [], y == (count - 1) // side
    while (y, x) != (to_y, to_x):
        left.append(side * y + x)
        assert left[-1] < count, "there is no tile"
        if x == to_x or (is_last and y != to_y):
            y += 1 if to_y > y else -1
        else:
            x += 1 if to_x > x else -1
    return left


class HandMesh:
    """Tiles in the order of the blocks on a square mesh; ends of blocks are lists of words."""

    def __init__(self, network: Network, rows: int, columns: int) -> None:
        self.rows, self.columns = rows or 10**9, columns or 10**9
        units = {n: [("unit", u) for u in range(s.start, s.stop)] for n, s in
                 network.columns.items()}  # fmt: skip
        given = [("input", i) for i in range(network.inputs)]
        starts = {name: span.start for name, span in network.columns.items()}
        couplings = network.couplings
        fed = [c for c in couplings if isinstance(c, InputDrive)]
        fed.sort(key=lambda c: starts[c.layer])
        inner = [c for c in couplings if isinstance(c, Dense | Lateral)]
        inner.sort(key=lambda c: [starts[name] for name in (c.layers[0], c.layers[-1])])
        self.ends = {c.name: (given, units[c.layer]) for c in fed}
        self.ends |= {c.name: (units[c.layers[0]], units[c.layers[-1]]) for c in inner}
        if isinstance(network.readout, SoftmaxReadout):
            told = [("output", k) for k in range(network.outputs)]
            self.ends["W_out"] = units[network.readout.layer], told
        self.number: dict[tuple[str, int, int], int] = {}
        for name, (above, beside) in self.ends.items():
            for r in range(ceil(len(above) / self.rows)):
                for c in range(ceil(len(beside) / self.columns)):
                    self.number[name, r, c] = len(self.number)
        self.side = ceil(sqrt(len(self.number)))
        inside = [name for name in self.ends if name not in {c.name for c in fed}]
        order = inside + [c.name for c in fed]
        self.home: dict[tuple[str, int], int] = {}
        for name in order:  # where a word is heard; else where it is sent
            for k, word in enumerate(self.ends[name][1]):
                self.home.setdefault(word, self.number[name, 0, k // self.columns])
        for name in order:
            for k, word in enumerate(self.ends[name][0]):
                self.home.setdefault(word, self.number[name, k // self.rows, 0])

    def hops(self, a: int, b: int) -> int:
        """Steps between two tiles."""
        return abs(a // self.side - b // self.side) + abs(a % self.side - b % self.side)

    def parts(self, name: str, back: bool) -> int:
        """Tiles that a line crosses on which words arrive."""
        above, beside = self.ends[name]
        return ceil(len(beside) / self.columns) if back else ceil(len(above) / self.rows)

    def driven(self, name: str, back: bool = False) -> int:
        """Hops until all words of one end are on all tiles of their line."""
        return sum(self.hops(*journey) for journey in self.to_drive(name, back))

    def joined(self, name: str, back: bool = False) -> int:
        """Hops until the words of all tiles are home."""
        return sum(self.hops(*journey) for journey in self.to_join(name, back))

    def to_drive(self, name: str, back: bool = False) -> list[tuple[int, int]]:
        """From the home of each word to each tile that it drives."""
        return self._crossings(name, not back)

    def to_join(self, name: str, back: bool = False) -> list[tuple[int, int]]:
        """From each tile to the home of each word, none where currents join on one tile."""
        if self.parts(name, back) == 1:
            return []
        return [(tile, home) for home, tile in self._crossings(name, back)]

    def busiest(self, journeys: Sequence[tuple[int, int]]) -> int:
        """Words that leave the place of the mesh which most of them leave, step by step."""
        passed = Counter[int]()
        for start, end in journeys:
            passed.update(walked(start, end, len(self.number)))
        return max(passed.values(), default=0)

    def _crossings(self, name: str, rows: bool) -> list[tuple[int, int]]:
        """Home of each word of the rows, or of the columns, and each tile that it crosses."""
        above, beside = self.ends[name]
        found = []
        for k, word in enumerate(above if rows else beside):
            others = range(ceil(len(beside) / self.columns) if rows else
                           ceil(len(above) / self.rows))  # fmt: skip
            for other in others:
                place = (k // self.rows, other) if rows else (other, k // self.columns)
                found.append((self.home[word], self.number[name, *place]))
        return found
