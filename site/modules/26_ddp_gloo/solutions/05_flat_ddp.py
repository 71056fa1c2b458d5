"""Solution of task 5."""

import torch
import torch.distributed as dist
from torch import nn


class FlatDDP(nn.Module):
    """A module whose gradients are averaged over the ranks, all of one dtype in one collective."""

    def __init__(self, module: nn.Module) -> None:
        """Broadcast parameters and buffers, and group the trainable parameters by dtype."""
        super().__init__()
        self.module = module
        self.by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, src=0)
        for parameter in module.parameters():
            if parameter.requires_grad:
                self.by_dtype.setdefault(parameter.dtype, []).append(parameter)

    def forward(self, *args: object) -> torch.Tensor:
        """Call the module."""
        return self.module(*args)

    def finish_gradients(self) -> None:
        """Average the gradients, one flat tensor per dtype."""
        every = [p for parameters in self.by_dtype.values() for p in parameters]
        used = torch.tensor([p.grad is not None for p in every], dtype=torch.int64)
        dist.all_reduce(used)
        count = dict(zip(every, used.tolist(), strict=True))
        for parameters in self.by_dtype.values():
            flat = torch.cat([gradient_of(p).reshape(-1) for p in parameters])
            dist.all_reduce(flat)
            flat.div_(dist.get_world_size())
            pieces = flat.split([p.numel() for p in parameters])
            for parameter, piece in zip(parameters, pieces, strict=True):
                parameter.grad = piece.view_as(parameter) if count[parameter] else None


def gradient_of(parameter: nn.Parameter) -> torch.Tensor:
    """Return the gradient, zeros if this rank did not use the parameter."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
