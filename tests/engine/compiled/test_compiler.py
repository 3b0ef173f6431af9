"""The cache of compiled code, and what is said when it is empty."""

import gc
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import event
from numba.core.errors import TypingError

from engine.compiled.compiler import PLAIN, SharedCodeFile, compiled, contents

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
    kernel = _compiled_from("x + 1")
    assert kernel(1) == 2
    assert compiled(kernel) is kernel


def _compiled_from(text: str) -> Any:
    """Return a kernel of one argument without a file, so that no cache has it."""
    names: dict[str, Any] = {}
    exec(f"def kernel(x):\n    return {text}", names)
    return compiled(names["kernel"])


def test_processes_that_compile_for_other_types_at_once_find_their_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = SharedCodeFile._load_index

    def slowly(self: SharedCodeFile) -> object:
        """Leave the others time to read the same index."""
        found = read(self)
        time.sleep(0.01)
        return found

    monkeypatch.setattr(SharedCodeFile, "_load_index", slowly)

    def save(kind: int) -> None:
        SharedCodeFile(str(tmp_path), "kernel", 1).save(kind, f"code of {kind}")

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(save, range(8)))
    kept = SharedCodeFile(str(tmp_path), "kernel", 1)
    assert [kept.load(kind) for kind in range(8)] == [f"code of {kind}" for kind in range(8)]


@pytest.mark.skipif(PLAIN, reason="nothing is compiled")
@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_after_a_compilation_as_before_it(collects: bool) -> None:
    held: list[bool] = []

    class Witness(event.Listener):
        def on_start(self, event: object) -> None:
            held.append(gc.isenabled())

        def on_end(self, event: object) -> None:
            pass

    (gc.enable if collects else gc.disable)()
    try:
        with event.install_listener("numba:compile", Witness()):
            assert _compiled_from("x + 1")(1) == 2
            with pytest.raises(TypingError):
                _compiled_from("x + None")(1)
            assert gc.isenabled() == collects
    finally:
        gc.enable()
    assert held == [False, False]
