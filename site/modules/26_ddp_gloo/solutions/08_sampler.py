"""Solution of task 8."""

from collections.abc import Iterator

import torch
import torch.distributed as dist


class ShardedSampler:
    """The indices of this rank's samples; all ranks share one order per epoch."""

    def __init__(self, length: int, shuffle: bool = True, seed: int = 0) -> None:
        """Note what the order depends on."""
        self.length, self.shuffle, self.seed, self.epoch = length, shuffle, seed, 0
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return ceil(length / p)."""
        return (self.length + self.world - 1) // self.world

    def __iter__(self) -> Iterator[int]:
        """Cut the padded order into strides."""
        order = list(range(self.length))
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
            order = torch.randperm(self.length, generator=generator).tolist()
        return iter([order[i % self.length] for i in self.places()])

    def places(self) -> range:
        """Return this rank's places in the padded order; those >= length are padding."""
        return range(self.rank, len(self) * self.world, self.world)


def exact_mean(values: torch.Tensor, sampler: ShardedSampler) -> float:
    """Add up and count the real samples of all ranks."""
    real = torch.tensor([place < sampler.length for place in sampler.places()])
    kept = values[real]
    sums = torch.tensor([kept.sum().item(), len(kept)], dtype=torch.float64)
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()
