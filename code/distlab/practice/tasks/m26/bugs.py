"""Task 11: eight broken programs, to be diagnosed and mended."""

from __future__ import annotations

from distlab.practice.task import COLLECTIVES, POINT_TO_POINT, Task


def _bug(number: int, name: str, title: str, answer: str, function: str, **more) -> Task:
    return Task(
        id=f"11.{number}",
        stem=f"11_{number}_{name}",
        title=f"find the bug: {title}",
        asks=(function,),
        allows=COLLECTIVES | POINT_TO_POINT,
        answer=answer,
        **more,
    )


TASKS = (
    _bug(
        1,
        "report",
        "the first rank reports",
        "b",
        "report",
        proves="a collective needs every rank, also where only one wants the result",
        hints=(
            "Which lines does rank 1 execute? Which of them does rank 0 wait for?",
            "all_reduce is a call of all ranks. Only the returning of the text is rank 0's.",
            "Reduce first, on every rank; then `if rank != 0: return ''`.",
        ),
        hangs="Rank 0 calls all_reduce, and the others have left the function: the collective has "
        "to come before the `if`.",
    ),
    _bug(
        2,
        "averages",
        "averages that are sometimes right",
        "d",
        "averages",
        proves="an asynchronous result is read only after wait()",
        hints=(
            "What does all_reduce return with async_op=True, and when?",
            "It returns a Work at once. The tensor holds the sum only after work.wait().",
            "works = [dist.all_reduce(t, async_op=True) for t in tensors]; for each: wait().",
        ),
    ),
    _bug(
        3,
        "maximum",
        "a maximum that is too large",
        "a",
        "chunk_of_maximum",
        proves="a backend may ignore an argument: gloo's reduce_scatter_tensor sums in torch 2.8",
        hints=(
            "Compute by hand for two ranks with [1, 2] and [3, 4]. What came out instead of 3?",
            "It is the sum: gloo does not pass op on. Its all_reduce does.",
            "all_reduce a copy with op=MAX, then return chunk `rank` of it.",
        ),
    ),
    _bug(
        4,
        "epochs",
        "every epoch looks the same",
        "c",
        "orders",
        proves="a DistributedSampler changes its order only when told the epoch",
        hints=(
            "What could make the second epoch's permutation differ from the first's?",
            "The permutation is seeded with seed + epoch, and epoch changes by set_epoch only.",
            "for epoch in range(epochs): sampler.set_epoch(epoch); then list(sampler).",
        ),
    ),
    _bug(
        5,
        "metrics",
        "the accuracy is on the loss's curve",
        "a",
        "mean_metrics",
        proves="collectives match by their order, not by what the values mean",
        hints=(
            "Rank 0's dict begins with loss, rank 1's with accuracy. Which numbers are added?",
            "The n-th all_reduce of a rank meets the n-th of the others. Fix the order.",
            "Iterate over sorted(metrics).",
        ),
    ),
    _bug(
        6,
        "uneven",
        "the last step never ends",
        "b",
        "sums",
        proves="uneven data must not mean uneven calls",
        hints=(
            "Rank 0 has three batches, rank 1 two. Who answers rank 0's third all_reduce?",
            "Agree on the number of steps first; a rank without a batch adds a zero.",
            "steps = tensor(len(batches)), all_reduced with MAX; for step in range(steps): "
            "total = batches[step].sum() if there is one else 0, then all_reduce.",
        ),
        hangs="A rank with fewer batches left the loop earlier. All ranks must make the same "
        "number of calls: agree on it first.",
    ),
    _bug(
        7,
        "resume",
        "resumed replicas drift apart",
        "d",
        "resume",
        proves="averaged gradients keep replicas equal only if they were equal before",
        hints=(
            "After resume, what are rank 1's parameters?",
            "Loading on rank 0 is right; but then its tensors must be sent, buffers included.",
            "After loading: for t in (*model.parameters(), *model.buffers()): "
            "dist.broadcast(t.data, src=0).",
        ),
    ),
    _bug(
        8,
        "gathered",
        "everybody is the last rank",
        "b",
        "gathered",
        proves="a receive buffer is needed per message",
        hints=(
            "How many tensors does the list hold, counted by their data_ptr()?",
            "[tensor] * p is p times the same tensor.",
            "[torch.empty_like(embeddings) for _ in range(p)]",
        ),
    ),
)


def _report(bench) -> None:
    import torch
    import torch.distributed as dist

    for step in range(3):
        with bench.case(f"step {step}"):
            loss = torch.tensor(1.0 + bench.rank + step, requires_grad=True)
            text = bench.answer.report(loss, step)
            mean = sum(1.0 + rank + step for rank in range(bench.world)) / bench.world
            expected = f"step {step}: loss {mean:.3f}" if bench.rank == 0 else ""
            think = "Rank 0 returns the text with the mean, the others an empty one. A wrong mean "
            think += "may hold numbers of another rank's next call: all have to make this one."
            bench.require(text == expected, "what report returned", think, repr(expected), text)
            with bench.record.quietly():
                dist.all_reduce(torch.tensor(float(bench.rank)))  # as the next step would


def _averages(bench) -> None:
    import torch

    for sizes in ((4,), (1, 2, 3), (200_000, 5), (0,)):
        with bench.case(f"tensors of {', '.join(map(str, sizes))} elements"):
            tensors = [torch.full((n,), float(bench.rank + n % 7)) for n in sizes]
            means = bench.answer.averages(tensors)
            bench.all_awaited()
            think = "Start all, then wait for each, then divide."
            overlapping = all(call.is_async for call in bench.calls("all_reduce"))
            bench.require(overlapping, "the reductions do not overlap any more", think)
            for n, mean in zip(sizes, means, strict=True):
                expected = torch.full((n,), (bench.world - 1) / 2 + n % 7)
                bench.close(f"the mean of {n} elements", mean, expected, think)


