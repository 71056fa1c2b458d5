"""Spans on a time axis: two lanes for each rank, what it computed and what it sent."""

from collections.abc import Sequence

from distlab.plots.looks import LABELS, ROW, WIDTH, milliseconds
from distlab.svg import Drawing, Rect
from distlab.timeline import KINDS, Span


def timeline(title: str, spans: Sequence[Span], length: float | None = None) -> str:
    """Draw two lanes per rank: what it computed above, what it sent below.

    `length` in seconds fixes the scale, so that figures can be compared. No span: no lanes.
    """
    origin = min((span.start for span in spans), default=0.0)
    end = max((span.end for span in spans), default=origin)
    scale = (WIDTH - LABELS - 4) / (length or (end - origin) or 1.0)
    drawing, top = Drawing(), 6
    for rank in sorted({span.rank for span in spans}):
        drawing.text(0, top + 14, f"rank {rank}")
        drawing.text(0, top + ROW + 14, "network")
        for span in (span for span in spans if span.rank == rank):
            lane = top + ROW * (span.kind == "all_reduce")
            left = LABELS + (span.start - origin) * scale
            rect = Rect(left, lane, max(span.seconds * scale, 0.5), ROW - 2)
            drawing.box(rect, KINDS.index(span.kind), span.name.split()[-1])
        top += 2 * ROW + 8
    finish = LABELS + (end - origin) * scale
    drawing.line((finish, 6), (finish, top), dashed=True)
    side = "end" if finish > WIDTH / 2 else "start"
    drawing.text(finish, top + 12, f"ends at {milliseconds(end - origin)}", side)
    return drawing.figure(title, _timeline_words(spans, origin), WIDTH, top + 18)


def _timeline_words(spans: Sequence[Span], origin: float) -> str:
    """Say for each rank and kind how many spans there are, from when to when."""
    said = []
    for rank, place in sorted({(span.rank, KINDS.index(span.kind)) for span in spans}):
        own = [s for s in spans if (s.rank, s.kind) == (rank, KINDS[place])]
        start = milliseconds(min(span.start for span in own) - origin)
        end = milliseconds(max(span.end for span in own) - origin)
        said.append(f"rank {rank}: {len(own)} {KINDS[place]} from {start} to {end}")
    return "; ".join(said) + "." if said else "Nothing happened."
