"""Solution of task 6."""

import torch
import torch.distributed as dist
from torch import nn


class OverlappedDDP(nn.Module):
    """A module whose gradients leave in buckets while backward runs."""

    def __init__(self, module: nn.Module, bucket_bytes: int) -> None:
        """Broadcast, plan the buckets in reverse order, hook every trainable parameter."""
        super().__init__()
        self.module = module
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, src=0)
        trainable = [p for p in module.parameters() if p.requires_grad]
        self.buckets = plan(trainable[::-1], bucket_bytes)
        self.bucket_of = {p: i for i, bucket in enumerate(self.buckets) for p in bucket}
        for parameter in trainable:
            parameter.register_post_accumulate_grad_hook(self._ready)
        self._begin()

    def forward(self, *args: object) -> torch.Tensor:
        """Call the module."""
        return self.module(*args)

    def _begin(self) -> None:
        self.missing = [len(bucket) for bucket in self.buckets]
        self.flying: list[tuple[torch.Tensor, dist.Work]] = []

    def _ready(self, parameter: nn.Parameter) -> None:
        self.missing[self.bucket_of[parameter]] -= 1
        # In line, never as they fill: the order of calls must be the same on every rank.
        while len(self.flying) < len(self.buckets) and not self.missing[len(self.flying)]:
            self._launch()

    def _launch(self) -> None:
        bucket = self.buckets[len(self.flying)]
        flat = torch.cat([gradient_of(p).reshape(-1) for p in bucket])
        self.flying.append((flat, dist.all_reduce(flat, async_op=True)))

    def finish_gradients(self) -> None:
        """Launch what never filled, wait for all, and write the means back."""
        while len(self.flying) < len(self.buckets):
            self._launch()
        every = list(self.bucket_of)
        used = torch.tensor([p.grad is not None for p in every], dtype=torch.int64)
        dist.all_reduce(used)
        count = dict(zip(every, used.tolist(), strict=True))
        for bucket, (flat, work) in zip(self.buckets, self.flying, strict=True):
            work.wait()
            flat.div_(dist.get_world_size())
            pieces = flat.split([p.numel() for p in bucket])
            for parameter, piece in zip(bucket, pieces, strict=True):
                parameter.grad = piece.view_as(parameter) if count[parameter] else None
        self._begin()


def plan(parameters: list[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    """Cut parameters into buckets of one dtype and at most `bucket_bytes`."""
    buckets: list[list[nn.Parameter]] = []
    room = 0
    for parameter in parameters:
        size = parameter.numel() * parameter.element_size()
        if size > room or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(parameter)
        room -= size
    return buckets


def gradient_of(parameter: nn.Parameter) -> torch.Tensor:
    """Return the gradient, zeros if this rank did not use the parameter."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
