"""Find the bug 5: the accuracy is on the loss's curve.

Each rank collects its metrics in a dict and averages them over the ranks. Nothing hangs, nothing
fails; on some days loss and accuracy change places, in part.

Set DIAGNOSIS to the letter of the cause, then mend the function.

    a  ranks insert the metrics in different orders, and equal shapes match whatever they mean
    b  float32 cannot hold both a loss and an accuracy
    c  the mean must be weighted with the number of samples
    d  a dict must not be changed while it is iterated over

Check it:  python -m distlab.practice check 11.5
"""

import torch
import torch.distributed as dist

DIAGNOSIS = "?"


def mean_metrics(metrics: dict[str, float]) -> dict[str, float]:
    """Return each metric's mean over the ranks; all ranks have the same names."""
    means = {}
    for name, value in metrics.items():
        total = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(total)
        means[name] = total.item() / dist.get_world_size()
    return means
