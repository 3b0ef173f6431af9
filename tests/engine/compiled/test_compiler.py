"""The cache of compiled code, and what is said when it is empty."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from engine.compiled.compiler import compiled, contents

ROOT = Path(__file__).parents[3]
PROBE = """
import numpy as np
from engine.compiled.functions import activate
out = np.zeros((1, 1))
activate(np.array([[0, 1, 0, 0]]), np.ones((1, 1)), out)
print(out[0, 0])
"""


def test_an_edit_in_a_function_that_is_called_compiles_its_callers_anew(tmp_path: Path) -> None:
    """`activate` lies in one file, `part`, which it calls, in another.

    What is compiled is announced, and what is in the cache is not.
    """
    shutil.copytree(ROOT / "engine", tmp_path / "engine", ignore=shutil.ignore_patterns("*.nb?"))
    alone = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    alone["PYTHONPATH"] = str(tmp_path)

    def run() -> tuple[float, int]:
        """Return what the probe printed, and how often it said that it compiles."""
        told = subprocess.run(
            [sys.executable, "-P", "-c", PROBE],
            cwd=tmp_path, env=alone, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert told.stderr.count("\n") == told.stderr.count("Settle compiles its kernels")
        return float(told.stdout), told.stderr.count("\n")

    assert run() == (np.tanh(1.0), 1)
    assert run() == (np.tanh(1.0), 0)
    kept = list(tmp_path.rglob("functions.activate*.nbi"))
    assert kept  # the first run left its code, which the second must not take
    callee = tmp_path / "engine/compiled/parts.py"
    text = callee.read_text(encoding="utf-8")
    wrong = text.replace('{"shape": [arguments[2]]', '{"shape": [arguments[2].type(0)]')
    assert wrong != text
    callee.write_text(wrong, encoding="utf-8")
    assert run() == (0.0, 1)


def test_the_contents_of_files_are_their_names_and_what_they_hold(tmp_path: Path) -> None:
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    one.write_text("1")
    other.write_text("2")
    first = contents(one, other)
    assert contents(other, one) == first
    assert contents(one) != first
    other.write_text("3")
    assert contents(one, other) != first
    other.write_text("2")
    assert contents(one, other) == first
    assert contents(other.rename(tmp_path / "c.py"), one) != first


def test_a_function_without_a_file_is_compiled_all_the_same() -> None:
    names: dict[str, object] = {}
    exec("def add(x):\n    return x + 1", names)
    kernel = compiled(names["add"])  # type: ignore[arg-type]
    assert kernel(1) == 2
    assert compiled(kernel) is kernel
