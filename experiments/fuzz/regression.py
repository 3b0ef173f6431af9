"""A failure as a file that runs: the network itself, not the way to find it again."""

import hashlib
import json
from pathlib import Path
from typing import Any

from experiments.fuzz.catalogue import THEORIES
from experiments.fuzz.hunt import Failure
from experiments.fuzz.strategies import Case
from experiments.records import write_text

TEMPLATE = '''"""{sentence}

Found by fuzzing: {message}
"""

from experiments.fuzz.regression import replay

EXAMPLE = r"""
{example}
"""


def test_{name}() -> None:
    """Hold the property to the smallest example on which it failed."""
    replay("{name}", EXAMPLE)
'''


def write_regression(folder: Path, failure: Failure) -> Path:
    """Write the failure as a test; the same failure always gets the same file."""
    example = json.dumps(failure.example, indent=1)
    mark = hashlib.sha256(example.encode()).hexdigest()[:8]
    message = " ".join(failure.message.split())[:200]
    text = TEMPLATE.format(
        sentence=THEORIES[failure.name].sentence,
        message=message.replace("\\", "/").replace('"', "'"),
        example=example,
        name=failure.name,
    )
    path = folder / f"test_{failure.name}_{mark}.py"
    write_text(path, text)
    return path


def replay(name: str, example: str) -> None:
    """Try the property called `name` on one example; raise as it does."""
    text: dict[str, Any] = json.loads(example)
    THEORIES[name].check(Case.from_text(text) if "network" in text else text)
