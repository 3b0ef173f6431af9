"""The engine stands on numpy, numba and scipy alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVERY_MODULE = """
import importlib, pkgutil, sys, engine
for module in pkgutil.iter_modules(engine.__path__):
    importlib.import_module(f"engine.{module.name}")
print(*(name for name in sys.modules if "." not in name))
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Top-level modules in memory once all of the engine is."""
    command = [sys.executable, "-c", EVERY_MODULE]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    "name", ["torch", "sklearn", "matplotlib", "brian2", "pandas", "rich", "tests"]
)
def test_the_engine_does_without(name: str, loaded: set[str]) -> None:
    assert name not in loaded


@pytest.mark.parametrize("name", ["engine", "numpy", "numba"])
def test_the_engine_stands_on(name: str, loaded: set[str]) -> None:
    assert name in loaded


def test_what_only_training_needs_is_not_imported_with_the_engine() -> None:
    """scipy's linear algebra would be a third of the time that the import takes."""
    command = [sys.executable, "-c", "import engine, sys; print('scipy.linalg' in sys.modules)"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"


@pytest.mark.parametrize("package", ["adapters", "golden", "hw_sim", "experiments"])
def test_the_engine_knows_no_other_package(package: str, loaded: set[str]) -> None:
    assert package not in loaded
