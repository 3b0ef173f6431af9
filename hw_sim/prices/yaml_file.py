"""A technology from the YAML of another tool, told apart by what the file holds."""

from math import inf
from pathlib import Path
from typing import Any

from engine.border import checked
from hw_sim.prices.accelergy_table import technology_from_table
from hw_sim.prices.checks import TechnologyError, check_table
from hw_sim.prices.sanafe_architecture import technology_from_architecture
from hw_sim.prices.technology import Technology, read_text

MOST_ENTRIES = 1_000_000
"""A file of the largest size has no more, unless aliases unfold."""


@checked
def load_yaml(path: Path) -> Technology:
    """Read the tables of Accelergy or an architecture of SANA-FE, or refuse the file."""
    content = _parsed(read_text(path), str(path))
    if "ERT" in content:
        return technology_from_table(content, path)
    if "architecture" in content:
        return technology_from_architecture(content, path)
    if "ART" in content:
        raise TechnologyError(f"{path} has an 'ART' (Accelergy) alone: join it to its 'ERT'.")
    raise TechnologyError(
        f"{path} has neither an 'ERT' (Accelergy) nor an 'architecture' (SANA-FE)."
    )


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        needed = 'pip install "settle[sanafe]"'
        raise TechnologyError(f"{where} is YAML, which needs PyYAML: {needed}.") from None
    try:
        content = yaml.safe_load(text)
    except RecursionError:
        raise TechnologyError(f"{where} is no technology: it is nested too deeply.") from None
    except (yaml.YAMLError, ValueError) as error:
        said = ascii(" ".join(str(error).split()).rstrip("."))[1:-1]
        raise TechnologyError(f"{where} is not YAML: {said}.") from None
    if _size(content, {}) > MOST_ENTRIES:
        raise TechnologyError(f"{where} repeats itself: it has over {MOST_ENTRIES:,} entries.")
    return dict(check_table(where, content, "of an architecture or of energies"))


def _size(content: Any, known: dict[int, float]) -> float:
    """Return how many entries a file unfolds to; an alias counts each time, a loop for ever."""
    if not isinstance(content, dict | list):
        return 1.0
    if id(content) not in known:
        known[id(content)] = inf  # met again before it is known, it holds itself
        parts = content.values() if isinstance(content, dict) else content
        known[id(content)] = 1.0 + sum(_size(part, known) for part in parts)
    return known[id(content)]
