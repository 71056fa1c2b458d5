"""Solution of task 11.7."""

import torch
import torch.distributed as dist
from torch import nn

DIAGNOSIS = "d"


def resume(model: nn.Module, checkpoint: dict[str, torch.Tensor] | None) -> None:
    """Load the checkpoint into the model on every rank.

    model:      already wrapped elsewhere: its tensors must be changed in place; it has buffers too
    checkpoint: a state dict on rank 0, None on the other ranks
    """
    if dist.get_rank() == 0:
        model.load_state_dict(checkpoint)
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.data, src=0)
