"""Spans on a time axis: two lanes for each rank, what it computed and what it sent.

A layer keeps its colour: its backward and the all-reduce that carries its gradients have it both.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from distlab.plots.looks import LABELS, ROW, WIDTH, milliseconds
from distlab.svg import CHARACTER, Drawing, Rect
from distlab.timeline import KINDS, Span

LANE = 46  # where the lanes of a comparison start
TITLE = 17  # height of a lane's title


def timeline(title: str, spans: Sequence[Span], length: float | None = None) -> str:
    """Draw two lanes per rank: what it computed above, what it sent below.

    `length` in seconds fixes the scale, so that figures can be compared. No span: no lanes.
    """
    origin = min((span.start for span in spans), default=0.0)
    end = max((span.end for span in spans), default=origin)
    scale = (WIDTH - LABELS - 4) / (length or (end - origin) or 1.0)
    drawing, top, colours = Drawing(), 6, _colours(spans)
    for rank in sorted({span.rank for span in spans}):
        drawing.text(0, top + 14, f"rank {rank}")
        drawing.text(0, top + ROW + 14, "network")
        for span in (span for span in spans if span.rank == rank):
            lane = top + ROW * (span.kind == "all_reduce")
            left = LABELS + (span.start - origin) * scale
            _bar(drawing, Rect(left, lane, max(span.seconds * scale, 0.5), ROW - 2), span, colours)
        top += 2 * ROW + 8
    finish = LABELS + (end - origin) * scale
    drawing.line((finish, 6), (finish, top), dashed=True)
    side = "end" if finish > WIDTH / 2 else "start"
    drawing.text(finish, top + 12, f"ends at {milliseconds(end - origin)}", side)
    return drawing.figure(title, _timeline_words(spans, origin), WIDTH, top + 18)


def compared(title: str, ways: Mapping[str, Sequence[Span]]) -> str:
    """Draw steps of one rank below each other on one time axis, which starts at 0."""
    longest = max(span.end for spans in ways.values() for span in spans)
    scale = (WIDTH - LANE - 2) / longest
    drawing, top = Drawing(), 0
    for way, spans in ways.items():
        finish = LANE + max(span.end for span in spans) * scale
        drawing.text(0, top + 12, way)
        drawing.text(finish, top + 12, milliseconds(max(span.end for span in spans)), "end")
        top += TITLE
        drawing.text(0, top + 13, "compute", size=10)
        drawing.text(0, top + ROW + 13, "network", size=10)
        colours = _colours(spans)
        for span in spans:
            lane = top + ROW * (span.kind == "all_reduce")
            _bar(
                drawing,
                Rect(LANE + span.start * scale, lane, span.seconds * scale, ROW - 2),
                span,
                colours,
            )
        _waiting(drawing, spans, top, scale)
        drawing.line((finish, top - 2), (finish, top + 2 * ROW), dashed=True)
        top += 2 * ROW + 9
    _axis(drawing, top - 3, longest, scale)
    words = " ".join(f"{way}: {_timeline_words(spans, 0.0)}" for way, spans in ways.items())
    return drawing.figure(title, words, WIDTH, top + 14)


def _bar(drawing: Drawing, rect: Rect, span: Span, colours: Mapping[str, int]) -> None:
    """Draw a span with the colours of its layers side by side, each named if its name fits."""
    alone, wide = len(span.layers) == 1, rect.width / max(len(span.layers), 1)
    for place, layer in enumerate(span.layers):
        part = rect._replace(x=rect.x + wide * place, width=wide)
        drawing.tint(part, colours[layer], framed=alone)
        _name(drawing, part, layer.split()[-1])
    if not span.layers:
        _name(drawing, rect, span.name, size=10)
    if not alone:  # one frame around what travels together
        drawing.frame(rect)


def _name(drawing: Drawing, rect: Rect, name: str, size: float = 12) -> None:
    if rect.width >= len(name) * CHARACTER * size / 12 - 2:
        drawing.text(
            rect.x + rect.width / 2, rect.y + rect.height / 2 + 4.5, name, "middle", size=size
        )


def _waiting(drawing: Drawing, spans: Sequence[Span], top: float, scale: float) -> None:
    """Mark where the computing lane is idle."""
    computed = sorted((s for s in spans if s.kind != "all_reduce"), key=lambda span: span.start)
    for before, after in pairwise(computed):
        if (after.start - before.end) * scale > 30:
            start, end, middle = (
                LANE + before.end * scale,
                LANE + after.start * scale,
                top + ROW / 2 - 1,
            )
            drawing.line((start + 2, middle), (end - 2, middle), dashed=True)
            drawing.text((start + end) / 2, middle - 2, "waits", "middle", size=10)


def _axis(drawing: Drawing, top: float, longest: float, scale: float) -> None:
    """Draw the axis of time with a mark at each multiple of 50 ms."""
    drawing.line((LANE, top), (LANE + longest * scale, top), dashed=False)
    for mark in range(0, int(longest * 1e3) + 1, 50):
        x = LANE + mark * scale / 1e3
        drawing.line((x, top), (x, top + 4), dashed=False)
        drawing.text(x, top + 15, f"{mark} ms" if mark else "0", "middle", size=10)


def _colours(spans: Sequence[Span]) -> dict[str, int]:
    """Give each layer a colour, in the order in which its backward ran."""
    names = [layer for span in spans if span.kind == "backward" for layer in span.layers]
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _timeline_words(spans: Sequence[Span], origin: float) -> str:
    """Say for each rank and kind how many spans there are, from when to when."""
    said = []
    for rank, place in sorted({(span.rank, KINDS.index(span.kind)) for span in spans}):
        own = [s for s in spans if (s.rank, s.kind) == (rank, KINDS[place])]
        start = milliseconds(min(span.start for span in own) - origin)
        end = milliseconds(max(span.end for span in own) - origin)
        said.append(f"rank {rank}: {len(own)} {KINDS[place]} from {start} to {end}")
    return "; ".join(said) + "." if said else "Nothing happened."
