"""Solution of task 4."""

import torch
import torch.distributed as dist
from torch import nn


class NaiveDDP(nn.Module):
    """A module whose gradients are averaged over the ranks, one parameter at a time."""

    def __init__(self, module: nn.Module) -> None:
        """Broadcast parameters and buffers; parameters() yields a tied one once."""
        super().__init__()
        self.module = module
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, src=0)

    def forward(self, *args: object) -> torch.Tensor:
        """Call the module."""
        return self.module(*args)

    def finish_gradients(self) -> None:
        """Average each gradient; what no rank used keeps None, as in PyTorch's own."""
        trainable = [p for p in self.module.parameters() if p.requires_grad]
        used = torch.tensor([p.grad is not None for p in trainable], dtype=torch.int64)
        dist.all_reduce(used)
        for parameter, count in zip(trainable, used.tolist(), strict=True):
            if count == 0:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(dist.get_world_size())
