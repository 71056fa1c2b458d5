"""Task 3: gradient averaging that respects token counts."""

from __future__ import annotations

from distlab.practice.task import COLLECTIVES, Task

TASK = Task(
    id="3",
    stem="03_token_average",
    title="gradient averaging by token counts",
    proves="the gradient of the mean over all tokens, though ranks hold different numbers of them, "
    "and some hold none",
    asks=("average_gradients",),
    hints=(
        "Rank 0 has 3 tokens and rank 1 has 9. What share of the global mean is rank 0's?",
        "A rank's gradient is of its own mean: multiply by its count to get its sum, add up the "
        "sums, divide by the number of all tokens. A rank without tokens has no usable gradient.",
        "total = tensor of num_tokens, all_reduced. For each trainable parameter: on a rank with "
        "tokens p.grad * (num_tokens / total), on one without torch.zeros_like(p) "
        "(nan * 0 is nan!); then all_reduce it, on every rank, and put it into p.grad.",
    ),
    allows=COLLECTIVES,
    hangs="Every rank must call the same collectives. Does the number of your calls depend on "
    "num_tokens or on p.grad being None, which differ between ranks?",
)
TASKS = (TASK,)

LENGTHS = ([4, 4, 4, 4], [3, 10, 1, 6], [5, 0, 2, 7], [0, 0, 0, 9], [1, 1, 1, 1])
SIZES = 6, 3


def run(bench) -> None:
    """Run over even and uneven counts, and ranks without a token (their gradient nan or None)."""
    for row in LENGTHS:
        lengths = row[-bench.world :]  # the last rank always has tokens
        for empty in ("nan", "None") if 0 in lengths else ("nan",):
            said = f", gradients of an empty rank: {empty}" if 0 in lengths else ""
            with bench.case(f"tokens per rank {lengths}{said}"):
                _one(bench, lengths, empty)


def _one(bench, lengths: list[int], empty: str) -> None:
    import torch

    model = _model()
    _backward(model, *_tokens(lengths[bench.rank], bench.rank))
    if not lengths[bench.rank] and empty == "None":
        model.zero_grad(set_to_none=True)
    trainable = [p for p in model.parameters() if p.requires_grad]
    bench.answer.average_gradients(list(model.parameters()), lengths[bench.rank])
    expected, means = _reference(lengths)
    for index, parameter in enumerate(trainable):
        seen = [grads[index] for grads in means]
        known = (
            (torch.stack(seen).nan_to_num().mean(0), "This is the plain mean over the ranks: it "
             "gives a rank with 3 tokens the weight of one with 10."),
            (torch.stack(seen).sum(0), "This is the sum of the ranks' means: nothing was weighed."),
            (expected[index] * sum(lengths), "This is the sum over all tokens: divide by how many "
             "there are."),
            (expected[index] * sum(lengths) / bench.world, "This is the tokens' sum over the number"
             " of ranks: divide by the number of all tokens instead."),
        )  # fmt: skip
        think = "Weigh each rank's gradient with its share of all tokens."
        if parameter.grad is not None and parameter.grad.isnan().any():
            think = "A mean over no tokens is nan, and nan times 0 is nan too: a rank without "
            think += "tokens has to contribute zeros."
        what = f"the gradient of parameter {index}"
        bench.close(what, parameter.grad, expected[index], think, known)
    frozen = next(p for p in model.parameters() if not p.requires_grad)
    think = "A parameter with requires_grad=False takes no part: leave its grad None."
    bench.require(frozen.grad is None, "a frozen parameter has a gradient", think, "None", "zeros")
    think = "Numbers added in another order on each rank are rounded differently: add up once, in "
    think += "one collective, for all ranks."
    bench.identical("the averaged gradients", [p.grad for p in trainable], think)


def _model():
    import torch
    from torch import nn

    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(SIZES[0], 8), nn.Tanh(), nn.Linear(8, SIZES[1])).double()
    model[2].bias.requires_grad_(False)
    return model


def _tokens(count: int, rank: int):
    import torch

    generator = torch.Generator().manual_seed(100 + rank)
    x = torch.randn(count, SIZES[0], generator=generator, dtype=torch.float64)
    return x, torch.randint(SIZES[1], (count,), generator=generator)


def _backward(model, x, y) -> None:
    """Compute gradients of the mean over real tokens: one more, of padding, is masked out.

    Without a real token that is 0 / 0, so the gradients are nan.
    """
    import torch
    from torch.nn import functional

    padded = torch.cat([x, torch.ones(1, SIZES[0], dtype=x.dtype)])
    losses = functional.cross_entropy(
        model(padded), torch.cat([y, y.new_zeros(1)]), reduction="none"
    )
    mask = torch.ones(len(padded), dtype=x.dtype)
    mask[-1] = 0
    ((losses * mask).sum() / mask.sum()).backward()


def _reference(lengths: list[int]):
    """Return the gradients over all tokens at once, and those of each rank's own mean."""
    import torch

    parts = [_tokens(count, rank) for rank, count in enumerate(lengths)]
    whole = tuple(torch.cat(pieces) for pieces in zip(*parts, strict=True))
    found = []
    for x, y in [whole, *(part for part in parts if len(part[0]))]:
        model = _model()
        _backward(model, x, y)
        found.append([p.grad for p in model.parameters() if p.requires_grad])
    return found[0], found[1:]


RUNS = {"3": run}
