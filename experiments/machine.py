"""Where the numbers of a report come from."""

import platform
from importlib.metadata import version

from joblib import cpu_count

PACKAGES = ("numpy", "numba", "scipy", "scikit-learn", "torch", "gymnasium")


def describe_machine() -> dict[str, str]:
    """Return Python, the machine and the versions of the packages that compute."""
    found = {"python": platform.python_version(), "system": platform.system()}
    found |= {"machine": platform.machine(), "cores": str(cpu_count())}
    return found | {name: version(name) for name in PACKAGES}
