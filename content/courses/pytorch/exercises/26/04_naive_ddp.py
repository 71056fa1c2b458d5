"""Task 4: naive DDP.

Data-parallel training keeps a replica of the model on every rank. The replicas start equal and
receive equal gradients, so they stay equal without sending a parameter ever again.

    replica = NaiveDDP(model)
    loss = criterion(replica(x), y)      # every rank has its own x and y
    loss.backward()
    replica.finish_gradients()           # now every p.grad is the mean over the ranks
    optimizer.step()

Check it:  python -m distlab.practice check 4
"""

import torch
import torch.distributed as dist
from torch import nn


class NaiveDDP(nn.Module):
    """A module whose gradients are averaged over the ranks, one parameter at a time."""

    def __init__(self, module: nn.Module) -> None:
        """Give `module` rank 0's parameters and buffers on every rank."""
        super().__init__()
        raise NotImplementedError

    def forward(self, *args: object) -> torch.Tensor:
        """Call the module."""
        raise NotImplementedError

    def finish_gradients(self) -> None:
        """Replace each p.grad by its mean over all p ranks; call it after backward.

        Some parameters are frozen (requires_grad=False: their grad stays None), some are tied (one
        parameter under two names), and some are used on this rank only, or on other ranks only:
        there grad is None and counts as zeros.
        """
        raise NotImplementedError
