"""Task 2: ring all-reduce in chunks.

An all-reduce leaves the sum over all ranks on every rank. In a ring, each rank sends to its right
neighbour (rank + 1) % p only. Sending whole tensors around would move (p - 1) S bytes per rank;
in chunks of 1/p, it is 2 (p - 1) / p S, less than 2 S however many ranks there are.

1. reduce-scatter, p - 1 steps: send one chunk right, add the one from the left to your own;
   afterwards each rank has the finished sum of one chunk.
2. all-gather, p - 1 steps: pass the finished chunks on, overwriting.

Check it:  python -m distlab.practice check 2
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    """Overwrite `tensor` on every rank with its sum over the ranks, bit for bit the same on all.

    tensor: contiguous, of any dtype and shape, the same on all ranks; its number of elements need
            not be divisible by p, and may be 0 or smaller than p

    Each rank sends at most 2 (p - 1) chunks of ceil(numel / p) elements, all to the right.
    """
    raise NotImplementedError
