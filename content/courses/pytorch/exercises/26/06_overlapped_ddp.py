"""Task 6: overlapped, bucketed DDP.

Backward computes the last layer's gradients first. They can travel while the earlier layers are
still being computed: when a bucket of gradients is complete, start its all-reduce and go on.

    replica = OverlappedDDP(model, bucket_bytes=25 * 2**20)
    loss = criterion(replica(x), y)
    loss.backward()                      # hooks start an asynchronous all-reduce per bucket
    replica.finish_gradients()           # waits, and writes the means into p.grad
    optimizer.step()

Check it:  python -m distlab.practice check 6
"""

import torch
import torch.distributed as dist
from torch import nn


class OverlappedDDP(nn.Module):
    """A module whose gradients leave in buckets while backward runs."""

    def __init__(self, module: nn.Module, bucket_bytes: int) -> None:
        """Give `module` rank 0's parameters and buffers on every rank, and plan the buckets.

        bucket_bytes: a bucket holds parameters of one dtype and at most this many bytes of
                      gradients; a larger parameter has a bucket of its own
        """
        super().__init__()
        raise NotImplementedError

    def forward(self, *args: object) -> torch.Tensor:
        """Call the module."""
        raise NotImplementedError

    def finish_gradients(self) -> None:
        """Wait for all buckets and replace each p.grad by its mean over all ranks.

        Ranks may use different parameters in a step, so hooks may fire in different orders, or not
        at all: every rank must still start the same buckets in the same order. A parameter that no
        rank used keeps grad None (one more collective, of integers, may find that out); one that
        some rank used gets the mean, its missing gradients counting as zeros.
        """
        raise NotImplementedError
