"""Task 1: a total over ranks."""

from __future__ import annotations

from distlab.practice.task import COLLECTIVES, Task

TASK = Task(
    id="1",
    stem="01_total",
    title="a total over ranks",
    proves="every rank knows the sum of all numbers",
    asks=("total",),
    hints=(
        "Which call tells every rank what all of them have?",
        "all_reduce adds tensors of all ranks, in place.",
        "tensor = torch.tensor(number); dist.all_reduce(tensor); return tensor.item()",
    ),
    allows=COLLECTIVES,
    hangs="Who never called all_reduce?",
)
TASKS = (TASK,)


def run(bench) -> None:
    """Add numbers that differ from rank to rank."""
    for step in (1, 10):
        with bench.case(f"multiples of {step}"):
            _one(bench, step)


def _one(bench, step: int) -> None:
    numbers = [step * (rank + 1) for rank in range(bench.world)]
    got = bench.answer.total(numbers[bench.rank])
    think = "Is it the sum of all numbers, on every rank?"
    if bench.world > 1 and got == numbers[bench.rank]:
        think = "This is your own number: nobody else's is in it."
    if got == max(numbers):
        think = "This is the largest of the numbers."
    bench.require(got == sum(numbers), "the total is not the sum", think, str(sum(numbers)), got)


RUNS = {"1": run}
