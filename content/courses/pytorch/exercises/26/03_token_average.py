"""Task 3: gradient averaging that respects token counts.

Sentences differ in length, so ranks hold different numbers of tokens. Each rank's loss is the mean
over its own tokens. The plain mean of these gradients is not the gradient of the mean over all
tokens, and training with it differs from training on one device.

Check it:  python -m distlab.practice check 3
"""

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(parameters: list[nn.Parameter], num_tokens: int) -> None:
    """Replace each p.grad by the gradient of the mean loss over the tokens of all ranks.

    parameters: the same list on every rank; those with requires_grad=False keep grad None
    num_tokens: the number of tokens on this rank; on entry p.grad is the gradient of their mean

    A rank with num_tokens == 0 (all of it is padding) took the mean over nothing: its gradients are
    nan, or None. At least one rank has tokens. On exit all ranks hold the same gradients.
    """
    raise NotImplementedError
