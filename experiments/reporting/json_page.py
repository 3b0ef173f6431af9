"""Any result as JSON that every reader accepts."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def render_json(content: Mapping[str, Any]) -> str:
    """Return the content as JSON; what is not a finite number becomes null."""
    return json.dumps(_plain(content), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: no NaN, no numpy scalars, text as keys."""
    match value:
        case Mapping():
            return {str(key): _plain(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case np.generic():
            return _plain(value.item())
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)
