"""Find the bug 1: the first rank reports.

The loss shown on the screen is to be the mean over the ranks. Training stops at the first report,
or, if another all_reduce follows, the numbers of that one are wrong.

Set DIAGNOSIS to the letter of the cause, then mend the function.

    a  the loss must be detached before it is reduced
    b  a collective is called on one rank only
    c  item() copies to the CPU too early
    d  rank 0 divides by the world size once too often

Check it:  python -m distlab.practice check 11.1
"""

import torch
import torch.distributed as dist

DIAGNOSIS = "?"


def report(loss: torch.Tensor, step: int) -> str:
    """Return "step 3: loss 1.250", the mean of `loss` () over the ranks, on rank 0, else ""."""
    if dist.get_rank() != 0:
        return ""
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    return f"step {step}: loss {mean.item():.3f}"
