"""What one step of data parallelism costs in time and memory."""

from distlab import cost
from distlab.figures import markup
from distlab.figures.markup import Column

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
