"""Pictures without controls: where ranks are, how they meet, what one step looks like in time."""

from collections.abc import Mapping, Sequence

from distlab import plots, rendezvous, timeline
from distlab.figures import markup

FORWARD, OPTIMIZER = 0.03, 0.02  # seconds around the backward of a pictured step


def world(per_node: int = 4, local: int = 1) -> str:
    """Return two nodes with their ranks, the world outlined, and the group of one local rank."""
    nodes = [range(first, first + per_node) for first in (0, per_node)]
    group = [ranks[local] for ranks in nodes]
    caption = (
        f"Two nodes with {per_node} ranks each. Rank {group[1]} is 1 · {per_node} + {local}: local "
        f"rank {local} of node 1. The solid outline is the world. The dashed one is a group of "
        f"ranks {group[0]} and {group[1]}, which are 0 and 1 in it. A coloured square is the "
        "part of the batch that a rank works on."
    )
    return markup.picture(plots.world([list(ranks) for ranks in nodes], group), caption)


def meeting(world_size: int = 4, late: int = 1) -> str:
    """Return a rendezvous in three moments, to which one rank comes late."""
    caption = (
        f"{world_size} ranks meet at a store. A coloured square is the address of a rank. "
        f"Rank {late} is late: nobody has all addresses before it has published its own."
    )
    moments = rendezvous.moments(world_size, late)
    return markup.picture(plots.rendezvous(moments), caption)


def one_step(ways: Mapping[str, Sequence[timeline.Span]]) -> str:
    """Return whole steps on one time axis, for backwards and all-reduces of one rank in ways."""
    steps = {way: timeline.whole_step(spans, FORWARD, OPTIMIZER) for way, spans in ways.items()}
    spans = next(iter(steps.values()))
    backward = next(span for span in spans if span.kind == "backward")
    sent = next(span for span in spans if span.kind == "all_reduce")
    caption = (
        "One step of one rank; every rank does the same at the same time. A layer keeps its "
        "number and colour: first its backward, later the all-reduce of its gradient. The times "
        f"are a model's: {plots.milliseconds(backward.seconds)} for the backward of a layer, "
        f"{plots.milliseconds(sent.seconds)} for an all-reduce of its gradient alone."
    )
    return markup.picture(plots.compared("One training step in time", steps), caption)
