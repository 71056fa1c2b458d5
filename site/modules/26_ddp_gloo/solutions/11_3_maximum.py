"""Solution of task 11.3."""

import torch
import torch.distributed as dist

DIAGNOSIS = "a"


def chunk_of_maximum(values: torch.Tensor) -> torch.Tensor:
    """Return chunk number `rank` of the element-wise maximum over the ranks.

    values: (p * n,), the same shape on all ranks and unchanged on exit; the result is (n,)
    """
    maximum = values.clone()
    dist.all_reduce(maximum, op=dist.ReduceOp.MAX)
    return maximum.chunk(dist.get_world_size())[dist.get_rank()]
