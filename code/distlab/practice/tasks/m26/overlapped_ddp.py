"""Task 6: data parallelism that communicates while backward still runs."""

from __future__ import annotations

from distlab.practice.task import COLLECTIVES, Task
from distlab.practice.tasks.m26.naive_ddp import LIBRARY

TASK = Task(
    id="6",
    stem="06_overlapped_ddp",
    title="overlapped, bucketed DDP",
    proves="buckets leave while backward still computes, in one order on all ranks, and nothing "
    "is read before it has arrived",
    asks=("OverlappedDDP",),
    hints=(
        "Which gradient is ready first in backward, that of the first or of the last layer? When "
        "may its bucket leave?",
        "Cut the trainable parameters, in reverse order, into buckets of one dtype and at most "
        "bucket_bytes. p.register_post_accumulate_grad_hook(f) calls f(p) when p.grad is final: "
        "count, and start an asynchronous all_reduce of a full bucket. Ranks may fill buckets in "
        "different orders, so start bucket i only after bucket i - 1.",
        "hook: self.waiting[bucket] -= 1; while the next bucket in line is full: launch it "
        "(flat = cat of grads; work = dist.all_reduce(flat, async_op=True); keep both). "
        "finish_gradients: launch the rest in order, with zeros for missing gradients; then per "
        "bucket work.wait(), divide, copy back; reset the counters. Flags of what was used go in "
        "one more all_reduce.",
    ),
    allows=COLLECTIVES,
    bans=LIBRARY,
    hangs="Ranks start their buckets in different orders when they use different parameters: "
    "launch bucket i only after bucket i - 1, on every rank, and in finish_gradients also those "
    "that never filled.",
)
TASKS = (TASK,)

BUCKET_BYTES = 300


def run(bench) -> None:
    """Train a plain and a tangled model with small buckets; look at the order of events."""
    from distlab.practice.tasks.m26 import replicas

    for kind in (replicas.Plain, replicas.Tangled):
        wrap = _wrapping(bench)
        replicas.train(bench, kind, wrap, lambda model: _overlap(bench, model))


def _wrapping(bench):
    def wrap(model):
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(
                    lambda _: bench.record.mark("gradient ready")
                )
        return bench.answer.OverlappedDDP(model, BUCKET_BYTES)

    return wrap


def _overlap(bench, model) -> None:
    from distlab.practice.recorder import Call

    log = bench.record.log
    ready = [i for i, entry in enumerate(log) if entry == "gradient ready"]
    inside = [entry for entry in log[: ready[-1]] if isinstance(entry, Call)]
    blocking = next((call for call in inside if not call.is_async), None)
    bench.require(
        blocking is None,
        f"line {blocking.line if blocking else 0} blocks backward until its message has arrived",
        "Pass async_op=True, keep the Work, and wait in finish_gradients: the next layer's "
        "gradient can be computed meanwhile.",
        expected="asynchronous calls during backward",
        got=f"a blocking dist.{blocking.name}" if blocking else "",
    )
    # A rank that misses a bucket's parameter has to hold back that bucket and those after it.
    held_back = bench.rank > 0 and hasattr(model, "lone")
    bench.require(
        bool(inside) or held_back,
        "no communication began before backward had the last gradient",
        "A bucket can leave when its own gradients are ready. Do you launch from a hook, or only "
        "in finish_gradients? Do the buckets begin with the last layer's parameters?",
        expected="a bucket on its way while gradients are still being computed",
        got=f"{len(ready)} gradients, then the first collective",
    )
    _bucketed(bench, model)


def _bucketed(bench, model) -> None:
    from distlab.practice.tasks.m26 import replicas

    trainable = [p for p in model.parameters() if p.requires_grad]
    limit = _greedy(trainable)
    carrying = replicas.floating(bench)
    think = f"{len(trainable)} parameters fit into {limit} buckets of {BUCKET_BYTES} bytes: put "
    think += "neighbours of one dtype together instead of sending each alone."
    bench.at_most("collectives that carry gradients", len(carrying), limit, think)
    moved = sum(call.bytes for call in carrying)
    size = sum(p.numel() * p.element_size() for p in trainable)
    think = "Every gradient is to be moved once. Is a bucket launched twice?"
    bench.at_most("bytes given to the collectives", moved, size, think)


def _greedy(trainable: list) -> int:
    """Return how many buckets the plainest way needs: in reverse, closed before they overflow."""
    buckets, dtype, room = 0, None, 0
    for parameter in reversed(trainable):
        size = parameter.numel() * parameter.element_size()
        if parameter.dtype != dtype or size > room:
            buckets, dtype, room = buckets + 1, parameter.dtype, BUCKET_BYTES
        room -= size
    return buckets


RUNS = {"6": run}
