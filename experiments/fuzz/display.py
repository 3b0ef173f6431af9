"""What the fuzzer shows while it runs, and what it says in the end."""

import time
from collections import Counter
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from experiments.fuzz.catalogue import THEORIES
from experiments.fuzz.hunt import Turn
from experiments.fuzz.strategies import ALL_FEATURES


class Tally:
    """Counts over all turns so far."""

    def __init__(self, names: list[str], seconds: float) -> None:
        self.names, self.limit = names, seconds
        self.began = time.perf_counter()
        self.examples: Counter[str] = Counter()
        self.features: set[str] = set()
        self.found: dict[str, Path] = {}

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.began

    @property
    def untried(self) -> list[str]:
        """The properties of which no example was tried."""
        return [name for name in self.names if not self.examples[name]]

    def add(self, turn: Turn) -> None:
        """Count a turn."""
        self.examples[turn.name] += turn.examples
        self.features |= turn.features

    def summary(self) -> str:
        """Say in one line how far it came."""
        total, elapsed = sum(self.examples.values()), self.elapsed
        reached = len(self.features & ALL_FEATURES)
        return (
            f"{total} examples in {elapsed:.0f} s ({total / max(elapsed, 1e-9):.0f} per second), "
            f"{len(self.examples)} of {len(self.names)} properties, "
            f"{reached} of {len(ALL_FEATURES)} features, {len(self.found)} failures"
        )

    def __rich__(self) -> Group:
        table = Table("property", "examples", "state", title=self.summary())
        for name in self.names:
            state = Text("failed", "red") if name in self.found else Text("holds", "green")
            table.add_row(name, str(self.examples[name]), state if self.examples[name] else "")
        left = max(0.0, self.limit - self.elapsed)
        missing = ", ".join(sorted(ALL_FEATURES - self.features)) or "none"
        return Group(table, Text(f"{left:.0f} s left; features not reached: {missing}"))


def announce(console: Console, turn: Turn, path: Path) -> None:
    """Say what failed and the one command that shows it again."""
    if turn.failure is None:
        return
    console.print(Text.assemble(("Failed: ", "red"), THEORIES[turn.name].sentence))
    console.print(turn.failure.message, markup=False, highlight=False)
    console.print(f"Replay: python -m pytest {path}", soft_wrap=True, markup=False)
