"""Task 7: gradient accumulation with no_sync.

A batch that does not fit into memory is cut into micro-batches whose gradients add up. DDP would
all-reduce after each of them; once, at the end, is enough.

Check it:  python -m distlab.practice check 7
"""

from collections.abc import Callable

import torch
from torch.nn.parallel import DistributedDataParallel

MicroBatch = tuple[torch.Tensor, torch.Tensor]


def accumulate(
    ddp: DistributedDataParallel, micro_batches: list[MicroBatch], loss_fn: Callable
) -> None:
    """Leave in each p.grad the gradient of the mean loss over all examples of all ranks.

    ddp:           the wrapped model; its gradients on entry are of the step before
    micro_batches: pairs (x, y) of shapes (B, 5) and (B, 2); B differs between micro-batches, but
                   every rank has the same list of sizes
    loss_fn:       loss_fn(prediction, y) is the mean over one micro-batch

    Exactly one backward communicates.
    """
    raise NotImplementedError
