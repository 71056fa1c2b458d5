"""Scaling arithmetic of data parallelism: time on the wire, time in compute, memory per rank.

Sources. Bus and algorithm bandwidth: nccl-tests, doc/PERFORMANCE.md. 2 FLOPs per parameter and
token forward, 4 backward: Kaplan et al., "Scaling Laws for Neural Language Models", 2020, 2.1 (it
leaves attention over the context out). Bytes per parameter and what each stage shards:
Rajbhandari et al., "ZeRO", 2020, sections 3 and 5.

Units are bytes, seconds, bytes/s and FLOP/s: 200 GB/s is 200e9. Everything here is a model: it
counts bandwidth and no latency, and it assumes that communication hides perfectly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

FORWARD_FLOPS = 2  # per parameter and token: one multiplication, one addition
BACKWARD_FLOPS = 4  # ... for the gradient of the weights, and again for that of the inputs

PHASES = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1}

DTYPE_BYTES = {"float32": 4, "bfloat16": 2}
OPTIMIZER_STATES = {
    "adam": ("first moment", "second moment"),
    "sgd with momentum": ("momentum",),
    "sgd": (),
}
PRECISIONS = {  # name -> (dtype of weights and gradients, dtype of a master copy, of the states)
    "float32": ("float32", None, "float32"),
    "mixed": ("bfloat16", "float32", "float32"),
    "bfloat16": ("bfloat16", None, "bfloat16"),
}
SHARDED_FROM = {"optimizer": 1, "gradients": 2, "weights": 3}  # part -> the first ZeRO stage


@dataclass(frozen=True)
class Case:
    """One training set-up. The defaults are module 26's worked example, which assumes them."""

    parameters: float = 1e9
    precision: str = "mixed"
    optimizer: str = "adam"
    world_size: int = 8
    bus_bandwidth: float = 200e9  # bytes/s, as nccl-tests reports it
    flops: float = 400e12  # FLOP/s that one rank achieves, not its peak
    tokens: float = 16384  # per rank and step

    def __post_init__(self) -> None:
        """Raise ValueError for a name that is not in the tables or a number without meaning."""
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("optimizer", self.optimizer, OPTIMIZER_STATES)
        for name in ("parameters", "world_size", "bus_bandwidth", "flops", "tokens"):
            if not 0 < (value := getattr(self, name)) < float("inf"):
                raise ValueError(f"{name} is {value}; it must be a finite number above 0")
        if self.world_size != int(self.world_size):
            raise ValueError(f"world_size is {self.world_size}; ranks are counted: pass an int")

    @property
    def gradient_bytes(self) -> float:
        """S, the bytes of all gradients: what one step all-reduces."""
        return self.parameters * DTYPE_BYTES[PRECISIONS[self.precision][0]]


@dataclass(frozen=True)
class Times:
    """Seconds of one step of one rank, and what they say about each other."""

    communication: float
    forward: float
    backward: float

    @property
    def compute(self) -> float:
        """Forward plus backward: 6PT FLOPs."""
        return self.forward + self.backward

    @property
    def hidden(self) -> float:
        """Communication that fits under backward: at best all of it, never more than backward."""
        return min(self.communication, self.backward)

    @property
    def exposed(self) -> float:
        """Communication that outlasts backward, while the rank waits."""
        return self.communication - self.hidden

    @property
    def hidden_fraction(self) -> float:
        """Share of the communication that fits under backward; 1 if there is none to hide."""
        return self.hidden / self.communication if self.communication else 1.0

    @property
    def overlapped_step(self) -> float:
        """Step time with perfect overlap, as DDP aims at."""
        return self.compute + self.exposed

    @property
    def naive_step(self) -> float:
        """Step time when the all-reduce starts after backward has ended."""
        return self.compute + self.communication


@dataclass(frozen=True)
class MemoryItem:
    """One part of a rank's training state, in bytes at ZeRO stages 0 (DDP), 1, 2 and 3."""

    name: str
    bytes_per_parameter: int
    per_rank: tuple[float, float, float, float]


