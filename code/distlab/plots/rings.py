"""Ranks in a ring: each with its row of chunks, and on the arrows the chunks on their way."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from math import cos, pi, radians, sin

from distlab.plots.looks import WIDTH, cell
from distlab.ring import Send, State
from distlab.svg import THIN, Drawing, Rect, number

VERBS = {"reduce_scatter": "add", "all_gather": "copy"}  # what the receiver does with a chunk
PAST = {"reduce_scatter": "added", "all_gather": "copied"}
THICK = 2.5  # the frame of a chunk that has just arrived
LEGEND = (
    "A cell is a chunk: each rank's row has all of them, c0 first.",
    "It fills as more ranks are summed in it.",
    "Thick frame: it has just arrived. Arrow: it goes now.",
)

Point = tuple[float, float]


@dataclass(frozen=True)
class Size:
    """How large a ring is drawn, in units; `row` is a rank's chunks, `token` one on its way."""

    width: float
    height: float
    radius: float
    row: Point
    token: Point
    word: str  # before a rank's number


@dataclass(frozen=True)
class Layout:
    """Where the parts of a ring stand: rank 0 at the top, the next one clockwise.

    `tokens[rank]` is a chunk on its way from `rank` to the next, `names[rank]` where its name
    stands. The rest are paths: of the shaft and head of its arrow, and of the link on which
    nothing moves.
    """

    centre: Point
    rows: tuple[Rect, ...]
    labels: tuple[Point, ...]
    tokens: tuple[Rect, ...]
    names: tuple[Point, ...]
    shafts: tuple[str, ...]
    heads: tuple[str, ...]
    links: tuple[str, ...]

    def cell(self, rank: int, chunk: int) -> Rect:
        """Return where a rank's chunk stands."""
        x, y, width, height = self.rows[rank]
        wide = width / len(self.rows)
        return Rect(x + wide * chunk, y, wide, height)


def large(world_size: int) -> Size:
    """Return the size of a ring that fills the column; many ranks need smaller rows."""
    height = 288 + 16 * (world_size % 2)  # an odd ring has a chunk's name below it
    if world_size > 6:
        return Size(WIDTH, height, 130, (64, 20), (14, 14), "rank ")
    return Size(WIDTH, height, 126, (min(80, 22 * world_size), 24), (20, 20), "rank ")


def small(world_size: int) -> Size:
    """Return the size of a ring of up to four ranks of which two fill the column."""
    return Size(WIDTH / 2, 150, 58, (13 * world_size, 16), (13, 13), "r")


def layout(world_size: int, size: Size, corner: Point = (0, 0)) -> Layout:
    """Place the parts of a ring whose frame starts at `corner`."""
    centre = (corner[0] + size.width / 2, corner[1] + size.radius + size.row[1] / 2 + 6)
    circle, turn = _Circle(centre, size.radius), 2 * pi / world_size
    rows = [_around(circle.at(turn * rank), size.row) for rank in range(world_size)]
    spans = [
        (circle.leave(turn * rank, 1, row), circle.leave(turn * (rank + 1), -1, after))
        for rank, (row, after) in enumerate(zip(rows, rows[1:] + rows[:1], strict=True))
    ]
    middles = [(start + end) / 2 for start, end in spans]
    tokens = [_around(circle.at(middle), size.token) for middle in middles]
    arrows = [circle.arrow(*each) for each in zip(spans, middles, tokens, strict=True)]
    return Layout(
        centre=centre,
        rows=tuple(rows),
        labels=tuple(_label(turn * rank, row) for rank, row in enumerate(rows)),
        tokens=tuple(tokens),
        names=tuple(_name(circle, middle, size.token[0]) for middle in middles),
        shafts=tuple(shaft for shaft, _ in arrows),
        heads=tuple(head for _, head in arrows),
        links=tuple(circle.arc(*span) for span in spans),
    )


def thick(parts: Layout) -> float:
    """Return the thickness of an arrived chunk's frame: less where cells are narrow."""
    return min(2.5, parts.cell(0, 0).width / 5)


