"""A small trained network with the words that `--save-weights` adds, and samples in files."""

import json
from pathlib import Path

import numpy as np

from engine import NumbaBackend, Training, fit, initial_params, looped_mlp, save
from engine.arrays import FloatArray

NAMES = ("ant", "bee", "cat")


def clusters(samples: int = 90) -> tuple[FloatArray, FloatArray]:
    """Raw inputs of three classes, far from the origin, and their places."""
    rng, y = np.random.default_rng(0), np.arange(samples) % 3
    centres = np.array([[100.0, 5.0], [104.0, 5.0], [102.0, 9.0]])
    return centres[y] + rng.normal(0.0, 0.4, (samples, 2)), y


def trained(folder: Path, told: bool = True, **about: object) -> Path:
    """Save a network that knows the clusters; `told` how they were scaled, or not."""
    x, y = clusters()
    mean, scale = x.mean(0), x.std(0)
    network = looped_mlp(2, 8, 3)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    fit(backend, (x - mean) / scale, y, Training(epochs=40, batch_size=10))
    words = {"title": "clusters", "names": NAMES, "mean": mean.tolist(), "scale": scale.tolist()}
    path = folder / "network.npz"
    save(path, backend.params, settings=json.dumps(words | about) if told else "")
    return path


def write_csv(path: Path, x: FloatArray, labels: list[str] | None = None) -> Path:
    """Write samples with a header, and their labels in the last column if there are any."""
    rows = [["width", "height", *(["kind"] if labels else [])]]
    rows += [[f"{v:.6f}" for v in row] for row in x]
    for row, label in zip(rows[1:], labels or [], strict=False):
        row.append(label)
    path.write_text("\n".join(",".join(row) for row in rows) + "\n")
    return path
