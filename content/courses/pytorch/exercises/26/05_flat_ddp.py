"""Task 5: flat-bucket DDP.

Task 4 calls one collective per parameter and pays the latency of each. Pack the gradients into one
flat tensor, send it once, unpack. A collective has one dtype, so there is one flat tensor per dtype
of the model.

    replica = FlatDDP(model)
    loss = criterion(replica(x), y)
    loss.backward()
    replica.finish_gradients()
    optimizer.step()

Check it:  python -m distlab.practice check 5
"""

import torch
import torch.distributed as dist
from torch import nn


class FlatDDP(nn.Module):
    """A module whose gradients are averaged over the ranks, all of one dtype in one collective."""

    def __init__(self, module: nn.Module) -> None:
        """Give `module` rank 0's parameters and buffers on every rank."""
        super().__init__()
        raise NotImplementedError

    def forward(self, *args: object) -> torch.Tensor:
        """Call the module."""
        raise NotImplementedError

    def finish_gradients(self) -> None:
        """Replace each p.grad by its mean over all ranks; call it after backward.

        One collective per dtype carries all gradients, each once. One more, of integers, may find
        out which parameters were used at all: a parameter that no rank used keeps grad None, one
        that some rank used gets the mean, its missing gradients counting as zeros.
        """
        raise NotImplementedError
