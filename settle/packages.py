"""The packages of Settle: whether those that Python finds are ours."""

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("engine", "hw_sim", "adapters", "golden", "experiments")
ROOT = Path(__file__).parents[1]


def hidden_packages(root: Path = ROOT) -> list[str]:
    """Say of every package that is missing or another's, in one sentence each."""
    sentences = []
    for name in PACKAGES:
        found = _place(name)
        if found is None:
            sentences.append(f"the package {name} of Settle is missing: install Settle again.")
        elif found != root / name:
            sentences.append(
                f"another package called {name}, in {found}, hides that of Settle in {root}: "
                "remove it, or take its folder out of PYTHONPATH."
            )
    return sentences


def _place(name: str) -> Path | None:
    """Return the folder or file from which Python would import a package, without importing it."""
    spec = find_spec(name)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve()
    return Path(spec.origin or name)
