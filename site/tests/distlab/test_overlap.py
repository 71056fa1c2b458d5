"""The slow link under a real DDP step: schedule and averages, on real ranks."""

import pytest

from distlab import overlap
from distlab.spmd import Launcher, Program
from distlab.timeline import Layer, Link

PROGRAM = """
import torch
import torch.distributed as dist
from distlab.overlap import SpanLog, SlowLink, WAYS, step
from distlab.timeline import Layer, Link, buckets, hidden_seconds

dist.init_process_group("gloo")
rank = dist.get_rank()
layers = [Layer(f"layer {n}", 0.01, 4096) for n in range(4, 0, -1)]
link, cap = Link(alpha=0.01, beta=0.0), 8192
for way in WAYS:
    spans = step(way, layers, link, cap)
    computed = [s for s in spans if s.kind == "backward"]
    sent = [s for s in spans if s.kind == "all_reduce"]
    ends = {s.name: s.end for s in computed}
    assert [s.name for s in computed] == [layer.name for layer in layers], way
    assert len(sent) == {"naive": 4, "flat": 1, "bucketed": 2, "overlapped": 2}[way]
    assert all(s.seconds >= 0.01 for s in (*sent, *computed)), way
    assert all(a.end <= b.start for a, b in zip(sent, sent[1:])), "one at a time"
    if way == "overlapped":
        assert hidden_seconds(spans, rank) > 0
        for span, bucket in zip(sent, buckets(layers, cap)):
            assert all(ends[layer.name] <= span.start for layer in bucket)
    else:
        assert min(s.start for s in sent) >= max(ends.values()), way
with SlowLink(link, SpanLog(rank)) as slow:
    assert slow.reduce(torch.tensor([2.0 * rank]), "mean").wait().item() == 1.0
dist.barrier()
dist.destroy_process_group()
print("ok")
"""


@pytest.fixture(scope="module")
def launcher():
    with Launcher() as launcher:
        yield launcher


def test_each_way_keeps_its_schedule(launcher):
    outcome = launcher.run(Program(PROGRAM, ranks=2, timeout=60))

    assert [rank.stdout.splitlines()[-1:] for rank in outcome.ranks] == [["ok"], ["ok"]], outcome


def test_a_lost_peer_is_told_to_who_waits(launcher):
    program = """
import torch
import torch.distributed as dist
from distlab.overlap import SpanLog, SlowLink
from distlab.timeline import Link
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 0:
    with SlowLink(Link(0.0, 0.0), SpanLog(0)) as slow:
        try:
            slow.reduce(torch.ones(1), "alone").wait()
        except RuntimeError:
            print("told")
dist.destroy_process_group()
"""
    outcome = launcher.run(Program(program, ranks=2, timeout=200))

    assert outcome.cause == "finished", outcome
    assert outcome.ranks[0].stdout.splitlines()[-1] == "told"


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="no way 'fast' to communicate: choose one of naive"):
        overlap.step("fast", [Layer("layer", 0.0, 64)], Link(0.0, 0.0), 64)
