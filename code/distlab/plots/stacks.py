"""Stacked bars."""

from collections.abc import Sequence

from distlab.plots.looks import LABELS, ROW, WIDTH
from distlab.svg import Drawing, Rect


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