def bus_factor(collective: str, world_size: int) -> float:
    """Return the bytes each rank must send, in units of S: bus / algorithm bandwidth.

    2(p-1)/p for all_reduce, (p-1)/p for reduce_scatter, all_gather and all_to_all. S is the whole
    tensor, for all_gather its output.
    """
    _one_of("collective", collective, PHASES)
    if world_size < 1:
        raise ValueError(f"world size is {world_size}; a group has 1 rank or more")
    return PHASES[collective] * (world_size - 1) / world_size


def collective_seconds(
    collective: str, size: float, world_size: int, bus_bandwidth: float
) -> float:
    """Return the time of a collective on `size` bytes at a given bus bandwidth."""
    return size * bus_factor(collective, world_size) / bus_bandwidth


def algorithm_bandwidth(size: float, seconds: float) -> float:
    """Return bytes/s as seen by the caller: S/t. It falls as ranks are added."""
    return size / seconds


def bus_bandwidth(collective: str, size: float, world_size: int, seconds: float) -> float:
    """Return bytes/s that the links carried: S/t times the bus factor, comparable to hardware."""
    return algorithm_bandwidth(size, seconds) * bus_factor(collective, world_size)


def times(case: Case) -> Times:
    """Return the seconds of one step."""
    per_flop = case.parameters * case.tokens / case.flops
    return Times(
        communication=collective_seconds(
            "all_reduce", case.gradient_bytes, case.world_size, case.bus_bandwidth
        ),
        forward=FORWARD_FLOPS * per_flop,
        backward=BACKWARD_FLOPS * per_flop,
    )


def break_even_tokens(case: Case) -> float:
    """Return the tokens per rank at which backward lasts as long as the all-reduce.

    Both grow with the parameters, so their number cancels out. With fewer tokens than this the
    ranks wait for the network whatever the overlap.
    """
    one_token = times(replace(case, tokens=1))
    return one_token.communication / one_token.backward


def by_tokens(case: Case, tokens: Sequence[float]) -> tuple[tuple[float, Times], ...]:
    """Return the times of the same case for several token counts per rank."""
    return tuple((count, times(replace(case, tokens=count))) for count in tokens)


def memory(case: Case, *, bucket_copy: bool = False) -> tuple[MemoryItem, ...]:
    """Itemise a rank's weights, gradients and optimizer state; activations are left out.

    `bucket_copy` adds DDP's buckets, a second copy of the gradients that
    `gradient_as_bucket_view=True` saves. They belong to DDP alone: sharding replaces them by
    buffers of its own, which are not modelled.
    """
    dtype, master, states = PRECISIONS[case.precision]
    parts = [(f"weights, {dtype}", dtype, "weights"), (f"gradients, {dtype}", dtype, "gradients")]
    if master:
        parts.append((f"master weights, {master}", master, "optimizer"))
    for name in OPTIMIZER_STATES[case.optimizer]:
        parts.append((f"{name}, {states}", states, "optimizer"))
    items = tuple(_item(case, name, DTYPE_BYTES[kind], part) for name, kind, part in parts)
    return (*items, _bucket_copy(case, dtype)) if bucket_copy else items


def bytes_per_parameter(items: Sequence[MemoryItem]) -> int:
    """Add up the bytes that one unsharded parameter costs."""
    return sum(item.bytes_per_parameter for item in items)


def per_rank(items: Sequence[MemoryItem]) -> tuple[float, ...]:
    """Add up the bytes of a rank at ZeRO stages 0, 1, 2 and 3."""
    return tuple(sum(stage) for stage in zip(*(item.per_rank for item in items), strict=True))


def _item(case: Case, name: str, size: int, part: str) -> MemoryItem:
    whole = case.parameters * size
    shard = whole / case.world_size
    stages = tuple(whole if stage < SHARDED_FROM[part] else shard for stage in range(4))
    return MemoryItem(name, size, stages)


def _bucket_copy(case: Case, dtype: str) -> MemoryItem:
    return MemoryItem(f"DDP buckets, {dtype}", DTYPE_BYTES[dtype], (case.gradient_bytes, 0, 0, 0))


def _one_of(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"no {what} named {value!r}: choose one of {', '.join(known)}")
