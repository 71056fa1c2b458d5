"""Solution of task 11.5."""

import torch
import torch.distributed as dist

DIAGNOSIS = "a"


def mean_metrics(metrics: dict[str, float]) -> dict[str, float]:
    """Return each metric's mean over the ranks; all ranks have the same names."""
    means = {}
    for name in sorted(metrics):
        total = torch.tensor(metrics[name], dtype=torch.float64)
        dist.all_reduce(total)
        means[name] = total.item() / dist.get_world_size()
    return means
