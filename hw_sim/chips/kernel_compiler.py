"""How the kernels of the chips are compiled: as they are written, and cached all together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.compiled.compiler import cached, contents

_FOLDER = Path(__file__).parent
_CONTENTS = contents(
    *_FOLDER.glob("*_kernels.py"), _FOLDER / "kernel_arguments.py", _FOLDER.parent / "events.py"
)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, or take it from the cache.

    Without fastmath of any sort: a chip rounds where its kernel says so, on every machine. Kernels
    call those of other files, so an edit in one of them compiles all anew.
    """
    return cached(function, _CONTENTS)
