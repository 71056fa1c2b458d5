"""Solution of task 11.2."""

import torch
import torch.distributed as dist

DIAGNOSIS = "d"


def averages(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the means of the tensors over the ranks; all reductions are in flight at once."""
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    return [tensor / dist.get_world_size() for tensor in tensors]
