"""The tasks on which learning rules are compared.

To add one, declare a `Task` and put it into `TASKS`, or read it with `task_from_file`.
"""

from experiments.tasks.control import (
    ACROBOT,
    CARTPOLE,
    cloned_policy,
    expert_policy,
    policy_return,
    random_policy,
)
from experiments.tasks.files import task_from_file
from experiments.tasks.images import DIGITS, FASHION_MNIST, MNIST
from experiments.tasks.task import (
    Environment,
    Policy,
    Split,
    Task,
    TaskError,
    normalised_split,
    stratified_parts,
)

__all__ = [
    "TASKS",
    "Environment",
    "Policy",
    "Split",
    "Task",
    "TaskError",
    "cloned_policy",
    "expert_policy",
    "find_task",
    "normalised_split",
    "policy_return",
    "random_policy",
    "stratified_parts",
    "task_from_file",
]

TASKS: dict[str, Task] = {
    task.name: task for task in (DIGITS, MNIST, FASHION_MNIST, CARTPOLE, ACROBOT)
}


def find_task(name: str) -> Task:
    """Return the task of that name."""
    if name not in TASKS:
        raise TaskError(f"There is no task {name!r}; the tasks are {', '.join(TASKS)}.")
    return TASKS[name]
