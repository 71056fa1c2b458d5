"""Task 10: an optimizer whose state is sharded over the ranks (ZeRO stage 1).

AdamW keeps two numbers per parameter. In data parallelism every rank keeps all of them, though all
ranks compute the same update. Here a rank keeps the state of its share of the parameters only,
updates those, and receives the others from their owners.

    optimizer = ShardedOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    optimizer.zero_grad()
    loss.backward()                      # DDP: the gradients are the same on all ranks
    optimizer.step()

Check it:  python -m distlab.practice check 10
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn


class ShardedOptimizer:
    """An optimizer that steps each parameter on one rank and sends it to the others."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        optimizer_class: type[torch.optim.Optimizer],
        **kwargs: object,
    ) -> None:
        """Share out the parameters; every rank passes the same ones, in the same order.

        A rank holds at most ceil(total / p) elements and one parameter more. There may be fewer
        parameters than ranks. An owner's optimizer is optimizer_class(its_params, **kwargs).
        """
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Set the gradients of all parameters to None."""
        raise NotImplementedError

    def step(self) -> None:
        """Update every parameter on every rank, bit for bit the same.

        A parameter whose grad is None stays as it is.
        """
        raise NotImplementedError
