"""What the vision command offers: tasks and networks, by name and without their work."""

from dataclasses import replace

from experiments.tasks import IMAGE_TASKS

SHALLOW, DEEP = "fashion_mnist_depth2", "fashion_mnist_depth7"
VISION_TASKS = IMAGE_TASKS | {
    name: replace(IMAGE_TASKS["fashion_mnist"], name=name, title=f"Fashion-MNIST ({layers} layers)")
    for name, layers in ((SHALLOW, 2), (DEEP, 7))
}
FULL = ("mnist", "fashion_mnist", "cifar10", SHALLOW, DEEP)
"""Tasks of the table that goals are about."""
NETWORKS = {"dchn": "128/2-256/2-512/2-512/2"}
"""What `--network` knows: channels and kernels as published, strides in place of max pooling."""
