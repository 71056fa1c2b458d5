"""A collective as a tile: what each rank has before and after."""

from distlab.collectives import Buffers, Tile
from distlab.plots.looks import PITCH, ROW, cell, rank_labels
from distlab.svg import Drawing, Rect


def collective(tile: Tile) -> str:
    """Draw one collective on its ranks: buffers before, an arrow, buffers after."""
    if tile.arrivals:
        return _barrier(tile)
    wide = 24 if max(map(len, (*tile.before, *tile.after))) > 1 else 40
    right = 50 + max(map(len, tile.before)) * wide + 34
    height = 24 + PITCH * len(tile.before)
    drawing = Drawing()
    drawing.text(50, 14, "before")
    drawing.text(right, 14, "after")
    rank_labels(drawing, len(tile.before))
    _buffers(drawing, tile, tile.before, 50, wide)
    _buffers(drawing, tile, tile.after, right, wide)
    drawing.arrow(right - 27, right - 8, height / 2 + 9)
    return drawing.figure(
        f"{tile.name} on {len(tile.before)} ranks",
        f"{tile.sentence} Before: {_words(tile.before)}. After: {_words(tile.after)}.",
        right + max(34, max(map(len, tile.after)) * wide + 2),
        height,
    )


def _buffers(drawing: Drawing, tile: Tile, buffers: Buffers, left: float, wide: float) -> None:
    complete = max(len(piece.ranks) for buffer in tile.after for piece in buffer)
    for rank, buffer in enumerate(buffers):
        for column, piece in enumerate(buffer):
            rect = Rect(left + wide * column, 24 + PITCH * rank, wide, ROW)
            if piece.chunk is None:
                cell(drawing, rect, piece.ranks, words=piece.label)
            else:
                share = len(piece.ranks) / complete
                cell(drawing, rect, [piece.chunk], share, words=piece.label)


def _barrier(tile: Tile) -> str:
    drawing, leave = Drawing(), 50 + max(tile.arrivals) * 170
    height = 24 + PITCH * len(tile.arrivals)
    drawing.text(50, 14, "works")
    drawing.text(leave + 4, 14, "all leave")
    drawing.line((leave, 20), (leave, height), dashed=False)
    rank_labels(drawing, len(tile.arrivals))
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


def _words(buffers: Buffers) -> str:
    return ", ".join(
        f"rank {rank} {' '.join(piece.label for piece in buffer) or 'nothing'}"
        for rank, buffer in enumerate(buffers)
    )
