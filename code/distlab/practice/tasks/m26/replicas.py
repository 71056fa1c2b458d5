"""What tasks 4, 5 and 6 share: two models, their reference in one process, and the comparison.

The reference holds rank 0's initial values, computes every rank's loss in turn, and averages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

STEPS = 3
EXAMPLES = 4

STAY_NONE = (
    "No rank used this parameter, so its grad stays None: with zeros, an optimizer with weight "
    "decay or momentum would change it. Find out together, with one small all_reduce of flags."
)


class Plain(nn.Module):
    """Two layers and a buffer; every parameter is used on every rank."""

    def __init__(self) -> None:
        """Draw the parameters from the rank's own generator."""
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 3)
        self.register_buffer("scale", torch.rand(3))
        self.double()

    def forward(self, x: torch.Tensor, _rank: int) -> torch.Tensor:
        """Map (B, 6) to (B, 3)."""
        return self.second(self.first(x).tanh()) * self.scale


class Tangled(nn.Module):
    """Tied, frozen and unused parameters, and two dtypes.

    `spare` is used on no rank, `lone` on rank 0 only, `left` and `right` share one weight.
    """

    def __init__(self) -> None:
        """Draw the parameters from the rank's own generator."""
        super().__init__()
        self.inner, self.frozen = nn.Linear(6, 8), nn.Linear(8, 8)
        self.left, self.right = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.right.weight = self.left.weight
        self.spare, self.lone, self.out = nn.Linear(8, 4), nn.Linear(8, 8), nn.Linear(8, 3)
        self.frozen.requires_grad_(False)
        self.register_buffer("scale", torch.rand(3))
        self.double()
        self.gain = nn.Parameter(torch.rand(3) + 0.5)  # float32 among float64

    def forward(self, x: torch.Tensor, rank: int) -> torch.Tensor:
        """Map (B, 6) to (B, 3); only rank 0 takes the way through `lone`."""
        hidden = self.frozen(self.inner(x).tanh())
        hidden = self.right(self.left(hidden).tanh())
        if rank == 0:
            hidden = hidden + self.lone(hidden).tanh()
        return self.out(hidden) * self.scale * self.gain.double()


def model_of(kind: type[nn.Module], rank: int) -> nn.Module:
    """Return a model with the values that only this rank starts with."""
    torch.manual_seed(77 + rank)
    return kind()


def loss_of(model: Callable, rank: int, step: int) -> torch.Tensor:
    """Return a rank's mean loss over its examples of a step."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(EXAMPLES, 6, generator=generator, dtype=torch.float64)
    y = torch.randn(EXAMPLES, 3, generator=generator, dtype=torch.float64)
    return (model(x, rank) - y).pow(2).mean()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer that tells a zero gradient from none."""
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.05)


@dataclass
class Reference:
    """One process that does the work of all ranks."""

    model: nn.Module
    world: int

    def gradients(self, step: int) -> list[dict[str, torch.Tensor | None]]:
        """Return each rank's own gradients, by parameter name."""
        found = []
        for rank in range(self.world):
            self.model.zero_grad(set_to_none=True)
            loss_of(self.model, rank, step).backward()
            found.append({name: p.grad for name, p in self.model.named_parameters()})
        return found

    def average(self, grads: list[dict]) -> dict[str, torch.Tensor | None]:
        """Return the mean over the ranks, None for what no rank used, and set it as grad."""
        for name, parameter in self.model.named_parameters():
            there = [g[name].double() for g in grads if g[name] is not None]
            parameter.grad = (sum(there) / self.world).to(parameter.dtype) if there else None
        return {name: p.grad for name, p in self.model.named_parameters()}


def start(bench, kind: type[nn.Module], wrap: Callable) -> tuple[nn.Module, nn.Module]:
    """Wrap a model that differs on every rank; compare with rank 0's; return (wrapper, model)."""
    model, expected = model_of(kind, bench.rank), model_of(kind, 0)
    own = model_of(kind, bench.rank).state_dict()
    wrapper = wrap(model)
    for name, value in sorted(expected.state_dict().items(), key=lambda item: item[0] == "scale"):
        what = f"{name} after construction"
        entry = "buffer" if name == "scale" else "parameter"
        known = ((own[name], f"This rank has kept its own {entry}: replicas must begin with rank "
                 "0's parameters and buffers, so broadcast both."),)  # fmt: skip
        think = "Replicas begin with the values of rank 0."
        bench.close(what, model.state_dict()[name], value, think, known if bench.rank else ())
    return wrapper, model


def compare(
    bench, model: nn.Module, reference: Reference, step: int, spare_too: bool = True
) -> None:
    """Compare every gradient of a step with the reference's average."""
    ranks = reference.gradients(step)
    mean = reference.average(ranks)
    for name, parameter in model.named_parameters():
        what, grad = f"{name}.grad in step {step + 1}", parameter.grad
        if not parameter.requires_grad:
            think = "A frozen parameter takes no part: leave its grad None."
            bench.require(grad is None, f"{what} is set though it is frozen", think)
        elif mean[name] is not None:
            think = "Compare your divisor and your order of parameters with the docstring's."
            if name.startswith("lone"):
                think = "Only rank 0 used it. The others add zeros, and all receive the mean: the "
                think += "divisor is the world size, not the number of ranks that used it."
            bench.close(what, grad, mean[name], think, _known(bench, ranks, name))
        elif spare_too:
            got = "a tensor" if grad is not None else "None"
            bench.require(grad is None, f"{what} is set", STAY_NONE, "None", got)


def _known(bench, ranks: list[dict], name: str) -> tuple[tuple[torch.Tensor, str], ...]:
    there = [g[name] for g in ranks if g[name] is not None]
    own = ranks[bench.rank][name]
    total = sum(there)
    if name.startswith("lone"):
        return ()
    known = [
        (total, "This is the sum over the ranks: divide by the world size."),
        (total / bench.world**2, "This was divided by the world size twice: is a tied parameter "
         "averaged once for each of its names?"),
    ]  # fmt: skip
    if own is not None:
        think = "This is the rank's own gradient, without the others': it was not averaged, or the "
        think += "average was written to a copy."
        known += [(own, think), (own / bench.world, think)]
    return tuple(known)


def train(
    bench, kind: type[nn.Module], wrap: Callable, each_step: Callable | None = None, **options
) -> None:
    """Train for a few steps, one case each, beside the reference."""
    label = kind.__name__.lower()
    with bench.case(f"{label} model: construction"):
        wrapper, model = start(bench, kind, wrap)
    optimizer = optimizer_of(model)
    reference = Reference(model_of(kind, 0), bench.world)
    mirror = optimizer_of(reference.model)
    for step in range(STEPS):
        with bench.case(f"{label} model: step {step + 1}"):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(wrapper, bench.rank, step)
            loss.backward()
            bench.record.mark("backward ends")
            wrapper.finish_gradients()
            bench.all_awaited()
            compare(bench, model, reference, step, **options)
            if each_step:
                each_step(model)
            optimizer.step()
            mirror.step()
            think = (
                "Every rank needs the very same gradient, bit for bit: numbers added in another "
            )
            think += "order on each rank are rounded differently."
            bench.identical("the parameters after the step", list(model.parameters()), think)


def floating(bench) -> list:
    """Return the calls of this case that carry floating-point tensors."""
    return [call for call in bench.calls() if "float" in call.dtype]
