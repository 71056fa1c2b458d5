"""Plain data to accessible inline SVG: draws, never computes.

Every figure has a title and a description and stays readable in a column of 350 px. No meaning
hangs on colour alone. The same data always gives the same text.
"""

from collections.abc import Sequence

from distlab.collectives import Buffers, Tile
from distlab.ring import Send, State
from distlab.svg import Drawing, Rect
from distlab.timeline import KINDS, Span

WIDTH = 352  # units of a full-width figure; a unit is about a pixel on a phone
LABELS = 62  # ... of which the row labels take so many
ROW = 20  # height of a cell, a lane, a bar
PITCH = 26  # from one rank's row to the next
VERBS = {"reduce_scatter": "add", "all_gather": "copy"}  # what the receiver does with a chunk


def collective(tile: Tile) -> str:
    """Draw one collective on its ranks: buffers before, an arrow, buffers after."""
    if tile.arrivals:
        return _barrier(tile)
    cell = 24 if max(map(len, (*tile.before, *tile.after))) > 1 else 40
    right = 50 + max(map(len, tile.before)) * cell + 34
    height = 24 + PITCH * len(tile.before)
    drawing = Drawing()
    drawing.text(50, 14, "before")
    drawing.text(right, 14, "after")
    _rank_labels(drawing, len(tile.before))
    _buffers(drawing, tile.before, 50, cell)
    _buffers(drawing, tile.after, right, cell)
    drawing.arrow(right - 27, right - 8, height / 2 + 9)
    return drawing.figure(
        f"{tile.name} on {len(tile.before)} ranks",
        f"{tile.sentence} Before: {_words(tile.before)}. After: {_words(tile.after)}.",
        right + max(34, max(map(len, tile.after)) * cell + 2),
        height,
    )


