"""Task 5: data parallelism with one flat bucket per dtype."""

from __future__ import annotations

from distlab.practice.task import COLLECTIVES, Task
from distlab.practice.tasks.m26.naive_ddp import LIBRARY

TASK = Task(
    id="5",
    stem="05_flat_ddp",
    title="flat-bucket DDP",
    proves="the same gradients as task 4 in one collective per dtype and step",
    asks=("FlatDDP",),
    hints=(
        "A collective on 10 bytes costs about as much as one on 10 000. How many calls did task 4 "
        "need for a step, and how few could do?",
        "Copy all gradients into one flat tensor (one per dtype: a collective has one dtype), "
        "all_reduce it, copy the pieces back in the same order. A rank's missing gradient is a "
        "piece of zeros. Which parameters nobody used, a small tensor of flags tells.",
        "group the trainable parameters by p.dtype; flat = torch.cat([g.reshape(-1) for g in "
        "grads]); dist.all_reduce(flat); flat /= p; for p, piece in zip(params, "
        "flat.split([p.numel() for p in params])): p.grad = piece.view_as(p). "
        "flags = torch.tensor([p.grad is not None ...], dtype=torch.int64), all_reduced too, "
        "before you fill in zeros.",
    ),
    allows=COLLECTIVES,
    bans=LIBRARY,
    hangs="The flat tensor must be equally long on every rank, and built in the same order: do "
    "ranks leave out different parameters?",
)
TASKS = (TASK,)


def run(bench) -> None:
    """Train a plain and a tangled model; count the collectives of each step."""
    from distlab.practice.tasks.m26 import replicas

    for kind in (replicas.Plain, replicas.Tangled):
        replicas.train(bench, kind, bench.answer.FlatDDP, lambda model: _traffic(bench, model))


def _traffic(bench, model) -> None:
    from distlab.practice.tasks.m26 import replicas

    trainable = [p for p in model.parameters() if p.requires_grad]
    dtypes = len({p.dtype for p in trainable})
    think = f"{len(trainable)} parameters of {dtypes} dtype(s): pack those of one dtype together."
    carrying = replicas.floating(bench)
    bench.at_most("collectives that carry gradients", len(carrying), dtypes, think)
    think = "One collective per dtype for the gradients and one for the flags is enough."
    bench.at_most("collectives in a step", len(bench.calls()), dtypes + 1, think)
    size = sum(p.numel() * p.element_size() for p in trainable)
    moved = sum(call.bytes for call in carrying)
    think = "Every gradient is to be moved once, in its own dtype; frozen parameters have none."
    bench.at_most("bytes given to the collectives", moved, size, think)


RUNS = {"5": run}
