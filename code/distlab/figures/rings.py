"""Ring all-reduce, one step at a time."""

from distlab import plots, ring
from distlab.figures import markup

WORLD_SIZES = range(2, 9)


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
        controls=markup.select("ranks", "Ranks", {p: p for p in WORLD_SIZES}, world_size)
        + markup.slider("step", "Step", 0, 2 * (world_size - 1), 0)
        + markup.button("back", "Back")
        + markup.button("next", "Next"),
        live=live,
        summary=f"All steps at once, for {world_size} ranks",
        static=static,
        data={p: _ring_data(p) for p in WORLD_SIZES},
        caption="Ring all-reduce. Rows are ranks, columns are chunks. A number says how "
        "many ranks are summed in it; a thick frame, that it has just arrived; an arrow, that it "
        "goes to the next rank now. Reduce-scatter adds what arrives, all-gather copies it.",
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
