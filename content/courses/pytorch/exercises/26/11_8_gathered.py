"""Find the bug 8: everybody is the last rank.

The ranks' embeddings are gathered, and all rows come out as those of the last rank.

Set DIAGNOSIS to the letter of the cause, then mend the function.

    a  all_gather needs its outputs in reverse order
    b  the list holds one tensor several times, and each arrival overwrites the one before
    c  torch.cat joins along the wrong dimension
    d  all_gather sends the last rank's tensor, broadcast those of the others

Check it:  python -m distlab.practice check 11.8
"""

import torch
import torch.distributed as dist

DIAGNOSIS = "?"


def gathered(embeddings: torch.Tensor) -> torch.Tensor:
    """Return the embeddings of all ranks, (p * B, D) in rank order, from each rank's (B, D)."""
    parts = [torch.empty_like(embeddings)] * dist.get_world_size()
    dist.all_gather(parts, embeddings)
    return torch.cat(parts)
