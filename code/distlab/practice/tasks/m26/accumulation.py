"""Task 7: gradient accumulation that communicates once."""

from __future__ import annotations

from distlab.practice.task import Task

TASK = Task(
    id="7",
    stem="07_accumulation",
    title="gradient accumulation with no_sync",
    proves="the gradient of the whole batch, cut into micro-batches of any sizes, for one "
    "all-reduce instead of one per micro-batch",
    asks=("accumulate",),
    hints=(
        "DDP all-reduces in every backward. For how many of k micro-batches is that needed?",
        "`with ddp.no_sync():` around forward and backward of all micro-batches but the last. The "
        "forward decides whether the next backward synchronises. And a mean of means is the mean "
        "only if the micro-batches are equally large.",
        "ddp.zero_grad(); total = sum(len(x) for x, _ in micro_batches); for each: context = "
        "ddp.no_sync() if it is not the last else contextlib.nullcontext(); with context: loss = "
        "loss_fn(ddp(x), y) * (len(x) / total); loss.backward().",
    ),
    allows=frozenset(),
    hangs="DDP's all-reduce waits for all ranks: does every rank synchronise in the same backward?",
)
TASKS = (TASK,)

SPLITS = ((4,), (2, 2), (1, 1, 1, 1), (3, 1, 2), (1, 5))


def run(bench) -> None:
    """Run DDP over several splits of a batch, with old gradients lying around."""
    for sizes in SPLITS:
        with bench.case(f"micro-batches of {', '.join(map(str, sizes))} examples"):
            _one(bench, sizes)


def _one(bench, sizes: tuple[int, ...]) -> None:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from distlab.practice.tasks.m26 import replicas

    model = replicas.model_of(Net, 0)
    ddp = DistributedDataParallel(model)
    syncs, entered = _count(bench, ddp)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)  # of the step before
    bench.answer.accumulate(ddp, _batches(sizes, bench.rank), torch.nn.functional.mse_loss)
    _synchronised_once(bench, len(syncs), len(entered), len(sizes))
    expected = _gradients([pair for rank in range(bench.world) for pair in _batches(sizes, rank)])
    summed = _summed(sizes, bench.world)
    for index, parameter in enumerate(model.parameters()):
        known = [
            (summed[index] / len(sizes), "This is the mean of the micro-batches' means, but they "
             "have different sizes: weigh each with its share of the examples."),
            (summed[index], f"This is the sum over {len(sizes)} micro-batches: a mean over the "
             "batch weighs each with its share of the examples."),
            (expected[index] + 1, "The gradients of the step before are still in it: begin with "
             "zero_grad()."),
        ]  # fmt: skip
        known = known[1:] if len(set(sizes)) == 1 else known
        think = "The gradient is that of the mean loss over all examples of all ranks."
        what = f"the gradient of parameter {index}"
        bench.close(what, parameter.grad, expected[index], think, tuple(known))


def _synchronised_once(bench, syncs: int, entered: int, micro_batches: int) -> None:
    if syncs == 0:
        think = "The gradients are still this rank's own. The last micro-batch has to run outside "
        think += "no_sync."
    elif entered == 0:
        think = "Every backward of DDP synchronises, unless it runs under `with ddp.no_sync():`."
    elif entered >= micro_batches - 1:
        think = "no_sync was entered, yet backward synchronised. DDP decides in the forward: put "
        think += "the forward inside `with ddp.no_sync():` too."
    else:
        think = "All micro-batches but the last belong under no_sync."
    expected, got = "1 backward that synchronises", str(syncs)
    bench.require(syncs == 1, f"{syncs} backwards synchronised", think, expected, got)


def _count(bench, ddp) -> tuple[list, list]:
    import torch.distributed as dist

    syncs, entered, no_sync = [], [], ddp.no_sync

    def hook(_state, bucket):
        syncs.append(1)
        with bench.record.quietly():
            flat = bucket.buffer().div_(bench.world)
            future = dist.all_reduce(flat, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])

    def noting():
        entered.append(1)
        return no_sync()

    ddp.register_comm_hook(None, hook)
    ddp.no_sync = noting
    return syncs, entered


def Net():  # noqa: N802 - it is called like the classes it stands beside
    """Return a small float64 model."""
    from torch import nn

    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def _batches(sizes: tuple[int, ...], rank: int) -> list:
    import torch

    generator = torch.Generator().manual_seed(40 + rank)

    def draw(count: int, width: int) -> torch.Tensor:
        return torch.randn(count, width, generator=generator, dtype=torch.float64)

    return [(draw(size, 5), draw(size, 2)) for size in sizes]


def _gradients(batches: list) -> list:
    import torch

    from distlab.practice.tasks.m26 import replicas

    model = replicas.model_of(Net, 0)
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    torch.nn.functional.mse_loss(model(x), y).backward()
    return [p.grad for p in model.parameters()]


def _summed(sizes: tuple[int, ...], world: int) -> list:
    """Return what unweighted micro-batch losses add up to, averaged over the ranks."""
    each = [_gradients([pair]) for rank in range(world) for pair in _batches(sizes, rank)]
    return [sum(grads) / world for grads in zip(*each, strict=True)]


RUNS = {"7": run}
