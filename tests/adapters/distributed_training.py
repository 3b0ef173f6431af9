"""Train the same model in one of several processes; the test starts it once for each.

    python distributed_training.py FILE RANK PROCESSES OUT

The processes meet at FILE. Each takes its share of every batch; rank 0 writes the parameters.
"""

import sys

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from adapters.torch_module import EqPropModule
from engine.equilibrium import Relaxation
from engine.learning.spectral import SpectralCap
from engine.model.builders import looped_mlp
from engine.model.params import initial_params

SAMPLES, UPDATES = 12, 6


def build() -> nn.Sequential:
    """Torch layers before and after the network that settles; the same weights everywhere."""
    torch.manual_seed(0)
    params = initial_params(looped_mlp(4, 8, 3), np.random.default_rng(0), np.float64)
    core = EqPropModule(params, free=Relaxation(200, 1e-10))
    return nn.Sequential(nn.Linear(5, 4), core, nn.Linear(8, 3)).double()


def train(model: nn.Module, core: EqPropModule, rank: int, processes: int) -> None:
    """Take Adam steps on this process' share of each batch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(1)
    for _ in range(UPDATES):
        x = torch.randn(SAMPLES, 5, generator=generator, dtype=torch.float64)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        mine = slice(rank, None, processes)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[mine]), y[mine]).backward()
        optimizer.step()
        core.enforce(SpectralCap(0.9))


def main(file: str, rank: int, processes: int, out: str) -> None:
    """Join the group, train, and let the first process write."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=processes
    )
    model = build()
    train(DistributedDataParallel(model), model[1], rank, processes)
    if rank == 0:
        np.save(out, nn.utils.parameters_to_vector(model.parameters()).detach().numpy())
    distributed.barrier()  # a process whose peer has left in the middle of it is aborted
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
