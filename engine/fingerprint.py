"""A hash of settings and data: equal only where every value is, whatever its length."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def fingerprint(*parts: Any) -> str:
    """Return the SHA-256 of all values in `parts`: dataclasses, containers, arrays and texts.

    A `repr` would not do: numpy shortens that of a long array.
    """
    digest = hashlib.sha256()
    _feed(digest, parts)
    return digest.hexdigest()


def _feed(digest: Any, part: Any) -> None:
    """Add a value with its kind and length, so that no two different ones read alike."""
    if isinstance(part, np.ndarray):
        digest.update(f"array {part.dtype.str} {part.shape};".encode())
        if part.size:
            digest.update(np.ascontiguousarray(part).data)
    elif is_dataclass(part) and not isinstance(part, type):
        held = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
        _feed(digest, (type(part).__module__, type(part).__qualname__, held))
    elif isinstance(part, Mapping):
        _feed(digest, sorted(part.items()))
    elif isinstance(part, tuple | list):
        digest.update(f"{len(part)} items;".encode())
        for item in part:
            _feed(digest, item)
    elif callable(part):
        name = getattr(part, "__qualname__", type(part).__qualname__)
        _feed(digest, (getattr(part, "__module__", ""), name))
    elif hasattr(part, "__dict__"):
        _feed(digest, (type(part).__module__, type(part).__qualname__, vars(part)))
    else:
        text = repr(part.item() if isinstance(part, np.generic) else part).encode()
        digest.update(f"{type(part).__name__} {len(text)};".encode() + text)
