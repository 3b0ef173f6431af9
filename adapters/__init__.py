"""Other executions of the contract; each module imports its own library."""

from importlib.util import find_spec
from pathlib import Path

_FOUND, _ROOT = find_spec("engine"), Path(__file__).parents[1]
_PLACE = Path(_FOUND.origin).resolve() if _FOUND and _FOUND.origin else None
if (_ROOT / "engine" / "__init__.py").resolve() != _PLACE:  # else names would be missing, later
    raise ImportError(
        f"another package called engine, in {_PLACE and _PLACE.parent}, hides that of Settle in "
        f"{_ROOT}: remove it, or take its folder out of PYTHONPATH."
    )
