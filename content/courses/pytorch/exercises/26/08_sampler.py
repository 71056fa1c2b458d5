"""Task 8: a distributed sampler with set_epoch, padding and exact evaluation.

Each rank trains on its own share of the data set. Shares must be equally long, or a rank would
wait for a step that another never makes; so some samples are repeated. For a metric that is wrong:
every sample has to count once.

Check it:  python -m distlab.practice check 8
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist


class ShardedSampler:
    """The indices of this rank's samples; all ranks share one order per epoch."""

    def __init__(self, length: int, shuffle: bool = True, seed: int = 0) -> None:
        """Sample a data set of `length` samples, 0 <= length, possibly fewer than ranks."""
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch (0 at first); the same epoch has the same order always."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Return ceil(length / p), on every rank."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        """Yield len(self) indices.

        The order is 0, 1, ..., length - 1, or with shuffle a permutation of it that depends on seed
        and epoch, and not on torch's global generator. It is repeated from its beginning until it
        fills p * len(self) places; place i belongs to rank i % p.
        """
        raise NotImplementedError


def exact_mean(values: torch.Tensor, sampler: ShardedSampler) -> float:
    """Return the mean over the data set, each sample counted once, the same on every rank.

    values: float64 (len(sampler),), a number per sample of this rank, in the sampler's order; the
            data set has at least one sample
    """
    raise NotImplementedError
