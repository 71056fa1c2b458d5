"""Solution of task 11.6."""

import torch
import torch.distributed as dist

DIAGNOSIS = "b"


def sums(batches: list[torch.Tensor]) -> list[float]:
    """Return, step by step, the sum over all ranks' batches of that step.

    batches: this rank's, each (n,); the list is as long on every rank as on the one with most
             batches, and a rank that has no batch in a step adds 0 to its sum
    """
    steps = torch.tensor(len(batches))
    dist.all_reduce(steps, op=dist.ReduceOp.MAX)
    found = []
    for step in range(int(steps)):
        total = torch.zeros((), dtype=torch.float64)
        if step < len(batches):
            total += batches[step].sum()
        dist.all_reduce(total)
        found.append(total.item())
    return found
