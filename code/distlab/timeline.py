"""What each rank did when: measured spans, how to read them, and a model to compare them with.

The model is the alpha-beta model of a message (Hockney, "The communication challenge for MPP:
Intel Paragon and Meiko CS-2", Parallel Computing 20(3), 1994): a collective on n bytes takes
alpha + beta n seconds. Times are in seconds from any common origin, sizes in bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

WAYS = ("naive", "flat", "bucketed", "overlapped")
KINDS = ("forward", "backward", "all_reduce", "wait", "step")


@dataclass(frozen=True)
class Span:
    """Something a rank did between two times. `kind` is one of KINDS, `name` free ("bucket 2").

    `layers` names those whose gradients it computed or carried.
    """

    rank: int
    kind: str
    name: str
    start: float
    end: float
    layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown kind or a span that ends before it starts."""
        if self.kind not in KINDS:
            raise ValueError(f"no kind of span {self.kind!r}: choose one of {', '.join(KINDS)}")
        if self.end < self.start:
            raise ValueError(
                f"{self.name} ends at {self.end}, before its start at {self.start}: "
                "take both times from one clock of one rank"
            )

    @property
    def seconds(self) -> float:
        """Its duration."""
        return self.end - self.start


@dataclass(frozen=True)
class Layer:
    """A layer as the model sees it: seconds of its backward, bytes of its gradients."""

    name: str
    backward: float
    bytes: int


@dataclass(frozen=True)
class Link:
    """Cost of one collective: `alpha` seconds for each, `beta` seconds per byte of its tensor."""

    alpha: float
    beta: float

    def seconds(self, size: int) -> float:
        """Return the time of a collective on a tensor of `size` bytes."""
        return self.alpha + self.beta * size


def ring_link(latency: float, bandwidth: float, world_size: int) -> Link:
    """Return a ring's all-reduce as a Link: 2(p-1) messages of S/p bytes one after the other.

    `latency` is in seconds per message, `bandwidth` in bytes/s of one link in one direction.
    """
    messages = 2 * (world_size - 1)
    return Link(alpha=messages * latency, beta=messages / world_size / bandwidth)


def buckets(
    layers: Sequence[Layer], cap: int, first_cap: int | None = None
) -> tuple[tuple[Layer, ...], ...]:
    """Pack layers, given in the order of backward, as DDP does: close a bucket once it has >= cap.

    So a bucket may exceed its cap by almost a layer. `first_cap` applies to the first bucket; DDP
    uses 1 MiB there unless `bucket_cap_mb` is passed.
    """
    packed: list[list[Layer]] = [[]]
    for layer in layers:
        limit = first_cap if first_cap is not None and len(packed) == 1 else cap
        packed[-1].append(layer)
        if sum(each.bytes for each in packed[-1]) >= limit:
            packed.append([])
    return tuple(tuple(bucket) for bucket in packed if bucket)


def model(
    layers: Sequence[Layer],
    packed: Sequence[Sequence[Layer]],
    link: Link,
    *,
    overlap: bool,
    rank: int = 0,
) -> tuple[Span, ...]:
    """Return backward and all-reduce spans of one step; `packed` comes from a packing below.

    Collectives run one at a time, in order. With `overlap` each starts as soon as its last
    gradient is there and the link is free, otherwise after the whole backward.
    """
    clock, spans, ready = 0.0, [], {}
    for layer in layers:
        end = clock + layer.backward
        spans.append(Span(rank, "backward", layer.name, clock, end, (layer.name,)))
        clock = ready[layer.name] = end
    free = 0.0 if overlap else clock
    for number, bucket in enumerate(packed):
        start = max(free, *(ready[layer.name] for layer in bucket))
        free = start + link.seconds(sum(layer.bytes for layer in bucket))
        carried = tuple(layer.name for layer in bucket)
        spans.append(Span(rank, "all_reduce", f"bucket {number}", start, free, carried))
    return tuple(spans)


