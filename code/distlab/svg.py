"""A drawing of rectangles, lines and words that becomes accessible inline SVG text.

Colours are the theme's `--fig-1` to `--fig-8` and `--fig-ink`, with fallbacks. Fills are tints,
so that ink on them keeps its contrast in light and dark. Shapes of one look share one path,
which keeps a figure of a hundred cells to a few kilobytes.
"""

from collections import defaultdict
from hashlib import sha256
from html import escape
from typing import NamedTuple

INK = "var(--fig-ink, currentColor)"
FALLBACKS = (
    *("#4477aa", "#cc6677", "#228833", "#8866bb"),
    *("#aa3377", "#aa8800", "#3399bb", "#777777"),
)
TEXT_HEIGHT = 12
CHARACTER = 6.6  # a generous width of one character, to know whether a label fits
THIN = 0.8
TINT = 0.4  # the strongest fill on which ink keeps a contrast of 4.5:1 in light and dark
GROWTH = 1.3


class Rect(NamedTuple):
    """A rectangle; y grows downwards."""

    x: float
    y: float
    width: float
    height: float


class Drawing:
    """Collects shapes; `figure` writes them: tints below, then outlines, then words."""

    def __init__(self) -> None:
        self._tints: dict[tuple[int, float], list[str]] = defaultdict(list)
        self._strokes: dict[tuple[float, bool], list[str]] = defaultdict(list)
        self._heads: list[str] = []
        self._words: dict[tuple[str, float], list[str]] = defaultdict(list)

    def tint(self, rect: Rect, colour: int, strength: float = TINT) -> None:
        """Fill a rectangle with a tint of colour 0, 1, 2, ...; eight differ."""
        self._tints[colour % len(FALLBACKS), strength].append(_path(rect))

    def frame(self, rect: Rect, thick: float = THIN) -> None:
        """Draw a rectangle's outline inside it."""
        x, y, width, height = rect
        inner = Rect(
            x + thick / 2, y + thick / 2, max(width - thick, 0.1), max(height - thick, 0.1)
        )
        self._strokes[thick, False].append(_path(inner))

    def box(self, rect: Rect, colour: int, label: str = "") -> None:
        """Draw a tinted, framed rectangle, labelled if the label fits."""
        self.tint(rect, colour)
        self.frame(rect)
        if rect.width >= len(label) * CHARACTER + 2:
            self.text(rect.x + rect.width / 2, rect.y + rect.height / 2 + 4.5, label, "middle")

    def outline(self, rect: Rect, thick: float = THIN, *, dashed: bool = False) -> None:
        """Draw a rectangle with round corners, to hold other shapes together."""
        x, y, width, height = rect
        corner, across, down = 6.0, number(width - 12), number(height - 12)
        turn = [f"a6 6 0 0 1 {way}" for way in ("6 6", "-6 6", "-6-6", "6-6")]
        path = f"M{number(x + corner)} {number(y)}h{across}{turn[0]}v{down}{turn[1]}"
        self._strokes[thick, dashed].append(f"{path}h-{across}{turn[2]}v-{down}{turn[3]}z")

    def stroke(self, path: str, thick: float = THIN) -> None:
        """Draw a line of any form, given as the `d` of an SVG path."""
        self._strokes[thick, False].append(path)

    def head(self, path: str) -> None:
        """Draw the head of an arrow, given as the `d` of an SVG path."""
        self._heads.append(path)

    def line(self, start: tuple[float, float], end: tuple[float, float], dashed: bool) -> None:
        """Draw a line."""
        path = f"M{number(start[0])} {number(start[1])}L{number(end[0])} {number(end[1])}"
        self._strokes[THIN, dashed].append(path)

    def arrow(self, x: float, end: float, y: float) -> None:
        """Draw an arrow to the right, from x to end."""
        self.line((x, y), (end - 4, y), dashed=False)
        self._heads.append(f"M{number(end)} {number(y)}l-6-4v8z")

    def text(
        self, x: float, y: float, words: str, anchor: str = "start", *, size: float = TEXT_HEIGHT
    ) -> None:
        """Write words with their baseline at y; `anchor` is start, middle or end."""
        if words:
            placed = f'<text x="{number(x)}" y="{number(y)}">{escape(words, quote=False)}</text>'
            self._words[anchor, size].append(placed)

    def figure(self, title: str, description: str, width: float, height: float) -> str:
        """Return the drawing as an image that is named, described and scales with its column.

        It stops growing at GROWTH pixels a unit, where its words are as large as the text's.
        The ids that tie the name to the image come from the content: equal input gives equal
        text, and two figures on a page do not collide.
        """
        drawn = "".join(self._parts())
        mark = sha256(f"{title}\n{description}\n{drawn}".encode()).hexdigest()[:10]
        return (
            f'<svg class="figure" role="img" aria-labelledby="fig-{mark}-t fig-{mark}-d" '
            f'viewBox="0 0 {number(width)} {number(height)}" fill="{INK}" '
            f'style="width:100%;max-width:{number(width * GROWTH)}px;height:auto">'
            f'<title id="fig-{mark}-t">{escape(title, quote=False)}</title>'
            f'<desc id="fig-{mark}-d">{escape(description, quote=False)}</desc>{drawn}</svg>'
        )

    def _parts(self) -> list[str]:
        parts = [
            f'<path fill="{_colour(colour)}" fill-opacity="{strength}" d="{"".join(paths)}"/>'
            for (colour, strength), paths in sorted(self._tints.items())
        ]
        for (thick, dashed), paths in sorted(self._strokes.items()):
            dash = ' stroke-dasharray="3 2"' if dashed else ""
            look = f'fill="none" stroke="{INK}" stroke-width="{thick}"{dash}'
            parts.append(f'<path {look} d="{"".join(paths)}"/>')
        if self._heads:
            parts.append(f'<path d="{"".join(self._heads)}"/>')
        for (anchor, size), texts in sorted(self._words.items()):
            parts.append(f'<g text-anchor="{anchor}" font-size="{size}">{"".join(texts)}</g>')
        return parts


def number(value: float) -> str:
    """Write a coordinate to a tenth of a unit."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _path(rect: Rect) -> str:
    x, y, width, height = (number(side) for side in rect)
    return f"M{x} {y}h{width}v{height}h-{width}z"


def _colour(colour: int) -> str:
    return f"var(--fig-{colour + 1}, {FALLBACKS[colour]})"
