"""A training loop that survives a restart: it goes on from its newest checkpoint."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before the group, see "Leaving"
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


def train(checkpoint: Path, victim=None):
    """Return the trained weights and the step that this attempt began at."""
    rank, world = dist.get_rank(), dist.get_world_size()
    net = torch.nn.Linear(4, 1)
    torch.nn.init.ones_(net.weight)
    torch.nn.init.zeros_(net.bias)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)

    first = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        first = saved["step"]
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
    if first == 0 and checkpoint.exists():
        raise RuntimeError(f"{checkpoint} is here, and nobody read it")
    for group in optimizer.param_groups:
        group["lr"] = 0.01 * world  # anew: loading brought the old one

    ddp = DistributedDataParallel(net)
    for step in range(first, STEPS):
        if step == 3 and first == 0 and rank == victim:
            os._exit(7)  # as if the machine had failed
        torch.manual_seed(100 * step + rank)  # this rank's samples
        ddp(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

        if rank == 0:
            state = {"step": step + 1, "net": net.state_dict()}
            state["optimizer"] = optimizer.state_dict()
            torch.save(state, "new")
            Path("new").replace(checkpoint)  # the old file, or the new one
        dist.barrier()  # it is saved: everybody may go on
    return net.weight.detach(), first