def with_layers(spans: Iterable[Span], packed: Sequence[Sequence[Layer]]) -> tuple[Span, ...]:
    """Return measured backwards and all-reduces with their layers; "bucket n" carries packed[n]."""
    carried = {
        f"bucket {number}": tuple(layer.name for layer in bucket)
        for number, bucket in enumerate(packed)
    }
    return tuple(
        replace(span, layers=carried[span.name] if span.kind == "all_reduce" else (span.name,))
        for span in spans
    )


def whole_step(spans: Sequence[Span], forward: float, step: float) -> tuple[Span, ...]:
    """Add the seconds of a forward before one rank's backward, and of the optimizer after the last.

    The optimizer waits for every gradient's all-reduce.
    """
    rank, end = spans[0].rank, forward + max(span.end for span in spans)
    later = (replace(s, start=s.start + forward, end=s.end + forward) for s in spans)
    first, last = (
        Span(rank, "forward", "forward", 0.0, forward),
        Span(rank, "step", "step", end, end + step),
    )
    return (first, *later, last)


def packing(
    way: str, layers: Sequence[Layer], cap: int, first_cap: int | None = None
) -> tuple[tuple[Layer, ...], ...]:
    """Pack layers as a way of WAYS does. Raises ValueError for another."""
    if way not in WAYS:
        raise ValueError(f"no way {way!r} to communicate: choose one of {', '.join(WAYS)}")
    if way == "naive":
        return per_tensor(layers)
    return flat(layers) if way == "flat" else buckets(layers, cap, first_cap)


def per_tensor(layers: Sequence[Layer]) -> tuple[tuple[Layer, ...], ...]:
    """Pack as a naive loop does: one all-reduce for each layer."""
    return tuple((layer,) for layer in layers)


def flat(layers: Sequence[Layer]) -> tuple[tuple[Layer, ...], ...]:
    """Pack everything into one all-reduce, as DDP does in its first iteration."""
    return (tuple(layers),)


def variants(
    layers: Sequence[Layer], cap: int, link: Link, first_cap: int | None = None
) -> dict[str, tuple[Span, ...]]:
    """Return the spans of the four ways to communicate: naive, flat, bucketed, overlapped."""
    return {
        way: model(layers, packing(way, layers, cap, first_cap), link, overlap=way == "overlapped")
        for way in WAYS
    }


def order(spans: Iterable[Span], rank: int) -> tuple[str, ...]:
    """Return the names of a rank's spans by start time: the order in which things began."""
    own = (span for span in spans if span.rank == rank)
    return tuple(span.name for span in sorted(own, key=lambda span: (span.start, span.end)))


def covered(spans: Iterable[Span], kind: str, rank: int) -> float:
    """Return the seconds in which a rank had at least one span of a kind open."""
    return sum(end - start for start, end in _union(spans, kind, rank))


def hidden_seconds(spans: Sequence[Span], rank: int) -> float:
    """Return the seconds in which a rank's all-reduce and backward ran at the same time."""
    return sum(
        max(0.0, min(end, other_end) - max(start, other_start))
        for start, end in _union(spans, "all_reduce", rank)
        for other_start, other_end in _union(spans, "backward", rank)
    )


def hidden_fraction(spans: Sequence[Span], rank: int) -> float:
    """Return the share of a rank's all-reduce time that ran under backward; 0 if there is none."""
    communication = covered(spans, "all_reduce", rank)
    return hidden_seconds(spans, rank) / communication if communication else 0.0


def length(spans: Sequence[Span]) -> float:
    """Return the seconds from the first start to the last end, over all ranks."""
    if not spans:
        return 0.0
    return max(span.end for span in spans) - min(span.start for span in spans)


def _union(spans: Iterable[Span], kind: str, rank: int) -> list[tuple[float, float]]:
    """Merge a rank's spans of a kind into intervals that do not touch."""
    merged: list[tuple[float, float]] = []
    for span in sorted((s for s in spans if (s.kind, s.rank) == (kind, rank)), key=_start):
        if merged and span.start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], span.end))
        else:
            merged.append((span.start, span.end))
    return merged


def _start(span: Span) -> float:
    return span.start
