"""Find the bug 3: a maximum that is too large.

Each rank needs its own chunk of the element-wise maximum over the ranks, so a reduce-scatter with
MAX does it: on GPUs. On the CPU the values are larger than any that went in.

Set DIAGNOSIS to the letter of the cause, then mend the function.

    a  gloo's reduce_scatter_tensor sums, whatever op it is given
    b  the chunks overlap
    c  MAX is not defined for float32
    d  torch.empty leaves old values in the output

Check it:  python -m distlab.practice check 11.3
"""

import torch
import torch.distributed as dist

DIAGNOSIS = "?"


def chunk_of_maximum(values: torch.Tensor) -> torch.Tensor:
    """Return chunk number `rank` of the element-wise maximum over the ranks.

    values: (p * n,), the same shape on all ranks and unchanged on exit; the result is (n,)
    """
    chunk = torch.empty(len(values) // dist.get_world_size(), dtype=values.dtype)
    dist.reduce_scatter_tensor(chunk, values, op=dist.ReduceOp.MAX)
    return chunk
