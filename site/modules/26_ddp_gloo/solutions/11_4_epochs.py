"""Solution of task 11.4."""

from torch.utils.data import DistributedSampler

DIAGNOSIS = "c"


def orders(sampler: DistributedSampler, epochs: int) -> list[list[int]]:
    """Return this rank's sample indices of each epoch, every epoch in an order of its own."""
    found = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        found.append(list(sampler))
    return found
