"""Train with DDP on any number of hosts, and resume from the newest checkpoint that one has.

    torchrun ... train.py [--steps 20] [--pace 0.5] [--timeout 15] [--die-at STEP]

Each host writes its own checkpoint, so no shared disk is needed, and it does not matter which host
gets rank 0 after a restart.
"""

import argparse
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # the optimizer does it later: the group outlives its end
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT = Path("checkpoint.pt")


def save(state):
    """Write all of it or nothing: a crash leaves the old checkpoint, never half of a new one."""
    part = CHECKPOINT.with_suffix(".part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())  # on the disk before it gets the name
    part.replace(CHECKPOINT)  # atomic


def newest(rank, p):
    """Return the checkpoint with the most steps that any host has, on every rank; None if none."""
    mine = torch.load(CHECKPOINT, weights_only=True) if CHECKPOINT.exists() else None
    steps = [torch.zeros(1) for _ in range(p)]
    dist.all_gather(steps, torch.tensor([float(mine["step"] if mine else 0)]))
    best = max(range(p), key=lambda r: steps[r].item())
    box = [mine if rank == best else None]
    dist.broadcast_object_list(box, src=best)
    return box[0]


def train(args):
    """Be one rank."""
    rank, p, node = dist.get_rank(), dist.get_world_size(), os.uname().nodename
    torch.manual_seed(0)
    net = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if state := newest(rank, p):
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    print(f"rank {rank} of {p} on {node}: {'resumes' if first else 'starts'} at step {first}")
    for step in range(first, args.steps):
        x = torch.randn(32, 8, generator=torch.Generator().manual_seed(step * p + rank))
        loss = torch.nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(args.pace)  # stands for the compute of a real model
        if int(os.environ["LOCAL_RANK"]) == 0:
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
            save(state | {"step": step + 1})
            print(f"rank {rank}: step {step + 1} done")
        if step + 1 == args.die_at and rank == p - 1 and not first:
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory runs out
    total = sum(weight.sum().item() for weight in net.parameters())
    print(f"rank {rank}: ok, {args.steps} steps, weights sum to {total:.6f}")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--pace", type=float, default=0.0, help="seconds added to each step")
parser.add_argument("--timeout", type=float, default=15, help="seconds to wait for the others")
parser.add_argument("--die-at", type=int, help="the last rank dies after this step, once")
options = parser.parse_args()
dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout))
train(options)
dist.barrier()
dist.destroy_process_group()
