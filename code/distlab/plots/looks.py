"""What looks the same in every figure: the column's width, cells of data, rows of ranks, times."""

from collections.abc import Sequence

from distlab.svg import THIN, TINT, Drawing, Rect

WIDTH = 352  # units of a full-width figure; a unit is about a pixel on a phone
LABELS = 62  # ... of which the row labels take so many
ROW = 20  # height of a cell, a lane, a bar
PITCH = 26  # from one rank's row to the next
PALE = 0.12  # the tint of what a cell still lacks
SOLID = 0.75  # ... and of what it holds, unless words stand on it


def cell(
    drawing: Drawing,
    rect: Rect,
    colours: Sequence[int],
    filled: float = 1.0,
    *,
    words: str = "",
    thick: float = THIN,
) -> None:
    """Draw a framed cell of data: its colours side by side, filled from below to a share."""
    x, y, width, height = rect
    level, strength = height * filled, TINT if words else SOLID
    for place, colour in enumerate(colours):
        part = Rect(x + width / len(colours) * place, y, width / len(colours), height)
        if filled < 1:
            drawing.tint(part._replace(height=height - level), colour, PALE)
        drawing.tint(part._replace(y=y + height - level, height=level), colour, strength)
    drawing.frame(rect, thick)
    drawing.text(x + width / 2, y + height / 2 + 4.5, words, "middle")


def rank_labels(drawing: Drawing, count: int) -> None:
    """Name the rows of ranks 0 to `count` - 1."""
    for rank in range(count):
        drawing.text(0, 38 + PITCH * rank, f"rank {rank}")


def milliseconds(seconds: float) -> str:
    """Write a time with three significant digits."""
    return f"{seconds * 1e3:.3g} ms"
