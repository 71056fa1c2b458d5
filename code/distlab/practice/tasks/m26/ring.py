"""Task 2: a ring all-reduce in chunks."""

from __future__ import annotations

from distlab.practice.task import POINT_TO_POINT, Task

TASK = Task(
    id="2",
    stem="02_ring_all_reduce",
    title="ring all-reduce in chunks",
    proves="the sum on every rank, bit for bit the same, for at most 2(p - 1) chunks sent by each "
    "rank to its right neighbour",
    asks=("ring_all_reduce",),
    hints=(
        "Cut the tensor into p chunks. After the first p - 1 steps, which rank can know the whole "
        "sum of which chunk?",
        "In step s of the reduce-scatter, rank r sends chunk (r - s) mod p to the right and adds "
        "what comes from the left to chunk (r - s - 1) mod p. In the all-gather it sends chunk "
        "(r + 1 - s) mod p and overwrites chunk (r - s) mod p.",
        "chunks = tensor.view(-1).tensor_split(p) are views, so adding to a chunk changes the "
        "tensor. Per step: work = dist.isend(chunks[i], right); dist.recv(buffer, left); "
        "work.wait(). All ranks calling the blocking send first would wait for each other.",
    ),
    allows=POINT_TO_POINT,
    hangs="In a ring every rank has something to send before it can receive. If all of them begin "
    "with a blocking send, nobody is left to receive: begin the send with isend, then recv, then "
    "wait().",
)
TASKS = (TASK,)

COUNTS = (12, 7, 1, 2, 0, 1031)


def run(bench) -> None:
    """Run over lengths that the ranks do not divide, down to fewer elements than ranks."""
    import torch

    plan = [(torch.float32, (count,)) for count in COUNTS]
    plan += [
        (torch.float64, (3, 5)),
        (torch.int64, (9,)),
        (torch.bfloat16, (10,)),
        (torch.float32, ()),
        (torch.float32, (70_001,)),
    ]
    for dtype, shape in plan:
        name = f"{str(dtype).removeprefix('torch.')}, shape {shape}"
        with bench.case(name):
            _one(bench, dtype, shape)


def _one(bench, dtype, shape: tuple[int, ...]) -> None:
    import torch

    count = torch.Size(shape).numel()

    def values(rank: int) -> torch.Tensor:
        pattern = (torch.arange(count) * (rank + 2) + 3 * rank) % 11 + 1
        return pattern.reshape(shape).to(dtype)

    total = sum(values(r).double() for r in range(bench.world))
    tensor = values(bench.rank)
    bench.answer.ring_all_reduce(tensor)
    known = (
        (total / bench.world, "This is the mean: an all-reduce leaves the sum."),
        (values(bench.rank).double(), "Nothing has arrived in the tensor itself: are your chunks "
         "views of it, or copies?"),
    )  # fmt: skip
    if count % bench.world:
        think = f"{count} elements do not divide by {bench.world} ranks: which chunk has the rest?"
    else:
        think = "Print which chunk you send and which you add to, step by step, and compare with "
        think += "the picture on the page: is each partial sum passed on exactly once?"
    bench.close("the tensor after ring_all_reduce", tensor, total, think, known)
    bench.all_awaited()
    _traffic(bench, count, tensor.element_size())
    think = "Each chunk's sum must be finished on one rank and copied from there."
    bench.identical("the results", [tensor], think)


def _traffic(bench, count: int, width: int) -> None:
    world, rank = bench.world, bench.rank
    for call in bench.calls("send", "isend"):
        bench.require(
            call.peer == (rank + 1) % world,
            f"line {call.line} sends to rank {call.peer}",
            "In a ring a rank knows two others: it sends to (rank + 1) % p only.",
            expected=f"every message goes to rank {(rank + 1) % world}, the right neighbour",
            got=f"a message to rank {call.peer}",
        )
    sent = sum(call.bytes for call in bench.calls("send", "isend"))
    limit = 2 * (world - 1) * -(-count // world) * width
    whole = max((call.bytes for call in bench.calls("send", "isend")), default=0)
    think = "2(p - 1) chunks of 1/p of the tensor each leave every rank. Which are sent twice?"
    if world > 1 and whole >= count * width > limit // (2 * (world - 1)):
        think = "One message carries the whole tensor. A ring sends one chunk, 1/p of it, per step."
    bench.at_most("bytes sent by this rank", sent, limit, think)


RUNS = {"2": run}
