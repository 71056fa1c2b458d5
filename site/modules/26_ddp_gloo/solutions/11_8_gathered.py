"""Solution of task 11.8."""

import torch
import torch.distributed as dist

DIAGNOSIS = "b"


def gathered(embeddings: torch.Tensor) -> torch.Tensor:
    """Return the embeddings of all ranks, (p * B, D) in rank order, from each rank's (B, D)."""
    parts = [torch.empty_like(embeddings) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, embeddings)
    return torch.cat(parts)
