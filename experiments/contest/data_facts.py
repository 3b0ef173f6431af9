"""What a run says of its data, for the report."""

from typing import Any

from experiments.tasks import Split, Task

DATA = "data"
"""Under which name of a record's measures."""


def data_facts(task: Task, split: Split) -> dict[str, Any]:
    """Return what there is to know of a task's data; `split` is not joined yet."""
    parts = [len(split.y_train), len(split.y_valid), len(split.y_test)]
    return {
        "samples": sum(parts),
        "inputs": task.inputs,
        "classes": None if task.continuous else task.classes,
        "parts": parts,
        "scaling": "each input" if split.mean.ndim else "all inputs alike",
        "split": split.description,
        "note": task.note,
    }
