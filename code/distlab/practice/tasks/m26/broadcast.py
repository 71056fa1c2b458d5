"""Task 1: broadcast from send and recv."""

from __future__ import annotations

from distlab.practice.task import POINT_TO_POINT, Task

TASK = Task(
    id="1",
    stem="01_broadcast",
    title="broadcast from send and recv",
    proves="every rank holds the root's bytes, moved by (p - 1) messages and no more",
    asks=("broadcast",),
    hints=(
        "Three questions per rank: am I the root, whom do I send to, whom do I receive from?",
        "`send` and `recv` are partners: for each message, one rank calls send(tensor, dst) and "
        "rank dst calls recv(tensor, src) with the sender's rank. The root never receives.",
        "if rank == src: for every other rank, dist.send(tensor, other); else: one "
        "dist.recv(tensor, src). `recv` writes into the tensor it is given: no new tensor needed.",
    ),
    allows=POINT_TO_POINT,
    hangs="A recv waits for a send that names this rank, and a send for its recv. For each rank, "
    "write down whom it sends to and whom it hears from: the two lists must mirror each other.",
)
TASKS = (TASK,)


def run(bench) -> None:
    """Run over every root, with dtypes and shapes that include the empty and the scalar tensor."""
    import torch

    plan = [(src, torch.float32, (5,)) for src in range(bench.world)]
    plan += [
        (bench.world - 1, torch.float64, (3, 4)),
        (0, torch.int64, (7,)),
        (bench.world - 1, torch.bfloat16, (2, 3)),
        (0, torch.float32, ()),
        (bench.world - 1, torch.float32, (1,)),
        (0, torch.float32, (0,)),
    ]
    for src, dtype, shape in plan:
        with bench.case(f"src={src}, {str(dtype).removeprefix('torch.')}, shape {shape}"):
            _one(bench, src, dtype, shape)


def _one(bench, src: int, dtype, shape: tuple[int, ...]) -> None:
    import torch

    def values(rank: int) -> torch.Tensor:
        count = torch.Size(shape).numel()
        return (torch.arange(count).reshape(shape) + 10 * rank + 1).to(dtype)

    tensor = values(bench.rank)
    bench.answer.broadcast(tensor, src)
    known = [
        (values(r), f"These are rank {r}'s own values, but src={src}: whose tensor is to be sent?")
        for r in range(bench.world)
        if r not in (src, bench.rank)
    ]
    mine = "This tensor still holds its old values: nothing was sent to this rank, or not received "
    mine += "into the tensor that was given (rebinding its name changes nothing)."
    known += [(values(bench.rank), mine)]
    think = "Follow one message: who sent it, which tensor was sent, into which was it received?"
    bench.close("the tensor after broadcast", tensor, values(src), think, tuple(known))
    bench.all_awaited()
    sent = sum(call.bytes for call in bench.calls("send", "isend"))
    size = tensor.numel() * tensor.element_size()

    def judge(every: list[int]) -> None:
        think = "Each other rank needs the tensor once: p - 1 messages in all. Who sends too much?"
        bench.at_most("bytes sent by all ranks", sum(every), (bench.world - 1) * size, think)

    bench.across(sent, judge)


RUNS = {"1": run}
