"""Solution of task 11.1."""

import torch
import torch.distributed as dist

DIAGNOSIS = "b"


def report(loss: torch.Tensor, step: int) -> str:
    """Return "step 3: loss 1.250", the mean of `loss` () over the ranks, on rank 0, else ""."""
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    if dist.get_rank() != 0:
        return ""
    return f"step {step}: loss {mean.item():.3f}"
