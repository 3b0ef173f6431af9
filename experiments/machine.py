"""Where the numbers of a report come from."""

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from joblib import cpu_count

PACKAGES = ("numpy", "numba", "scipy", "scikit-learn", "torch", "gymnasium")


def describe_machine() -> dict[str, str]:
    """Return Python, the machine and the versions of the packages that compute and are here."""
    found = {"python": platform.python_version(), "system": platform.system()}
    found |= {"machine": platform.machine(), "cores": str(cpu_count())}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
