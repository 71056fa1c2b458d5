"""Find the bug 4: every epoch looks the same.

The loss falls in a pattern that repeats exactly. Shuffling is on.

Set DIAGNOSIS to the letter of the cause, then mend the function.

    a  the sampler's seed is 0, which switches shuffling off
    b  the ranks share one seed, so they see the same samples
    c  the sampler is never told which epoch it is
    d  list() exhausts the sampler, so it starts anew

Check it:  python -m distlab.practice check 11.4
"""

from torch.utils.data import DistributedSampler

DIAGNOSIS = "?"


def orders(sampler: DistributedSampler, epochs: int) -> list[list[int]]:
    """Return this rank's sample indices of each epoch, every epoch in an order of its own."""
    return [list(sampler) for _ in range(epochs)]
