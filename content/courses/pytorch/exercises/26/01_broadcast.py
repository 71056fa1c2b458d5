"""Task 1: broadcast from send and recv.

A broadcast gives every rank the tensor of one of them, the root. Write it with point-to-point calls
only: dist.send, dist.recv, dist.isend, dist.irecv. The process group is there already; ask
dist.get_rank() and dist.get_world_size() who you are.

Check it:  python -m distlab.practice check 1
"""

import torch
import torch.distributed as dist


def broadcast(tensor: torch.Tensor, src: int) -> None:
    """Overwrite `tensor` on every rank with the values that it has on rank `src`.

    tensor: contiguous, of any dtype and shape, the same on all ranks; () and (0,) are shapes too
    src:    the rank of the root, 0 <= src < world size

    All ranks together send at most (p - 1) tensors, p being the world size. On one rank there is
    nothing to do.
    """
    raise NotImplementedError
