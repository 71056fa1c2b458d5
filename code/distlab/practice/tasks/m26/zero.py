"""Task 10: an optimizer whose state is sharded over the ranks (ZeRO stage 1).

Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models".
"""

from __future__ import annotations

from distlab.practice.task import COLLECTIVES, Task

TASK = Task(
    id="10",
    stem="10_zero_optimizer",
    title="optimizer with sharded state (ZeRO-1)",
    proves="AdamW's very trajectory with 1/p of its state on each rank",
    asks=("ShardedOptimizer",),
    hints=(
        "Every rank has all averaged gradients. Does every rank have to keep Adam's two moments "
        "for every parameter?",
        "Deal the parameters out, largest first, each to the rank with the least so far. A rank "
        "gives its own to an inner optimizer. step(): the inner step, then every parameter is "
        "broadcast from its owner. zero_grad() concerns all parameters.",
        "loads = [0] * p; for param in sorted(params, key=numel, reverse=True): owner = "
        "loads.index(min(loads)). if mine: self.inner = optimizer_class(mine, **kwargs), else "
        "None: an optimizer refuses an empty list, and a rank may own nothing.",
    ),
    allows=COLLECTIVES,
    bans=(("ZeroRedundancyOptimizer", "it is what this task rebuilds"),),
    hangs="Does every rank broadcast the same parameters in the same order, also one that owns "
    "nothing, and also those without a gradient?",
)
TASKS = (TASK,)

STEPS = 3
SETTINGS = {"lr": 0.05, "weight_decay": 0.1}


def run(bench) -> None:
    """Train with AdamW beside the reference: a tangled model, and one with a single parameter."""
    from distlab.practice.tasks.m26 import replicas

    for kind in (replicas.Plain, Single, replicas.Tangled):
        _train(bench, kind)


def Single():  # noqa: N802 - it is called like the classes it stands beside
    """Return a model with fewer parameters than ranks."""
    from distlab.practice.tasks.m26 import replicas

    model = replicas.Plain()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name == "first.weight")
    return model


def _train(bench, kind) -> None:
    import torch

    from distlab.practice.tasks.m26 import replicas

    label, states = kind.__name__.lower(), []
    model, mirror = replicas.model_of(kind, 0), replicas.model_of(kind, 0)
    expected = torch.optim.AdamW([p for p in mirror.parameters() if p.requires_grad], **SETTINGS)
    trainable = [p for p in model.parameters() if p.requires_grad]

    class Spied(torch.optim.AdamW):
        """AdamW that lets the grader see its state."""

        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)
            states.append(self.state)

    with bench.case(f"{label} model: construction"):
        sharded = bench.answer.ShardedOptimizer(list(trainable), Spied, **SETTINGS)
    reference = replicas.Reference(mirror, bench.world)
    for step in range(STEPS):
        with bench.case(f"{label} model: step {step + 1}"):
            sharded.zero_grad()
            _cleared(bench, trainable)
            grads = reference.average(reference.gradients(step))
            for name, parameter in model.named_parameters():
                parameter.grad = None if grads[name] is None else grads[name].clone()
            before = {name: p.detach().clone() for name, p in model.named_parameters()}
            sharded.step()
            expected.step()
            bench.all_awaited()
            _compare(bench, model, mirror, before)
            _sizes(bench, trainable, states)
            think = "Owners must send the bits they computed, also for float32 parameters."
            bench.identical("the parameters after the step", list(model.parameters()), think)


def _cleared(bench, trainable: list) -> None:
    left = [p for p in trainable if p.grad is not None and p.grad.abs().sum() > 0]
    think = "zero_grad must clear the gradients of all parameters, not only of those owned here: "
    think += "the next backward would add to the old ones."
    bench.require(not left, f"{len(left)} parameters have an old gradient after zero_grad", think)


def _compare(bench, model, mirror, before: dict) -> None:
    wanted = dict(mirror.named_parameters())
    for name, parameter in model.named_parameters():
        known = ((before[name], "This rank still has the value from before the step: the owner of "
                  "this parameter has to send it after its inner step."),)  # fmt: skip
        think = "Each parameter takes one AdamW step, on one rank, with the gradient it has. One "
        think += "without a gradient stays as it is: with zeros, weight decay would shrink it."
        bench.close(f"{name} after the step", parameter, wanted[name].detach(), think, known)


def _sizes(bench, trainable: list, states: list) -> None:
    numbers = sum(
        value.numel()
        for state in states
        for entry in state.values()
        for key, value in entry.items()
        if key.startswith("exp_avg")
    )
    total, largest = sum(p.numel() for p in trainable), max(p.numel() for p in trainable)
    think = "Nobody else has this parameter's moments, so this rank needs only those of its own "
    think += "share; deal the parameters out evenly, by their numel()."
    limit = 2 * (-(-total // bench.world) + largest)
    held = "numbers of optimizer state on this rank"
    bench.at_most(held, numbers, min(limit, 2 * total), think)

    def once(every: list[int]) -> None:
        think = "Each parameter has one owner. Some are stepped on two ranks."
        bench.at_most("numbers of optimizer state on all ranks", sum(every), 2 * total, think)

    bench.across(numbers, once)
    moved = sum(call.bytes for call in bench.calls())
    size = sum(p.numel() * p.element_size() for p in trainable)
    think = "Each parameter is to be sent once, by its owner; moments and gradients stay."
    bench.at_most("bytes given to the collectives", moved, 2 * size, think)


RUNS = {"10": run}
