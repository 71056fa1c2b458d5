"""Which rank gets which index from torch's DistributedSampler, as plain data to print and draw.

The permutation, the padding and the cut are torch's own: every list here was drawn from a
`torch.utils.data.DistributedSampler`. torch is imported when the first one is asked for.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """One index that a rank gets; `repeat` if it only pads the ranks to equal counts."""

    index: int
    repeat: bool


@dataclass(frozen=True)
class Epoch:
    """One epoch of all ranks: `ranks[r]` are the slots of rank r, `dropped` the indices unused."""

    length: int
    epoch: int
    ranks: tuple[tuple[Slot, ...], ...]
    dropped: tuple[int, ...]


@dataclass(frozen=True)
class Sharding:
    """How a dataset of `length` examples is shared out; the options are DistributedSampler's.

    Raises ValueError if length or world_size is below 1.
    """

    length: int
    world_size: int
    shuffle: bool = True
    seed: int = 0
    drop_last: bool = False

    def __post_init__(self) -> None:
        """Refuse what has no slots to show."""
        for name, value in (("length", self.length), ("world_size", self.world_size)):
            if value < 1:
                raise ValueError(f"{name} is {value}; there must be 1 or more")


def epochs(sharding: Sharding, count: int, *, set_epoch: bool = True) -> tuple[Epoch, ...]:
    """Iterate every rank's sampler `count` times, with or without `set_epoch` before each epoch.

    Without it torch replays the order of epoch 0.
    """
    samplers = [_sampler(sharding, rank) for rank in range(sharding.world_size)]
    return tuple(_epoch(sharding, samplers, epoch, set_epoch) for epoch in range(count))


def _sampler(sharding: Sharding, rank: int):
    from torch.utils.data import DistributedSampler  # here, because arithmetic needs no torch

    return DistributedSampler(
        range(sharding.length),
        num_replicas=sharding.world_size,
        rank=rank,
        shuffle=sharding.shuffle,
        seed=sharding.seed,
        drop_last=sharding.drop_last,
    )


def _epoch(sharding: Sharding, samplers: list, epoch: int, set_epoch: bool) -> Epoch:
    if set_epoch:
        for sampler in samplers:
            sampler.set_epoch(epoch)
    drawn = [list(sampler) for sampler in samplers]
    ranks = [
        tuple(Slot(index, _pads(sharding, rank, turn)) for turn, index in enumerate(indices))
        for rank, indices in enumerate(drawn)
    ]
    dropped = set(range(sharding.length)).difference(*drawn)
    return Epoch(sharding.length, epoch, tuple(ranks), tuple(sorted(dropped)))


def _pads(sharding: Sharding, rank: int, turn: int) -> bool:
    # torch deals the padded permutation like cards: rank r gets places r, r+p, r+2p, ...; what
    # lies beyond the dataset's length is padding.
    return turn * sharding.world_size + rank >= sharding.length
