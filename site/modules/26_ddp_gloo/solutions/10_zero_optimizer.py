"""Solution of task 10."""

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
        """Deal the parameters out, largest first, each to the rank with the least so far."""
        self.params = list(params)
        self.owner: dict[nn.Parameter, int] = {}
        loads = [0] * dist.get_world_size()
        for parameter in sorted(self.params, key=torch.Tensor.numel, reverse=True):
            self.owner[parameter] = loads.index(min(loads))
            loads[self.owner[parameter]] += parameter.numel()
        mine = [p for p in self.params if self.owner[p] == dist.get_rank()]
        self.inner = optimizer_class(mine, **kwargs) if mine else None

    def zero_grad(self) -> None:
        """Set the gradients of all parameters to None."""
        for parameter in self.params:
            parameter.grad = None

    def step(self) -> None:
        """Step the own share, then broadcast every parameter from its owner."""
        if self.inner is not None:
            self.inner.step()
        works = [
            dist.broadcast(p.data, src=self.owner[p], async_op=True)
            for p in self.params
            if p.grad is not None
        ]
        for work in works:
            work.wait()
