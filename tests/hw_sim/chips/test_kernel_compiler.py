"""Kernels of the chips lie in several files: they are cached together, and round as written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.compiled.compiler import PLAIN
from hw_sim.chips import (
    array_kernels,
    crossbar_kernels,
    digital_kernels,
    event_kernels,
    real_kernels,
    wire_kernels,
)

ROOT = Path(__file__).parents[3]
PROBE = """
import numpy as np
from hw_sim.chips.digital_update_kernels import write_words
from hw_sim.chips.kernel_arguments import Update
theta, tally = np.zeros(1, np.int64), np.zeros((1, 32), np.int64)
blocks = np.array([[0, 1, 0, 0, 1, -1]])
write_words(theta, np.full(1, 9.0), theta.copy(), blocks, Update(1.0, 0, -5, 5), tally)
print(theta[0])
"""


@pytest.mark.skipif(PLAIN, reason="nothing is compiled")
def test_an_edit_in_a_kernel_that_is_called_compiles_its_callers_anew(tmp_path: Path) -> None:
    """`write_words` lies in one file, `clipped`, which it calls, in another."""
    for package in ("engine", "hw_sim"):
        ignored = shutil.ignore_patterns("*.nb?", "kernels-*")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    alone = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    alone["PYTHONPATH"] = str(tmp_path)

    def run() -> int:
        told = subprocess.run(
            [sys.executable, "-P", "-c", PROBE],
            cwd=tmp_path, env=alone, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return int(told.stdout)

    assert run() == 5
    assert list(tmp_path.rglob("digital_update_kernels.write_words*.nbi"))
    callee = tmp_path / "hw_sim/chips/digital_kernels.py"
    text = callee.read_text(encoding="utf-8")
    wrong = text.replace("return min(max(value, low), high)", "return max(value, low)")
    assert wrong != text
    callee.write_text(wrong, encoding="utf-8")
    assert run() == 9


@pytest.mark.skipif(PLAIN, reason="nothing is compiled")
def test_no_kernel_of_a_chip_may_round_otherwise_than_it_is_written() -> None:
    modules = array_kernels, crossbar_kernels, digital_kernels, event_kernels, real_kernels
    found = 0
    for module in (*modules, wire_kernels):
        for kernel in vars(module).values():
            if hasattr(kernel, "py_func"):
                assert not kernel.targetoptions.get("fastmath", False)
                found += 1
    assert found > 30
