"""Task 9: a communication hook that compresses gradients (PowerSGD with error feedback).

Vogels, Karimireddy, Jaggi 2019, "PowerSGD: Practical Low-Rank Gradient Compression", algorithm 1.
"""

from __future__ import annotations

from distlab.practice.task import COLLECTIVES, Task

TASK = Task(
    id="9",
    stem="09_powersgd",
    title="comm hook that compresses (PowerSGD)",
    proves="r (m + n) numbers on the wire instead of m n, and an error that is made good later "
    "instead of lost",
    asks=("PowerSGD", "powersgd_hook"),
    hints=(
        "A matrix M (m x n) is to be sent as P Q^T with P (m x r) and Q (n x r). Given some Q, "
        "which P is best; given an orthonormal P, which Q?",
        "Per matrix: add the kept error to the gradient: M. P = mean over ranks of M Q; "
        "orthonormalise P; Q = mean over ranks of M^T P; the result is P Q^T, and the rank keeps "
        "error = M - P Q^T. Keep Q as the next step's start. Vectors: plain mean.",
        "P = M @ Q; dist.all_reduce(P); P = torch.linalg.qr(P).Q; Q = M.T @ P; dist.all_reduce(Q); "
        "Q /= p; approximation = P @ Q.T; state.error[key] = M - approximation. A first Q from "
        "torch.randn with a seeded generator. Return a torch.futures.Future with set_result(flat). "
        "qr also copes with a matrix of zeros.",
    ),
    allows=COLLECTIVES,
    bans=(
        ("PowerSGDState", "it is what this task rebuilds"),
        ("powerSGD_hook", "it is what this task rebuilds"),
        ("batched_powerSGD_hook", "it is what this task rebuilds"),
    ),
)
TASKS = (TASK,)

SHAPES = ((12, 9), (9,), (8, 3, 2, 2), (2, 3), (1, 7))
MATRIX_RANK = 2
STEPS = 40


class Bucket:
    """A stand-in for torch.distributed.GradBucket, which only DDP's reducer can make."""

    def __init__(self, gradients: list, parameters: list) -> None:
        """Lay the gradients into one flat buffer; `gradients()` are views of it."""
        import torch

        self._flat = torch.cat([grad.reshape(-1) for grad in gradients])
        pieces = self._flat.split([grad.numel() for grad in gradients])
        self._views = [piece.view(p.shape) for piece, p in zip(pieces, parameters, strict=True)]
        self._parameters = parameters

    def buffer(self):
        """Return the flat gradient."""
        return self._flat

    def gradients(self) -> list:
        """Return the gradients, views of the buffer."""
        return self._views

    def parameters(self) -> list:
        """Return the parameters, in the order of the gradients."""
        return self._parameters

    def index(self) -> int:
        """Return the bucket's number."""
        return 0

    def is_last(self) -> bool:
        """Tell whether this is the last bucket of the step."""
        return True


def run(bench) -> None:
    """Check exactness where it can be had, bytes, zeros, error feedback, and a real DDP."""
    import torch

    for dtype in (torch.float64, torch.float32):
        with bench.case(f"one step, {str(dtype).removeprefix('torch.')}, low-rank gradients"):
            _exact(bench, dtype)
    with bench.case("one step, gradients of zeros"):
        _zeros(bench)
    with bench.case(f"{STEPS} steps of one full-rank gradient"):
        _feedback(bench)
    with bench.case("registered with DistributedDataParallel, 3 steps"):
        _registered(bench)


def _low_rank(shape: tuple[int, ...], rank: int, dtype):
    """Return a rank's gradient; the mean over ranks has matrix rank 1."""
    import torch

    if len(shape) == 1:
        return (torch.arange(shape[0]) + rank).to(dtype)
    rows, columns = shape[0], torch.Size(shape[1:]).numel()
    left = torch.linspace(1, 2, rows, dtype=torch.float64)
    right = torch.linspace(-1, 3, columns, dtype=torch.float64) + rank
    return torch.outer(left, right).reshape(shape).to(dtype)


def _hooked(bench, state, gradients: list, parameters: list) -> list:
    """Call the hook on a bucket and return its result cut into gradients."""
    import torch

    bucket = Bucket([grad.clone() for grad in gradients], parameters)
    future = bench.answer.powersgd_hook(state, bucket)
    think = "A hook returns a torch.futures.Future that holds the averaged flat tensor."
    has_wait = hasattr(future, "wait")
    bench.require(has_wait, "the hook returned no Future", think, "Future", type(future).__name__)
    flat = future.wait()
    good = isinstance(flat, torch.Tensor) and flat.shape == bucket.buffer().shape
    got = tuple(flat.shape) if isinstance(flat, torch.Tensor) else type(flat).__name__
    expected = f"a tensor of shape {tuple(bucket.buffer().shape)}"
    bench.require(good, "the Future holds something else than the bucket", think, expected, got)
    pieces = flat.split([p.numel() for p in parameters])
    return [piece.view(p.shape) for piece, p in zip(pieces, parameters, strict=True)]


