"""Solution of task 3."""

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(parameters: list[nn.Parameter], num_tokens: int) -> None:
    """Weigh each rank's gradient with its share of all tokens, and add up."""
    total = torch.tensor(num_tokens, dtype=torch.int64)
    dist.all_reduce(total)
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        share = torch.zeros_like(parameter)
        if num_tokens and parameter.grad is not None:
            share.copy_(parameter.grad).mul_(num_tokens / total.item())
        dist.all_reduce(share)
        parameter.grad = share
