"""Find the bug 7: resumed replicas drift apart.

Only rank 0 can read the checkpoint. After resuming, the ranks' losses disagree although DDP
averages every gradient.

Set DIAGNOSIS to the letter of the cause, then mend the function.

    a  load_state_dict makes new parameters that DDP does not know
    b  the optimizer's state is missing from the checkpoint
    c  the ranks read the file at different times
    d  DDP sends parameters at construction only; those loaded later on one rank stay there

Check it:  python -m distlab.practice check 11.7
"""

import torch
import torch.distributed as dist
from torch import nn

DIAGNOSIS = "?"


def resume(model: nn.Module, checkpoint: dict[str, torch.Tensor] | None) -> None:
    """Load the checkpoint into the model on every rank.

    model:      already wrapped elsewhere: its tensors must be changed in place; it has buffers too
    checkpoint: a state dict on rank 0, None on the other ranks
    """
    if dist.get_rank() == 0:
        model.load_state_dict(checkpoint)
    dist.barrier()