def _parameters(dtype) -> list:
    import torch

    return [torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in SHAPES]


def _exact(bench, dtype) -> None:
    import torch

    state, parameters = bench.answer.PowerSGD(MATRIX_RANK), _parameters(dtype)
    gradients = [_low_rank(shape, bench.rank, dtype) for shape in SHAPES]
    results = _hooked(bench, state, gradients, parameters)
    for shape, result in zip(SHAPES, results, strict=True):
        every = [_low_rank(shape, rank, torch.float64) for rank in range(bench.world)]
        known = (
            (sum(every), "This is the sum over the ranks: divide by the world size."),
            (every[bench.rank], "This is the rank's own gradient: it was never averaged."),
        )
        think = "A mean of matrix rank 1 fits into rank 2 without loss, if P is orthonormal when Q "
        think += "is computed (then P Q^T = P P^T M) and both are averaged over the ranks."
        if len(shape) == 1:
            think = "A vector is averaged as it is."
        what = f"the result for a gradient of shape {shape}"
        bench.close(what, result, sum(every) / bench.world, think, known, rtol=1e-6)
    _traffic(bench, parameters, 1)
    bench.identical("the results", results, "All ranks must compute the same P and Q.")


def _wire(parameters: list) -> int:
    """Return the bytes that one step may move: compressed where that is less."""
    numbers = 0
    for p in parameters:
        columns = p.numel() // p.shape[0]
        thin = MATRIX_RANK * (p.shape[0] + columns)
        numbers += min(thin, p.numel()) if p.dim() > 1 else p.numel()
    return numbers * parameters[0].element_size()


def _traffic(bench, parameters: list, steps: int) -> None:
    moved = sum(call.bytes for call in bench.calls())
    think = "Only P, Q and the vectors travel; a matrix with r (m + n) >= m n travels as it is. "
    think += "Is a whole gradient or the error sent along?"
    bench.at_most("bytes given to the collectives", moved, steps * _wire(parameters), think)


def _zeros(bench) -> None:
    import torch

    state, parameters = bench.answer.PowerSGD(MATRIX_RANK), _parameters(torch.float64)
    for step in range(2):
        zeros = [torch.zeros_like(p) for p in parameters]
        results = _hooked(bench, state, zeros, parameters)
        for shape, result in zip(SHAPES, results, strict=True):
            think = "Nothing divides by a norm of 0 without harm: a column of zeros has none."
            what = f"the result for zeros of shape {shape} in step {step + 1}"
            bench.close(what, result, torch.zeros(shape, dtype=torch.float64), think)


def _feedback(bench) -> None:
    import torch

    def gradient(rank: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(9 + rank)
        return torch.randn(12, 9, generator=generator, dtype=torch.float64)

    parameter = torch.nn.Parameter(torch.zeros(12, 9, dtype=torch.float64))
    state, total = bench.answer.PowerSGD(MATRIX_RANK), torch.zeros(12, 9, dtype=torch.float64)
    for _ in range(STEPS):
        total += _hooked(bench, state, [gradient(bench.rank)], [parameter])[0]
    mean = sum(gradient(rank) for rank in range(bench.world)) / bench.world
    missing = ((total / STEPS - mean).norm() / mean.norm()).item()
    think = "What a step cannot send must not be lost: keep error = (gradient + old error) - what "
    think += "was sent, and add it to the next gradient. Is the old error part of the new one?"
    bench.require(
        missing < LOST,
        f"after {STEPS} steps the mean of the results is still far from the gradient",
        think,
        expected=f"less than {LOST:.0%} missing",
        got=f"{missing:.1%} missing",
    )
    _traffic(bench, [parameter], STEPS)


LOST = 0.15
"""The part of the gradient that may be missing: with error feedback it falls like 1 / steps."""


def _registered(bench) -> None:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(3)
    # Without biases, each place of the bucket holds another matrix once DDP has reordered it.
    sizes = (16, 12), (12, 8)
    model = torch.nn.Sequential(*(torch.nn.Linear(*size, bias=False) for size in sizes)).double()
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(bench.answer.PowerSGD(MATRIX_RANK), bench.answer.powersgd_hook)
    generator = torch.Generator().manual_seed(bench.rank)
    for _ in range(3):
        ddp.zero_grad()
        ddp(torch.randn(4, 16, generator=generator, dtype=torch.float64)).pow(2).mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.1 * parameter.grad)
    _traffic(bench, list(model.parameters()), 3)


RUNS = {"9": run}
