"""Find the bug 6: the last step never ends.

Ranks have different numbers of batches, some none. All goes well until the first rank runs out.

Set DIAGNOSIS to the letter of the cause, then mend the function.

    a  the batches differ in size, so the tensors do not match
    b  a rank without a further batch makes no call, and the others wait for it
    c  the sums overflow
    d  a tensor made from a Python number cannot be reduced

Check it:  python -m distlab.practice check 11.6
"""

import torch
import torch.distributed as dist

DIAGNOSIS = "?"


def sums(batches: list[torch.Tensor]) -> list[float]:
    """Return, step by step, the sum over all ranks' batches of that step.

    batches: this rank's, each (n,); the list is as long on every rank as on the one with most
             batches, and a rank that has no batch in a step adds 0 to its sum
    """
    found = []
    for batch in batches:
        total = batch.sum().double()
        dist.all_reduce(total)
        found.append(total.item())
    return found
