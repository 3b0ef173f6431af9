"""The tasks on which learning rules are compared.

To add one, declare a `Task` and put it into `TASKS`, or read it with `task_from_file`.
"""

from collections.abc import Mapping

from experiments.tasks.cifar10 import CIFAR10
from experiments.tasks.control import (
    ACROBOT,
    CARTPOLE,
    cloned_policy,
    expert_policy,
    policy_return,
    random_policy,
)
from experiments.tasks.files import images_from_file, task_from_file
from experiments.tasks.images import DIGITS, FASHION_MNIST, FASHION_MNIST_10K, MNIST
from experiments.tasks.number_table import TARGETS
from experiments.tasks.task import (
    Environment,
    Image,
    MissingDataError,
    Policy,
    Split,
    Task,
    TaskError,
    normalised_split,
    stratified_parts,
)

__all__ = [
    "IMAGE_TASKS",
    "TARGETS",
    "TASKS",
    "Environment",
    "Image",
    "MissingDataError",
    "Policy",
    "Split",
    "Task",
    "TaskError",
    "cloned_policy",
    "expert_policy",
    "find_task",
    "images_from_file",
    "normalised_split",
    "policy_return",
    "random_policy",
    "stratified_parts",
    "task_from_file",
]

TASKS: dict[str, Task] = {
    task.name: task for task in (DIGITS, MNIST, FASHION_MNIST, CARTPOLE, ACROBOT)
}

IMAGE_TASKS: dict[str, Task] = {
    task.name: task for task in (DIGITS, FASHION_MNIST_10K, MNIST, FASHION_MNIST, CIFAR10)
}
"""Tasks whose inputs are images, for networks that know what is beside what."""


def find_task(name: str, tasks: Mapping[str, Task] = TASKS) -> Task:
    """Return the task of that name."""
    if name not in tasks:
        raise TaskError(f"There is no task {name!r}; the tasks are {', '.join(tasks)}.")
    return tasks[name]
