"""The interactive figures as complete HTML: what is read without JavaScript, controls, and data.

A page's fence prints one: `print(figures.ring_all_reduce())` in ```python exec="on" html="on"```.
Each is a custom element whose module in content/assets/widgets has its name. The element holds
a complete static figure, controls that stay hidden until the module is there, and, as JSON, all
that the module shows: it computes nothing, the calculator excepted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distlab import cost, markup, plots, ring, sampling, timeline
from distlab.markup import Column
from distlab.timeline import Layer, Link, Span

RING_WORLD_SIZES = range(2, 9)
LENGTHS = (3, 8, 9, 10, 11, 12, 13)
SAMPLER_WORLD_SIZES = (2, 3, 4, 8)
EPOCHS = 4
STAGES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")
PRECISIONS = {
    "float32": "all float32",
    "mixed": "bfloat16, with a float32 master copy",
    "bfloat16": "all bfloat16",
}
VERDICTS = {
    "hides": "At {tokens} tokens per rank the all-reduce can hide under backward; "
    "it can down to {even}.",
    "waits": "At {tokens} tokens per rank the all-reduce outlasts backward; it does below {even}.",
}


# ------------------------------------------------------------------------------ ring all-reduce


def ring_all_reduce(world_size: int = 4) -> str:
    """Return the ring all-reduce, step by step, for 2 to 8 ranks; `world_size` is shown first."""
    sends = ring.schedule("all_reduce", world_size)
    start = ring.contributors("all_reduce", world_size)
    static = plots.ring(ring.states(sends, start, ring.join), ring.steps(sends))
    live = (
        '<p role="status"></p>'
        "<p><label>Sent by each rank, in tensors of S bytes "
        '<progress max="2"></progress></label> <span data-sent></span></p>'
        '<div class="wide"><table class="data"></table></div>'
    )
    return markup.figure(
        "ring-all-reduce",
        legend="Ring all-reduce",
        controls=markup.select("ranks", "Ranks", {p: p for p in RING_WORLD_SIZES}, world_size)
        + markup.slider("step", "Step", 0, 2 * (world_size - 1), 0)
        + markup.button("back", "Back")
        + markup.button("next", "Next"),
        live=live,
        summary=f"All steps at once, for {world_size} ranks",
        static=static,
        data={p: _ring_data(p) for p in RING_WORLD_SIZES},
        caption="Ring all-reduce. Each cell is one rank's copy of one chunk; its number says how "
        "many ranks are summed in it. Reduce-scatter adds what arrives, all-gather copies it.",
    )


def _ring_data(world_size: int) -> dict:
    """Return all steps as plain lists; a state is a bit mask of the ranks summed in a chunk."""
    sends = ring.schedule("all_reduce", world_size)
    start = ring.contributors("all_reduce", world_size)
    held = ring.states(sends, start, ring.join)
    by_step = ring.steps(sends)
    sent = [ring.bytes_sent(sends[: world_size * n], [1] * world_size)[0] for n in range(len(held))]
    return {
        "phases": [step[0].phase for step in by_step],
        "sends": [[(send.src, send.dst, send.chunk) for send in step] for step in by_step],
        "states": [[[sum(1 << r for r in c) for c in rank] for rank in state] for state in held],
        "sent": [chunks / world_size for chunks in sent],
        "words": [f"{chunks}/{world_size}" for chunks in sent],
        "total": float(ring.ring_bytes("all_reduce", world_size, 1)),
    }


# -------------------------------------------------------------------------------- DDP's timeline


@dataclass(frozen=True)
class TimelineCase:
    """One choice of the reader's: spans of all ranks for each way to communicate.

    `source` says where the spans come from ("measured", "model"), `bucket` and `link` are what
    the reader chooses, in words.
    """

    source: str
    bucket: str
    link: str
    ways: Mapping[str, Sequence[Span]]


def model_cases(
    layers: Sequence[Layer], caps: Mapping[str, int], links: Mapping[str, Link]
) -> tuple[TimelineCase, ...]:
    """Return the model's cases for every named bucket cap (bytes) and link.

    `layers` are in the order of backward.
    """
    return tuple(
        TimelineCase("model", bucket, name, timeline.variants(layers, cap, link))
        for bucket, cap in caps.items()
        for name, link in links.items()
    )


def ddp_timeline(
    cases: Sequence[TimelineCase], ways: Sequence[str] = ("naive", "overlapped")
) -> str:
    """Return timelines of one step, to choose by source, bucket size and link.

    `ways` are drawn, in this order; the table of the static figure has all that a case has.
    Raises ValueError if there is no case.
    """
    if not cases:
        raise ValueError("no case to draw: pass at least one TimelineCase")
    choices = {name: list(dict.fromkeys(getattr(case, name) for case in cases)) for name in CHOICES}
    return markup.figure(
        "ddp-timeline",
        legend="Backward and all-reduce",
        controls="".join(
            markup.select(name, label, dict(enumerate(choices[name])), 0)
            for name, label in CHOICES.items()
        ),
        live='<p role="status"></p><div data-drawing></div>',
        summary="All cases in numbers",
        static=_drawn(cases[0], ways) + _timeline_table(cases),
        data=[
            {name: choices[name].index(getattr(case, name)) for name in CHOICES}
            | {"words": _timeline_words(case, ways), "drawing": _drawn(case, ways)}
            for case in cases
        ],
        caption="One backward on every rank, its all-reduces below it. In the overlapped way a "
        "bucket leaves as soon as its last gradient is there and the network is free.",
    )


CHOICES = {"source": "Times", "bucket": "Bucket cap", "link": "Network"}


def _drawn(case: TimelineCase, ways: Sequence[str]) -> str:
    longest = max(timeline.length(case.ways[way]) for way in ways)
    about = f"{case.source}, buckets of {case.bucket}, {case.link}"
    return "".join(
        f"<p><strong>{way}</strong></p>"
        + plots.timeline(f"{way}: {about}", case.ways[way], longest)
        for way in ways
    )


def _timeline_words(case: TimelineCase, ways: Sequence[str]) -> str:
    said = (f"{way} {plots.milliseconds(timeline.length(case.ways[way]))}" for way in ways)
    hidden = timeline.hidden_fraction(case.ways[ways[-1]], rank=0)
    return f"{', '.join(said)}; {ways[-1]} hides {hidden:.0%} of rank 0's all-reduce time."


def _timeline_table(cases: Sequence[TimelineCase]) -> str:
    rows = [
        (
            case.source,
            case.bucket,
            case.link,
            way,
            sum(span.kind == "all_reduce" and span.rank == 0 for span in spans),
            plots.milliseconds(timeline.length(spans)),
            f"{timeline.hidden_fraction(spans, rank=0):.0%}",
        )
        for case in cases
        for way, spans in case.ways.items()
    ]
    head = [*CHOICES.values(), "Way", "All-reduces", "Step", "Hidden"]
    return markup.table([Column(name, number=name in head[4:]) for name in head], rows)


# ---------------------------------------------------------------------------- scaling calculator


def scaling_calculator(case: cost.Case | None = None) -> str:
    """Return the calculator, filled in for `case` (by default module 26's worked example)."""
    case = case or cost.Case()
    return markup.figure(
        "scaling-calculator",
        legend="What one step costs",
        controls=_scaling_controls(case),
        live='<p role="alert"></p>',
        static=_scaling_times(case) + _scaling_memory(case),
        data={
            "dtype_bytes": cost.DTYPE_BYTES,
            "optimizer_states": cost.OPTIMIZER_STATES,
            "precisions": cost.PRECISIONS,
            "sharded_from": cost.SHARDED_FROM,
            "all_reduce_phases": cost.PHASES["all_reduce"],
            "flops": {"forward": cost.FORWARD_FLOPS, "backward": cost.BACKWARD_FLOPS},
            "verdicts": VERDICTS,
        },
        caption="A model of bandwidth and arithmetic: no latency, perfect overlap at best, no "
        "activations in the memory. Times are per step and rank; the address bar keeps your case.",
    )


def _scaling_controls(case: cost.Case) -> str:
    same = {name: name for name in cost.OPTIMIZER_STATES}
    return (
        markup.quantity("parameters", "Parameters (billions)", case.parameters / 1e9)
        + markup.select("precision", "Weights and gradients", PRECISIONS, case.precision)
        + markup.select("optimizer", "Optimizer", same, case.optimizer)
        + markup.quantity("world_size", "Ranks", case.world_size, step="1")
        + markup.quantity("bus_bandwidth", "Bus bandwidth (GB/s)", case.bus_bandwidth / 1e9)
        + markup.quantity("flops", "Achieved per rank (TFLOP/s)", case.flops / 1e12)
        + markup.quantity("tokens", "Tokens per rank and step", case.tokens)
        + markup.checkbox("bucket_copy", "Count DDP's buckets (gradient_as_bucket_view=False)")
    )


def _scaling_times(case: cost.Case) -> str:
    times, even = cost.times(case), cost.break_even_tokens(case)
    rows = {
        "gradients": (
            "Gradients to all-reduce, S",
            _gb(case.gradient_bytes),
        ),
        "communication": ("All-reduce, 2(p-1)/p · S / bandwidth", _ms(times.communication)),
        "forward": ("Forward, 2PT FLOPs", _ms(times.forward)),
        "backward": ("Backward, 4PT FLOPs", _ms(times.backward)),
        "ratio": ("All-reduce / compute", _percent(times.communication / times.compute)),
        "hidden": ("Hidden under backward, at best", _percent(times.hidden_fraction)),
        "exposed": ("All-reduce left to wait for", _ms(times.exposed)),
        "overlapped": ("Step with overlap, at best", _ms(times.overlapped_step)),
        "naive": ("Step without overlap", _ms(times.naive_step)),
        "even": ("Break-even, tokens per rank", markup.three(even)),
    }
    verdict = VERDICTS["hides" if case.tokens >= even else "waits"].format(
        tokens=markup.plain(case.tokens), even=markup.three(even)
    )
    columns = [Column("One step of one rank"), Column("Value", number=True)]
    cells = [(label, markup.named(name, value)) for name, (label, value) in rows.items()]
    return f'<p role="status" style="{markup.SMALL}">{verdict}</p>' + markup.table(columns, cells)


def _scaling_memory(case: cost.Case) -> str:
    items = cost.memory(case)
    rows = [
        (item.name, item.bytes_per_parameter, *(_gb(stage) for stage in item.per_rank))
        for item in items
    ]
    total = ("total", cost.bytes_per_parameter(items), *map(_gb, cost.per_rank(items)))
    columns = [Column("Memory of one rank"), Column("Bytes / parameter", number=True)]
    columns += [Column(stage, number=True) for stage in STAGES]
    return markup.table(columns, [*rows, total], mark="memory")


def _ms(seconds: float) -> str:
    return f"{markup.three(seconds * 1e3)}{markup.NBSP}ms"


def _gb(size: float) -> str:
    return f"{markup.three(size / 1e9)}{markup.NBSP}GB"


def _percent(share: float) -> str:
    return f"{markup.three(share * 100)}{markup.NBSP}%"


# --------------------------------------------------------------------------- DistributedSampler


def distributed_sampler(length: int = 10, world_size: int = 3) -> str:
    """Return who gets which index, for a grid of lengths and ranks; needs torch.

    `length` and `world_size` are shown first; both must be in the grid, else ValueError.
    """
    if length not in LENGTHS or world_size not in SAMPLER_WORLD_SIZES:
        raise ValueError(
            f"length {length} on {world_size} ranks is not in the figure's grid: choose a length "
            f"of {LENGTHS} and a world size of {SAMPLER_WORLD_SIZES}"
        )
    shown = sampling.epochs(sampling.Sharding(length, world_size), 2)
    return markup.figure(
        "distributed-sampler",
        legend="DistributedSampler",
        controls=markup.select("examples", "Examples", {n: n for n in LENGTHS}, length)
        + markup.select("ranks", "Ranks", {p: p for p in SAMPLER_WORLD_SIZES}, world_size)
        + markup.slider("epoch", "Epoch", 0, EPOCHS - 1, 0)
        + markup.checkbox("drop_last", "drop_last=True")
        + markup.checkbox("set_epoch", "set_epoch(epoch) is called", checked=True),
        live='<p role="status"></p><div class="wide"><table class="data"></table></div>',
        summary=f"{length} examples on {world_size} ranks, two epochs",
        static="".join(map(_epoch_table, shown)),
        data={
            str(drop): {n: {p: _shards(n, p, drop) for p in SAMPLER_WORLD_SIZES} for n in LENGTHS}
            for drop in (False, True)
        },
        caption="What torch's DistributedSampler(shuffle=True, seed=0) gives to each rank. An "
        "index marked “again” only pads the ranks to equal counts.",
    )


def _shards(length: int, world_size: int, drop_last: bool) -> dict:
    """Return each epoch's indices per rank; a repeat r is written ~r. `stale`: no set_epoch."""
    sharding = sampling.Sharding(length, world_size, drop_last=drop_last)
    fresh, stale = (
        [
            [[~slot.index if slot.repeat else slot.index for slot in rank] for rank in epoch.ranks]
            for epoch in sampling.epochs(sharding, EPOCHS, set_epoch=called)
        ]
        for called in (True, False)
    )
    # Without set_epoch an order is one of those with it; say which, measured, not assumed.
    dropped = [epoch.dropped for epoch in sampling.epochs(sharding, EPOCHS)]
    return {"epochs": fresh, "stale": [fresh.index(order) for order in stale], "dropped": dropped}


def _epoch_table(epoch: sampling.Epoch) -> str:
    turns = max(map(len, epoch.ranks))
    columns = [Column(f"Epoch {epoch.epoch}")]
    columns += [Column(f"turn {turn}", number=True) for turn in range(turns)]
    rows = [
        (f"rank {rank}", *(f"{s.index} again" if s.repeat else s.index for s in slots))
        for rank, slots in enumerate(epoch.ranks)
    ]
    return markup.table(columns, rows)
