"""Give DDP a network slow enough to see: a link that adds alpha + beta n, and spans of one step.

A laptop's loopback is too fast and too noisy to show what overlap buys. Here the schedule is
real (autograd's order, DDP's buckets, gloo's all-reduce, one link that carries one collective at
a time) and the durations are chosen: a layer's backward sleeps, and so does the link. Sleeping
releases the interpreter, so two ranks on two cores do not compete.
"""

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from distlab.timeline import WAYS, Layer, Link, Span, packing, with_layers

__all__ = ["WAYS", "SlowLink", "SpanLog", "TimedLayer", "step"]


@dataclass
class SpanLog:
    """The spans that one rank has recorded, in seconds of its own clock."""

    rank: int
    spans: list[Span] = field(default_factory=list)
    on: bool = True

    def add(self, kind: str, name: str, start: float) -> None:
        """Record a span that ends now, unless recording is switched off."""
        if self.on:
            self.spans.append(Span(self.rank, kind, name, start, time.monotonic()))


class SlowLink:
    """Carry all-reduces one after the other, each alpha + beta n seconds slower than it was.

    `hook` is a DDP communication hook; `reduce` is the same for one tensor. Both average.
    Close it (or use it as a context manager): it owns a thread.
    """

    def __init__(self, link: Link, log: SpanLog) -> None:
        self.link, self.log = link, log
        self._waiting: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def __enter__(self) -> "SlowLink":
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Carry what is still waiting, then end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def hook(self, _state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Average a bucket over the ranks; pass it to `register_comm_hook`."""
        return self.reduce(bucket.buffer(), f"bucket {bucket.index()}")

    def reduce(self, tensor: torch.Tensor, name: str) -> torch.futures.Future[torch.Tensor]:
        """Queue a tensor for the link and return the Future of its average over the ranks."""
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._waiting.put((tensor, name, future))
        return future

    def _carry(self) -> None:
        while (item := self._waiting.get()) is not None:
            tensor, name, future = item
            start = time.monotonic()
            try:
                dist.all_reduce(tensor.div_(dist.get_world_size()))
            except RuntimeError as error:  # a peer is gone: tell the waiting backward
                future.set_exception(error)
                continue
            if self.log.on:
                time.sleep(max(0.0, start + self.link.seconds(tensor.nbytes) - time.monotonic()))
            self.log.add("all_reduce", name, start)
            future.set_result(tensor)


class _Timed(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, layer, log):
        context.save_for_backward(weight)
        context.layer, context.log = layer, log
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        (weight,) = context.saved_tensors
        start = time.monotonic()
        if context.log.on:
            time.sleep(context.layer.backward)
        context.log.add("backward", context.layer.name, start)
        return gradient, torch.ones_like(weight), None, None


class TimedLayer(nn.Module):
    """A parameter of `layer.bytes` bytes whose backward takes `layer.backward` seconds."""

    def __init__(self, layer: Layer, log: SpanLog) -> None:
        super().__init__()
        self.layer, self.log = layer, log
        self.weight = nn.Parameter(torch.zeros(layer.bytes // 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x unchanged."""
        return _Timed.apply(x, self.weight, self.layer, self.log)


def step(way: str, layers: Sequence[Layer], link: Link, cap: int) -> tuple[Span, ...]:
    """Run one backward and its all-reduces on this rank; return the spans, from time 0.

    `layers` are in the order of backward, `cap` is a bucket's limit in bytes. "overlapped" is
    DDP after its rebuild; the other WAYS communicate when backward has ended. Every rank calls
    it with the same arguments. Raises ValueError for an unknown way.
    """
    packed = packing(way, layers, cap)
    log = SpanLog(dist.get_rank())
    model = nn.Sequential(*(TimedLayer(layer, log) for layer in reversed(layers)))
    with SlowLink(link, log) as slow:
        if way == "overlapped":
            _overlapped(model, log, slow, cap)
        else:
            _afterwards(model, slow, packed)
    start = min(span.start for span in log.spans)
    moved = (replace(s, start=s.start - start, end=s.end - start) for s in log.spans)
    return with_layers(moved, packed)


def _overlapped(model: nn.Sequential, log: SpanLog, slow: SlowLink, cap: int) -> None:
    ddp = DistributedDataParallel(model, bucket_cap_mb=cap / 2**20)
    ddp.register_comm_hook(None, slow.hook)
    log.on = False
    ddp(_input()).sum().backward()  # one bucket; the next forward rebuilds
    log.on = True
    dist.barrier()
    ddp(_input()).sum().backward()


def _afterwards(model: nn.Sequential, slow: SlowLink, packed: Sequence[Sequence[Layer]]) -> None:
    dist.barrier()
    model(_input()).sum().backward()
    gradients = {module.layer.name: module.weight.grad for module in model}
    for number, bucket in enumerate(packed):
        together = torch.cat([gradients[layer.name] for layer in bucket])
        slow.reduce(together, f"bucket {number}").wait()


def _input() -> torch.Tensor:
    return torch.ones(1, requires_grad=True)
