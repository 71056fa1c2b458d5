"""Ring all-reduce, one step at a time."""

from collections.abc import Sequence
from html import escape

from distlab import plots, ring
from distlab.figures import markup
from distlab.plots import rings

WORLD_SIZES = range(2, 9)
WIDEST = "21rem"  # of the ring beside its table
HOME_MOMENT = 2  # steps done in the home page's picture: its cells are partly and nearly full


def home_ring() -> str:
    """Return four ranks in a ring in the middle of an all-reduce, as one picture with a caption."""
    states, steps = _all_reduce(4)
    caption = (
        f"A ring all-reduce on four ranks, step {HOME_MOMENT + 1} of {len(steps)}. Each rank sends "
        "one chunk to the next, which adds it to its own. A cell fills as ranks are summed in it."
    )
    return (
        f'<figure class="figure">{plots.ring_moment(states, steps, HOME_MOMENT)}'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def ring_all_reduce(world_size: int = 4) -> str:
    """Return the ring all-reduce, step by step, for 2 to 8 ranks; `world_size` is shown first."""
    live = (
        f'<p role="status"></p><div style="{markup.ROW};align-items:center">'
        f'<svg role="img" style="flex:1 1 15rem;max-width:{WIDEST}"></svg>'
        '<div class="wide" style="margin:0"><table class="data"></table></div></div>'
        "<p><label>Sent by each rank, in tensors of S bytes "
        '<progress max="2"></progress></label> <span data-sent></span></p>'
    )
    return markup.figure(
        "ring-all-reduce",
        legend="Ring all-reduce",
        controls=markup.select("ranks", "Ranks", {p: p for p in WORLD_SIZES}, world_size)
        + markup.slider("step", "Step", 0, 2 * (world_size - 1), 0)
        + markup.button("back", "Back")
        + markup.button("next", "Next"),
        live=live,
        summary=f"All steps at once, for {world_size} ranks",
        static=plots.ring(*_all_reduce(world_size)),
        data={p: _ring_data(p) for p in WORLD_SIZES},
        caption="Ring all-reduce. Each rank has a row of chunks, c0 first. A chunk keeps its "
        "colour and fills as ranks are summed in it; the number in the table says how many. A "
        "thick frame: it has just arrived. An arrow: it goes to the next rank now. "
        "Reduce-scatter adds what arrives, all-gather copies it. The arrow keys step, too.",
    )


def _all_reduce(
    world_size: int,
) -> tuple[tuple[ring.State[frozenset[int]], ...], tuple[tuple[ring.Send, ...], ...]]:
    """Return what every rank holds at the start and after each step, and the steps."""
    sends = ring.schedule("all_reduce", world_size)
    start = ring.contributors("all_reduce", world_size)
    return ring.states(sends, start, ring.join), ring.steps(sends)


def _ring_data(world_size: int) -> dict:
    """Return all steps as plain lists; a state is a bit mask of the ranks summed in a chunk."""
    held, by_step = _all_reduce(world_size)
    sends = [send for step in by_step for send in step]
    sent = [ring.bytes_sent(sends[: world_size * n], [1] * world_size)[0] for n in range(len(held))]
    return {
        "phases": [step[0].phase for step in by_step],
        "sends": [[(send.src, send.dst, send.chunk) for send in step] for step in by_step],
        "states": [[[sum(1 << r for r in c) for c in rank] for rank in state] for state in held],
        "sent": [chunks / world_size for chunks in sent],
        "words": [f"{chunks}/{world_size}" for chunks in sent],
        "total": float(ring.ring_bytes("all_reduce", world_size, 1)),
        "drawing": _drawing(world_size),
    }


def _drawing(world_size: int) -> dict:
    """Return where the module draws the ring, as `plots.ring_moment` does: rows, names, paths."""
    size = rings.large(world_size)
    parts = rings.layout(world_size, size)
    return {
        "size": (size.width, size.height),
        "centre": parts.centre,
        "row": size.row,
        "thick": rings.thick(parts),
        "token": size.token,
        "rows": [_point(row) for row in parts.rows],
        "labels": [_point(label) for label in parts.labels],
        "tokens": [_point(token) for token in parts.tokens],
        "names": [_point(name) for name in parts.names],
        "shafts": "".join(parts.shafts),
        "heads": "".join(parts.heads),
        "links": "".join(parts.links),
    }


def _point(place: Sequence[float]) -> tuple[float, float]:
    return round(place[0], 1), round(place[1], 1)
