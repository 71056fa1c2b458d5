"""The ring algorithm as data: who sends which chunk to whom at each step, and what each rank holds.

Sources. Ring all-reduce and its lower bound of 2(p-1)S/p bytes per rank: Patarasuk and Yuan,
"Bandwidth optimal all-reduce algorithms for clusters of workstations", J. Parallel Distrib.
Comput. 69(2), 2009. All-reduce as reduce-scatter followed by all-gather, and ring all-gather:
Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH",
Int. J. High Perform. Comput. Appl. 19(1), 2005.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import TypeVar

Chunk = TypeVar("Chunk")
State = tuple[tuple[Chunk, ...], ...]  # state[rank][chunk]

PHASES = {  # collective -> its phases, in order
    "reduce_scatter": ("reduce_scatter",),
    "all_gather": ("all_gather",),
    "all_reduce": ("reduce_scatter", "all_gather"),
}


@dataclass(frozen=True)
class Send:
    """One message: at `step`, rank `src` sends its copy of `chunk` to rank `dst`.

    In phase "reduce_scatter" the receiver adds the chunk to its own, in phase "all_gather" the
    chunk replaces its own.
    """

    step: int
    phase: str
    src: int
    dst: int
    chunk: int


def schedule(collective: str, world_size: int) -> tuple[Send, ...]:
    """List every send of a ring collective, by step, then by rank.

    Each phase has `world_size - 1` steps, and in every step each rank sends one chunk to its
    right neighbour. After the reduce-scatter phase rank j owns the full sum of chunk j.

    Raises ValueError for an unknown collective or a world size below 1.
    """
    _check(collective, world_size)
    return tuple(
        _send(number * (world_size - 1) + turn, turn, phase, rank, world_size)
        for number, phase in enumerate(PHASES[collective])
        for turn in range(world_size - 1)
        for rank in range(world_size)
    )


def steps(sends: Sequence[Send]) -> tuple[tuple[Send, ...], ...]:
    """Group a schedule by step: the sends of one step happen at the same time."""
    return tuple(tuple(group) for _, group in groupby(sends, key=lambda send: send.step))


def states(
    sends: Sequence[Send],
    start: Sequence[Sequence[Chunk]],
    add: Callable[[Chunk, Chunk], Chunk],
) -> tuple[State, ...]:
    """Return what every rank holds at the start and after each step, as state[rank][chunk].

    `start[rank][chunk]` may be anything that `add` can add: numbers, tensors, or the sets of
    `contributors`. `start` is left as it was.
    """
    held = [tuple(tuple(chunks) for chunks in start)]
    for step in steps(sends):
        held.append(_after(step, held[-1], add))
    return tuple(held)


def contributors(collective: str, world_size: int) -> State[frozenset[int]]:
    """Return the start of a collective with each chunk named by the ranks summed in it.

    For reduce_scatter and all_reduce every chunk of rank r starts as {r}. For all_gather rank r
    has only its own chunk, and an empty set stands for a chunk that has not arrived.
    """
    _check(collective, world_size)
    ranks = range(world_size)
    if collective == "all_gather":
        return tuple(tuple(frozenset({r} if r == c else ()) for c in ranks) for r in ranks)
    return tuple(tuple(frozenset({r}) for _ in ranks) for r in ranks)


def join(mine: frozenset[int], theirs: frozenset[int]) -> frozenset[int]:
    """Add two partial sums named by their contributors.

    Raises ValueError if a rank is in both: its gradient would be counted twice.
    """
    if twice := mine & theirs:
        raise ValueError(
            f"rank(s) {sorted(twice)} would be summed twice ({sorted(mine)} + {sorted(theirs)}): "
            "every contribution travels round the ring once, so check the schedule"
        )
    return mine | theirs


def chunk_sizes(size: int, world_size: int) -> tuple[int, ...]:
    """Cut `size` (bytes or elements) into `world_size` chunks that differ by at most one.

    Raises ValueError for a negative size or a world size below 1.
    """
    if size < 0:
        raise ValueError(f"size is {size}; a tensor has 0 bytes or more: pass its size in bytes")
    _check("all_reduce", world_size)
    whole, rest = divmod(size, world_size)
    return tuple(whole + (chunk < rest) for chunk in range(world_size))


def bytes_sent(sends: Sequence[Send], sizes: Sequence[int]) -> tuple[int, ...]:
    """Count the bytes that each rank sends when chunk c has `sizes[c]` bytes.

    When the size is not a multiple of the world size the ranks differ by a few bytes; their
    mean is exactly `ring_bytes`.
    """
    sent = [0] * len(sizes)
    for send in sends:
        sent[send.src] += sizes[send.chunk]
    return tuple(sent)


def ring_bytes(collective: str, world_size: int, size: int) -> Fraction:
    """Return the bytes that one rank sends on average: (p-1)S/p per phase, 2(p-1)S/p in all_reduce.

    `size` is S, the bytes of the whole tensor: the input of reduce_scatter and all_reduce, the
    output of all_gather. Exact. Raises ValueError as `schedule` does.
    """
    _check(collective, world_size)
    return len(PHASES[collective]) * Fraction((world_size - 1) * size, world_size)


def _send(step: int, turn: int, phase: str, rank: int, world_size: int) -> Send:
    # In reduce_scatter rank r must hear of chunk r last, so its own first send is chunk r-1.
    first = rank - 1 if phase == "reduce_scatter" else rank
    return Send(step, phase, rank, (rank + 1) % world_size, (first - turn) % world_size)


def _after(step: Sequence[Send], before: State, add: Callable[[Chunk, Chunk], Chunk]) -> State:
    after = [list(chunks) for chunks in before]
    for send in step:  # all read `before`: the messages of a step cross on the wire
        arriving = before[send.src][send.chunk]
        own = before[send.dst][send.chunk]
        after[send.dst][send.chunk] = (
            add(own, arriving) if send.phase == "reduce_scatter" else arriving
        )
    return tuple(tuple(chunks) for chunks in after)


def _check(collective: str, world_size: int) -> None:
    if collective not in PHASES:
        raise ValueError(f"no ring schedule for {collective!r}: choose one of {', '.join(PHASES)}")
    if world_size < 1:
        raise ValueError(f"world size is {world_size}; a ring has 1 rank or more")
