"""The cache of compiled code, and kernels that are called by their address."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.compiled.compiler import address_of, call, compiled, contents

ROOT = Path(__file__).parents[3]
PROBE = """
import numpy as np
from engine.compiled.functions import activate
out = np.zeros((1, 1))
activate(np.array([[0, 1, 0, 0]]), np.ones((1, 1)), out)
print(out[0, 0])
"""


def test_an_edit_in_a_function_that_is_called_compiles_its_callers_anew(tmp_path: Path) -> None:
    """`activate` lies in one file, `part_of`, which it calls, in another."""
    shutil.copytree(ROOT / "engine", tmp_path / "engine", ignore=shutil.ignore_patterns("*.nb?"))
    alone = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    alone["PYTHONPATH"] = str(tmp_path)

    def run() -> float:
        told = subprocess.run(
            [sys.executable, "-P", "-c", PROBE],
            cwd=tmp_path, env=alone, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return float(told.stdout)

    assert run() == np.tanh(1.0)
    kept = list(tmp_path.rglob("functions.activate*.nbi"))
    assert kept  # the first run left its code, which the second must not take
    callee = tmp_path / "engine/compiled/program.py"
    text = callee.read_text(encoding="utf-8")
    wrong = text.replace("return sample[layer[OFFSET]", "return 0 * sample[layer[OFFSET]")
    assert wrong != text
    callee.write_text(wrong, encoding="utf-8")
    assert run() == 0.0


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


def _double(state, starts, rows, sizes, constants, scratch, into):  # type: ignore[no-untyped-def]
    """Add as many numbers as there are rows, each times a constant."""
    scratch[0] = constants[0] * sizes[0]
    for j in range(rows):
        into[starts[0] + j] += scratch[0] * state[starts[0] + j]


def _refuse(state, starts, rows, sizes, constants, scratch, into):  # type: ignore[no-untyped-def]
    raise ValueError("the kernel is on fire")


@compiled
def _run(address, state, starts, rows, sizes, constants, scratch, into):  # type: ignore[no-untyped-def]
    call(address, state, starts, rows, sizes, constants, scratch, into)


def _arguments(dtype: type) -> tuple[object, ...]:
    starts, sizes = np.array([2], np.int64), np.array([3], np.int64)
    return np.arange(6, dtype=dtype), starts, 3, sizes, np.full(1, 2, dtype), np.empty(1, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_at_an_address_gets_what_it_is_handed(dtype: type) -> None:
    kernel, into = compiled(_double), np.ones(6, dtype)
    address = address_of(kernel, np.dtype(dtype))
    _run(address, *_arguments(dtype), into)
    np.testing.assert_array_equal(into, [1, 1, 13, 19, 25, 1])
    assert address_of(kernel, np.dtype(dtype)) == address


def test_what_a_kernel_raises_is_heard() -> None:
    address = address_of(compiled(_refuse), np.dtype(np.float64))
    with pytest.raises(ValueError, match="the kernel is on fire"):
        _run(address, *_arguments(np.float64), np.ones(6))


def test_a_function_without_a_file_is_compiled_all_the_same() -> None:
    names: dict[str, object] = {}
    exec("def add(x):\n    return x + 1", names)
    kernel = compiled(names["add"])  # type: ignore[arg-type]
    assert kernel(1) == 2
    assert compiled(kernel) is kernel