def _maximum(bench) -> None:
    import torch

    for n in (1, 3):
        with bench.case(f"chunks of {n}"):
            every = [_pattern(rank, n * bench.world) for rank in range(bench.world)]
            values = every[bench.rank].clone()
            got = bench.answer.chunk_of_maximum(values)
            rows = torch.stack(every)
            mine = slice(bench.rank * n, (bench.rank + 1) * n)
            known = ((rows.sum(0)[mine], "This is the sum over the ranks, not the maximum: the op "
                      "did not reach the backend."),)  # fmt: skip
            think = "Chunk number `rank` of the maximum over the ranks."
            bench.close("the chunk", got, rows.amax(0)[mine], think, known)
            bench.close("the argument", values, every[bench.rank], "It was to stay unchanged.")


def _pattern(rank: int, count: int):
    import torch

    return (torch.arange(count) * (rank + 3) % 7 + 1).float()


def _epochs(bench) -> None:
    from torch.utils.data import DistributedSampler

    with bench.case("30 samples, 3 epochs"):
        sampler = DistributedSampler(range(30), bench.world, bench.rank, seed=1)
        got = bench.answer.orders(sampler, 3)
        think = "Epochs must differ: tell the sampler the epoch before it is iterated over."
        different = len({tuple(order) for order in got[:3]})
        what = "orders of three epochs that differ"
        bench.require(different == 3, what, think, "3", different)

        def cover(every: list) -> None:
            drawn = [{i for orders in every for i in orders[epoch]} for epoch in range(3)]
            complete = all(indices == set(range(30)) for indices in drawn)
            think = "All ranks must set the same epoch, or their shares overlap."
            bench.require(complete, "an epoch leaves samples out", think)

        bench.across(got, cover)


def _metrics(bench) -> None:
    names = ["loss", "accuracy", "perplexity"]
    for shift in range(2):
        with bench.case(f"metrics inserted in {'one order' if shift == 0 else 'different orders'}"):
            turn = bench.rank % 3 * shift
            order = names[turn:] + names[:turn]
            got = bench.answer.mean_metrics({name: _metric(name, bench.rank) for name in order})
            every = range(bench.world)
            expected = {n: sum(_metric(n, r) for r in every) / bench.world for n in names}
            good = got.keys() == expected.keys() and all(
                abs(got[name] - expected[name]) < 1e-9 for name in names
            )
            think = "This rank's first call met another metric on another rank."
            text = str({name: got[name] for name in sorted(got)})
            wanted = str({name: expected[name] for name in sorted(expected)})
            bench.require(good, "the mean metrics", think, wanted, text)


def _metric(name: str, rank: int) -> float:
    return {"loss": 2.0, "accuracy": 0.5, "perplexity": 8.0}[name] + rank / 8


def _uneven(bench) -> None:
    import torch

    for row in ((2, 2, 2, 2), (3, 1, 2, 0), (0, 1, 0, 4)):
        counts = row[: bench.world]
        with bench.case(f"batches per rank: {', '.join(map(str, counts))}"):
            got = bench.answer.sums(_batches(bench.rank, counts))
            every = [_batches(rank, counts) for rank in range(bench.world)]
            expected = [
                sum(float(mine[step].sum()) for mine in every if step < len(mine))
                for step in range(max(counts))
            ]
            think = "One sum per step, as many as the rank with most batches has."
            good = torch.tensor(got, dtype=torch.float64)
            bench.close("the sums", good, torch.tensor(expected, dtype=torch.float64), think)


def _batches(rank: int, counts: tuple[int, ...]) -> list:
    import torch

    return [torch.full((2 + rank,), float(step + 1)) for step in range(counts[rank])]


def _resume(bench) -> None:
    from distlab.practice.tasks.m26 import replicas

    with bench.case("a model with a buffer"):
        model, saved = replicas.model_of(replicas.Plain, bench.rank), replicas.model_of(
            replicas.Plain, 99
        ).state_dict()  # fmt: skip
        places = [t.data_ptr() for t in (*model.parameters(), *model.buffers())]
        own = {name: value.clone() for name, value in model.state_dict().items()}
        bench.answer.resume(model, saved if bench.rank == 0 else None)
        for name, value in saved.items():
            known = ((own[name], "This rank has kept its own values: nobody sent it the "
                      "checkpoint's."),)  # fmt: skip
            think = "Every tensor of the checkpoint belongs on every rank."
            bench.close(name, model.state_dict()[name], value, think, known if bench.rank else ())
        now = [t.data_ptr() for t in (*model.parameters(), *model.buffers())]
        think = "DDP and the optimizer hold the old tensors: copy into them."
        bench.require(now == places, "the model has other tensors than before", think)


def _gathered(bench) -> None:
    import torch

    for shape in ((2, 3), (1, 1), (0, 4)):
        with bench.case(f"embeddings of shape {shape}"):
            mine = torch.full(shape, float(bench.rank))
            got = bench.answer.gathered(mine)
            every = [torch.full(shape, float(rank)) for rank in range(bench.world)]
            last = torch.cat([every[-1]] * bench.world)
            known = ((last, "Every row is the last rank's: how many receive buffers are there?"),)
            bench.close("the gathered rows", got, torch.cat(every), "Rows in rank order.", known)


RUNS = {
    "11.1": _report,
    "11.2": _averages,
    "11.3": _maximum,
    "11.4": _epochs,
    "11.5": _metrics,
    "11.6": _uneven,
    "11.7": _resume,
    "11.8": _gathered,
}
