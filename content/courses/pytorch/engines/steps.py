"""Train with DDP, resume from a checkpoint; on request the last rank dies or stands still, once.

Started as RANK=... steps.py [--steps 8] [--die-at STEP] [--stand-at STEP], in a folder that all
ranks share: there lies the checkpoint.
"""

import argparse
import faulthandler
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
faulthandler.register(signal.SIGUSR1)  # prints where this rank is; it goes on


def load_batch(step, stands):
    """Return the data of a step, (32, 8)."""
    if stands:
        time.sleep(3600)  # stands for a file server that does not answer
    return torch.randn(32, 8, generator=torch.Generator().manual_seed(step))


def save(state):
    """Write all of it or nothing."""
    part = CHECKPOINT.with_suffix(".part")
    torch.save(state, part)
    part.replace(CHECKPOINT)


def train(options):
    """Be one rank."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    torch.manual_seed(0)
    net = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    state = torch.load(CHECKPOINT) if CHECKPOINT.exists() else {"step": 0}
    if first := state["step"]:
        net.load_state_dict(state["net"])
    print(f"rank {rank} starts at step {first}, process {os.getpid()}", flush=True)
    for step in range(first, options.steps):
        x = load_batch(step, stands=rank == last and step == options.stand_at)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        if rank == 0:
            save({"step": step + 1, "net": net.state_dict()})
            print(f"step {step + 1} done", flush=True)
        if rank == last and step + 1 == options.die_at and not first:
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory runs out
    total = sum(weight.sum().item() for weight in net.parameters())
    print(f"rank {rank}: ok, {options.steps} steps, weights sum to {total:.6f}", flush=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--die-at", type=int, help="the last rank dies after this step")
parser.add_argument("--stand-at", type=int, help="the last rank stands still in this step")
dist.init_process_group("gloo", timeout=timedelta(minutes=10))
train(parser.parse_args())
dist.barrier()
dist.destroy_process_group()