def ring(states: Sequence[State[frozenset[int]]], steps: Sequence[Sequence[Send]]) -> str:
    """Draw what every rank holds at the start and after each step, one small table for each.

    `states` are those of `ring.states` over `ring.contributors`, `steps` those of `ring.steps`.
    """
    world_size, drawing = len(states[0]), Drawing()
    width, height = 38 + 20 * world_size, 44 + 17 * world_size
    across = max(1, WIDTH // width)
    for number, state in enumerate(states):
        corner = (number % across * width, number // across * height)
        _ring_panel(drawing, number, state, steps[number - 1] if number else (), corner)
    legend = -(-len(states) // across) * height + 14
    drawing.text(0, legend, "Rows: ranks. Columns: chunks.")
    drawing.text(0, legend + 16, "Number: how many ranks are summed in the chunk.")
    drawing.text(0, legend + 32, "Thick frame: it arrived in this step.")
    description = "; ".join(_ring_words(number, step) for number, step in enumerate(steps, 1))
    title = f"Ring with {world_size} ranks, step by step"
    return drawing.figure(title, f"{description}.", WIDTH, legend + 38)


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


def bars(title: str, rows: Sequence[tuple[str, Sequence[tuple[str, float]]]], unit: str) -> str:
    """Draw one stacked bar per row; each part is numbered, and the numbers are explained below.

    `rows` are (label, ((part, value), ...)); every row has the same parts in the same order.
    """
    drawing = Drawing()
    longest = max(sum(value for _, value in parts) for _, parts in rows) or 1.0
    scale = (WIDTH - LABELS - 64) / longest
    for row, (label, parts) in enumerate(rows):
        top, left = 4 + 28 * row, float(LABELS)
        drawing.text(0, top + 15, label)
        for part, (_, value) in enumerate(parts):
            drawing.box(Rect(left, top, value * scale, ROW), part, str(part + 1))
            left += value * scale
        drawing.text(left + 5, top + 15, f"{sum(value for _, value in parts):.3g} {unit}")
    below = 18 + 28 * len(rows)
    for part, (name, _) in enumerate(rows[0][1]):
        drawing.text(LABELS, below + 16 * part, f"{part + 1}  {name}")
    described = (
        f"{label}: " + ", ".join(f"{name} {value:.3g} {unit}" for name, value in parts)
        for label, parts in rows
    )
    height = below + 16 * len(rows[0][1])
    return drawing.figure(title, "; ".join(described) + ".", WIDTH, height)


def milliseconds(seconds: float) -> str:
    """Write a time with three significant digits."""
    return f"{seconds * 1e3:.3g} ms"


def _rank_labels(drawing: Drawing, count: int) -> None:
    for rank in range(count):
        drawing.text(0, 38 + PITCH * rank, f"rank {rank}")


def _buffers(drawing: Drawing, buffers: Buffers, left: float, cell: float) -> None:
    for rank, buffer in enumerate(buffers):
        for column, piece in enumerate(buffer):
            rect = Rect(left + cell * column, 24 + PITCH * rank, cell, ROW)
            _stripes(drawing, piece.ranks, len(piece.ranks), rect)
            drawing.frame(rect)
            drawing.text(rect.x + cell / 2, rect.y + 14.5, piece.label, "middle")


def _stripes(drawing: Drawing, ranks: Sequence[int], places: int, rect: Rect) -> None:
    """Tint a cell with the colours of the ranks in it, side by side."""
    for rank in ranks:
        wide = rect.width / places
        drawing.tint(rect._replace(x=rect.x + wide * (rank % places), width=wide), rank)


def _barrier(tile: Tile) -> str:
    drawing, leave = Drawing(), 50 + max(tile.arrivals) * 170
    height = 24 + PITCH * len(tile.arrivals)
    drawing.text(50, 14, "works")
    drawing.text(leave + 4, 14, "all leave")
    drawing.line((leave, 20), (leave, height), dashed=False)
    _rank_labels(drawing, len(tile.arrivals))
    for rank, arrival in enumerate(tile.arrivals):
        top, end = 24 + PITCH * rank, 50 + arrival * 170
        drawing.box(Rect(50, top, end - 50, ROW), rank)
        drawing.line((end, top + 10), (leave, top + 10), dashed=True)
        if leave - end > 40:
            drawing.text((end + leave) / 2, top + 7, "waits", "middle")
    order = sorted(range(len(tile.arrivals)), key=tile.arrivals.__getitem__)
    arrived = ", ".join(f"rank {rank}" for rank in order)
    return drawing.figure(
        f"{tile.name} on {len(tile.arrivals)} ranks",
        f"{tile.sentence} They arrive in the order {arrived}, and leave together.",
        leave + 58,
        height,
    )


def _ring_panel(
    drawing: Drawing,
    number: int,
    state: State[frozenset[int]],
    sends: Sequence[Send],
    corner: tuple[float, float],
) -> None:
    left, top = corner[0] + 24, corner[1] + 34
    arrived = {(send.dst, send.chunk) for send in sends}
    drawing.text(left, top - 20, f"{number}: {VERBS[sends[0].phase]}" if sends else "start")
    for rank, chunks in enumerate(state):
        drawing.text(left - 4, top + 17 * rank + 13, f"r{rank}", "end")
        drawing.text(left + 20 * rank + 10, top - 4, f"c{rank}", "middle", size=10)
        for chunk, ranks in enumerate(chunks):
            cell = Rect(left + 20 * chunk, top + 17 * rank, 20, 17)
            _stripes(drawing, sorted(ranks), len(state), cell)
            drawing.frame(cell, 2.5 if (rank, chunk) in arrived else 0.8)
            drawing.text(cell.x + 10, cell.y + 13, str(len(ranks)), "middle")


def _words(buffers: Buffers) -> str:
    return ", ".join(
        f"rank {rank} {' '.join(piece.label for piece in buffer) or 'nothing'}"
        for rank, buffer in enumerate(buffers)
    )


def _ring_words(number: int, sends: Sequence[Send]) -> str:
    moves = ", ".join(f"rank {s.src} sends chunk {s.chunk} to rank {s.dst}" for s in sends)
    return f"step {number}, {VERBS[sends[0].phase]}: {moves}"


def _timeline_words(spans: Sequence[Span], origin: float) -> str:
    """Say for each rank and kind how many spans there are, from when to when."""
    said = []
    for rank, place in sorted({(span.rank, KINDS.index(span.kind)) for span in spans}):
        own = [s for s in spans if (s.rank, s.kind) == (rank, KINDS[place])]
        start = milliseconds(min(span.start for span in own) - origin)
        end = milliseconds(max(span.end for span in own) - origin)
        said.append(f"rank {rank}: {len(own)} {KINDS[place]} from {start} to {end}")
    return "; ".join(said) + "." if said else "Nothing happened."
