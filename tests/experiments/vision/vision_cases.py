"""Tiny images that can be told apart, and trainings on them that take a fraction of a second."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from experiments.tasks import Task
from experiments.tasks.files import NumberTable, load_table
from experiments.vision.contestants import VisionJob
from experiments.vision.settings import VisionSettings

IMAGE, CLASSES = (6, 5, 2), 2
QUICK = VisionSettings(layers="3/2-4/2", batch_size=16, epochs=2)


def make_images(samples: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy images with a bright bar, upright or lying, and which of the two it is."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, *IMAGE))
    y = np.arange(samples) % CLASSES
    for image, label in zip(x, y, strict=True):
        place = rng.integers(IMAGE[0] if label else IMAGE[1])
        image[(place, slice(None)) if label else (slice(None), place)] += 3.0
    return x, y


def make_table(samples: int = 80, seed: int = 0) -> NumberTable:
    """Return the images as rows."""
    x, y = make_images(samples, seed)
    return NumberTable(x.reshape(samples, -1), y, ("upright", "lying"))


def write_images(path: Path, samples: int = 80, seed: int = 0) -> Path:
    """Write the images as a user would."""
    x, y = make_images(samples, seed)
    np.savez(path, x=x, y=y)
    return path


def make_task(load=None) -> Task:
    """Return the images as a task."""
    load = load or partial(load_table, make_table(), per_feature=False)
    return Task("bars", "Bars", int(np.prod(IMAGE)), CLASSES, load, image=IMAGE)


def make_job(contestant: str, seed: int = 42, load=None, **changes) -> VisionJob:
    """Return a quick training; `changes` are of the settings, or `final`."""
    final = changes.pop("final", True)
    return VisionJob(make_task(load), contestant, seed, replace(QUICK, **changes), final)
