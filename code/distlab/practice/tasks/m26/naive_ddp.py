"""Task 4: naive data parallelism."""

from __future__ import annotations

from distlab.practice.task import COLLECTIVES, Task

LIBRARY = (
    ("DistributedDataParallel", "it is what this task rebuilds"),
    ("DDP", "it is what this task rebuilds"),
    ("Reducer", "it is the heart of DistributedDataParallel"),
)

TASK = Task(
    id="4",
    stem="04_naive_ddp",
    title="naive DDP",
    proves="replicas that start differently train as one, bit for bit, with tied, frozen and "
    "unused parameters",
    asks=("NaiveDDP",),
    hints=(
        "What must be equal on all ranks before the first step, and what after each backward?",
        "Construction: broadcast every parameter and every buffer from rank 0. After backward: for "
        "each parameter with requires_grad, all_reduce the gradient and divide by p. Ranks may "
        "differ in which gradients are None, but not in which collectives they call.",
        "for p in module.parameters(): (a tied parameter comes once) if not p.requires_grad: "
        "continue; if p.grad is None: p.grad = torch.zeros_like(p); dist.all_reduce(p.grad); "
        "p.grad /= world_size. For construction, dist.broadcast(tensor.data, src=0).",
    ),
    allows=COLLECTIVES,
    bans=LIBRARY,
    hangs="Does this rank skip a parameter whose gradient is None? Another rank may have used it: "
    "call the collective anyway, with zeros.",
)
TASKS = (TASK,)


def run(bench) -> None:
    """Train a plain and a tangled model beside the reference."""
    from distlab.practice.tasks.m26 import replicas

    for kind in (replicas.Plain, replicas.Tangled):
        replicas.train(bench, kind, bench.answer.NaiveDDP, spare_too=False)


RUNS = {"4": run}