def ring(states: Sequence[State[frozenset[int]]], steps: Sequence[Sequence[Send]]) -> str:
    """Draw the ring at the start and after each step, with what leaves next on its arrows.

    `states` are those of `ring.states` over `ring.contributors`, `steps` those of `ring.steps`.
    """
    world_size, drawing = len(states[0]), Drawing()
    size = small(world_size) if world_size <= 4 else large(world_size)
    across = int(WIDTH / size.width)
    for moment, state in enumerate(states):
        corner = (moment % across * size.width, moment // across * size.height)
        parts = layout(world_size, size, corner)
        before = steps[moment - 1] if moment else ()
        _rows(drawing, parts, state, {(send.dst, send.chunk) for send in before}, size.word)
        _links(drawing, parts, state, steps[moment] if moment < len(steps) else ())
        said = (f"{moment} of {len(steps)}", PAST[before[0].phase]) if before else ("", "start")
        _in_the_middle(drawing, parts, said)
    legend = -(-len(states) // across) * size.height + 16
    for line, words in enumerate(LEGEND):
        drawing.text(0, legend + 16 * line, words)
    description = "; ".join(step_words(number, step) for number, step in enumerate(steps, 1))
    title = f"Ring with {world_size} ranks, step by step"
    height = legend + 16 * len(LEGEND) - 10
    return drawing.figure(title, f"{description}.", WIDTH, height)


def ring_moment(
    states: Sequence[State[frozenset[int]]], steps: Sequence[Sequence[Send]], moment: int
) -> str:
    """Draw the ring after `moment` steps, with what leaves next on its arrows."""
    world_size, drawing, leaving = len(states[0]), Drawing(), steps[moment]
    size = large(world_size)
    parts = layout(world_size, size)
    _rows(drawing, parts, states[moment], set(), size.word)
    _links(drawing, parts, states[moment], leaving)
    number = f"step {moment + 1} of {len(steps)}"
    _in_the_middle(drawing, parts, (number, f"{VERBS[leaving[0].phase]} what arrives"))
    held = "; ".join(
        f"rank {rank} holds {', '.join(map(str, map(len, chunks)))}"
        for rank, chunks in enumerate(states[moment])
    )
    return drawing.figure(
        f"Ring all-reduce on {world_size} ranks, {number}",
        f"How many ranks are summed in each chunk: {held}. Now {step_words(moment + 1, leaving)}.",
        size.width,
        size.height,
    )


def step_words(number: int, sends: Sequence[Send]) -> str:
    """Say what moves in a step."""
    moves = ", ".join(f"rank {s.src} sends chunk {s.chunk} to rank {s.dst}" for s in sends)
    return f"step {number}, {VERBS[sends[0].phase]}: {moves}"


def _rows(
    drawing: Drawing,
    parts: Layout,
    state: State[frozenset[int]],
    arrived: Container[tuple[int, int]],
    word: str,
) -> None:
    for rank, chunks in enumerate(state):
        drawing.text(*parts.labels[rank], f"{word}{rank}", "middle")
        for chunk, ranks in enumerate(chunks):
            frame = thick(parts) if (rank, chunk) in arrived else THIN
            cell(drawing, parts.cell(rank, chunk), [chunk], len(ranks) / len(state), thick=frame)


def _links(
    drawing: Drawing, parts: Layout, state: State[frozenset[int]], leaving: Sequence[Send]
) -> None:
    for send in leaving:
        filled = len(state[send.src][send.chunk]) / len(state)
        cell(drawing, parts.tokens[send.src], [send.chunk], filled)
        drawing.text(*parts.names[send.src], f"c{send.chunk}", "middle", size=11)
        drawing.stroke(parts.shafts[send.src], 1.4)
        drawing.head(parts.heads[send.src])
    for link in () if leaving else parts.links:
        drawing.stroke(link)


def _in_the_middle(drawing: Drawing, parts: Layout, lines: Sequence[str]) -> None:
    for line, words in enumerate(lines):
        x, y = parts.centre
        drawing.text(x, y - 3 + 15 * line, words, "middle")


def _label(angle: float, row: Rect) -> Point:
    """Place a rank's name on the inner side of its row, where no arrow passes."""
    shift = row.width / 2 - 2
    inwards = -1 if cos(angle) < 0.3 else 1
    middle = (row.x + row.width / 2, row.y + row.height / 2)
    return (middle[0] - sin(angle) * shift, middle[1] + inwards * (row.height / 2 + 10) + 4)


def _name(circle: "_Circle", angle: float, token: float) -> Point:
    """Place the name of a chunk on its way outside the ring, clear of the token's corners."""
    away = token / 2 + 8 + token / 4 * abs(sin(2 * angle))
    x, y = replace(circle, radius=circle.radius + away).at(angle)
    return x, y + 4


def _around(place: Point, size: Point) -> Rect:
    return Rect(place[0] - size[0] / 2, place[1] - size[1] / 2, *size)


@dataclass(frozen=True)
class _Circle:
    """A circle on which angles start at the top and grow clockwise."""

    centre: Point
    radius: float

    def at(self, angle: float) -> Point:
        x, y = self.centre
        return x + self.radius * sin(angle), y - self.radius * cos(angle)

    def leave(self, angle: float, direction: int, rect: Rect) -> float:
        """Return the first angle in a direction at which the circle is clear of a rectangle."""
        left, top, width, height = rect
        while True:
            x, y = self.at(angle)
            if (
                abs(x - left - width / 2) > width / 2 + 2
                or abs(y - top - height / 2) > height / 2 + 2
            ):
                return angle
            angle += direction * radians(0.25)

    def arc(self, start: float, end: float) -> str:
        (x, y), (to_x, to_y) = self.at(start), self.at(end)
        radius = number(self.radius)
        return f"M{number(x)} {number(y)}A{radius} {radius} 0 0 1 {number(to_x)} {number(to_y)}"

    def arrow(self, span: tuple[float, float], middle: float, token: Rect) -> tuple[str, str]:
        """Return shaft and head of an arrow that a token interrupts."""
        tip, base = span[1], span[1] - 6 / self.radius
        shaft = self.arc(span[0], self.leave(middle, -1, token))
        shaft += self.arc(self.leave(middle, 1, token), base)
        sides = (replace(self, radius=self.radius + side).at(base) for side in (-4, 4))
        corners = "L".join(f"{number(x)} {number(y)}" for x, y in (self.at(tip), *sides))
        return shaft, f"M{corners}z"
