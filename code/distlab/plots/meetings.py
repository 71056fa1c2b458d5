"""Where ranks are, and how they meet: nodes, groups, the moments of a rendezvous."""

from collections.abc import Sequence
from itertools import combinations

from distlab.plots.looks import PITCH, ROW, WIDTH, cell
from distlab.rendezvous import Moment
from distlab.svg import Drawing, Rect, number

NODE = Rect(7, 22, 163, 0)  # the first node's frame; the next one stands right of it
BETWEEN = 12  # units between two nodes
INSET = 9  # from a node's frame to its ranks
SLOT = 10  # width of an address's cell
BOWS = 14  # units left of the ranks for what connects them
KNOWN = 17  # from a rank's name to the addresses it knows
STORE = 72  # ... and to the store
MOMENT = 119  # from one moment of a rendezvous to the next


def world(nodes: Sequence[Sequence[int]], group: Sequence[int]) -> str:
    """Draw one or two nodes with their ranks, the world around them and a group across them.

    `nodes` are the ranks of each node, by local rank. Raises ValueError for a group that does not
    have the same local rank on each node.
    """
    places = {ranks.index(rank) for ranks in nodes for rank in group if rank in ranks}
    if len(nodes) > 2 or len(places) != 1 or len(group) != len(nodes):
        raise ValueError(
            f"cannot outline {group} in {nodes}: name one local rank of one or two nodes"
        )
    drawing, (row,) = Drawing(), places
    height, count = 28 + PITCH * len(nodes[0]), sum(map(len, nodes))
    drawing.outline(Rect(1, 1, WIDTH - 2, NODE.y + height + 7), 1.4)
    drawing.text(WIDTH / 2, 15, f"world: {count} ranks", "middle")
    for node, ranks in enumerate(nodes):
        frame = Rect(NODE.x + (NODE.width + BETWEEN) * node, NODE.y, NODE.width, height)
        drawing.frame(frame, 2)
        drawing.text(frame.x + INSET, frame.y + 17, f"node {node}")
        for local, rank in enumerate(ranks):
            top = frame.y + 24 + PITCH * local
            cell(drawing, Rect(frame.x + INSET, top, ROW, ROW), [rank])
            drawing.text(frame.x + INSET + 27, top + 14.5, f"rank {rank}")
            drawing.text(frame.x + INSET + 74, top + 14.5, f"local rank {local}")
    across = (NODE.width + BETWEEN) * (len(nodes) - 1) + NODE.width - 8
    around = Rect(NODE.x + 4, NODE.y + 21 + PITCH * row, across, ROW + 6)
    drawing.outline(around, 1.4, dashed=True)
    members = "; ".join(
        f"node {node} has ranks {', '.join(map(str, ranks))}" for node, ranks in enumerate(nodes)
    )
    return drawing.figure(
        f"{count} ranks on {len(nodes)} nodes",
        f"{members}; their local ranks count from 0 on each node. One outline holds the world, "
        f"another the group of ranks {' and '.join(map(str, group))}.",
        WIDTH,
        NODE.y + height + 9,
    )


def rendezvous(moments: Sequence[Moment]) -> str:
    """Draw moments of a rendezvous from left to right: ranks in rows, the store beside them."""
    drawing, world_size = Drawing(), len(moments[0].known)
    for place, moment in enumerate(moments):
        left = MOMENT * place
        drawing.text(left, 12, f"{place + 1}. {moment.name}")
        for rank in range(world_size):
            _rank(drawing, moment, rank, left)
        _store(drawing, moment, left + STORE)
        if moment.connected:
            _bows(drawing, world_size, left)
    title = f"Rendezvous of {world_size} ranks at a store"
    words = " ".join(map(_moment_words, moments))
    return drawing.figure(title, words, WIDTH, _top(world_size) + 16)


def _rank(drawing: Drawing, moment: Moment, rank: int, left: float) -> None:
    """Draw a rank's name and the addresses it knows, one place for each rank."""
    known, top = moment.known[rank], _top(rank)
    drawing.text(left, top + 14.5, f"r{rank}")
    if not known:
        drawing.text(left + KNOWN, top + 14.5, "late")
        return
    for other in range(len(moment.known)):
        slot = Rect(left + KNOWN + SLOT * other, top, SLOT, ROW)
        cell(drawing, slot, [other] if other in known else [])
    start, end, middle = (
        left + KNOWN + SLOT * len(moment.known) + 2,
        left + STORE - 2,
        top + ROW / 2,
    )
    if not moment.store:
        drawing.line((start, middle), (end, middle), dashed=True)
    elif moment.connected:
        _arrow(drawing, end, start, middle)
    else:
        _arrow(drawing, start, end, middle)


def _store(drawing: Drawing, moment: Moment, left: float) -> None:
    """Draw the store: a place for the address of each rank."""
    world_size = len(moment.known)
    for rank in range(world_size):
        cell(drawing, Rect(left + 4, _top(rank), ROW, ROW), [rank] if rank in moment.store else [])
    height = _top(world_size) - _top(0) - PITCH + ROW + 8
    drawing.outline(Rect(left, _top(0) - 4, ROW + 8, height), 1.4)
    drawing.text(left + 4 + ROW / 2, _top(world_size) + 11, "store", "middle")


def _bows(drawing: Drawing, world_size: int, x: float) -> None:
    """Connect every rank with every other, left of their names."""
    for first, second in combinations(range(world_size), 2):
        start, end = (_top(rank) + ROW / 2 for rank in (first, second))
        bend = number(-2 * BOWS * (second - first) / world_size - 3)
        path = f"q{bend} {number((end - start) / 2)} 0 {number(end - start)}"
        drawing.stroke(f"M{number(x - 2)} {number(start)}{path}")


def _arrow(drawing: Drawing, start: float, end: float, y: float) -> None:
    drawing.line((start, y), (end, y), dashed=False)
    back = -5 if end > start else 5
    drawing.head(f"M{number(end)} {number(y)}l{back}-3.5v7z")


def _top(rank: int) -> float:
    return 26 + PITCH * rank


def _moment_words(moment: Moment) -> str:
    """Say what the store and each rank hold."""
    held = ", ".join(map(str, sorted(moment.store))) or "none"
    ranks = ", ".join(
        f"rank {rank} {', '.join(map(str, sorted(known))) or 'is not there yet'}"
        for rank, known in enumerate(moment.known)
    )
    end = " All are connected." if moment.connected else ""
    return f"{moment.name}: the store holds the addresses of {held}; known are to {ranks}.{end}"
