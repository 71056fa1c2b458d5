"""The collectives as small worked cases on four ranks: what each rank has before and after.

Rank r's input is the letter A, B, C or D; a digit is a chunk of it. A test runs every case on
real ranks and compares.
"""

from dataclasses import dataclass

WORLD_SIZE = 4
ROOT = 0  # the source of broadcast and scatter, the destination of reduce and gather


@dataclass(frozen=True)
class Piece:
    """A tensor (`chunk` None) or a chunk of it, summed over `ranks`; no ranks: undefined."""

    ranks: tuple[int, ...]
    chunk: int | None = None

    @property
    def label(self) -> str:
        """Return a short name: "A" or "A2" for one rank's, "Σ" or "Σ2" for a sum, "?" undefined."""
        if not self.ranks:
            return "?"
        letter = "ABCDEFGH"[self.ranks[0]] if len(self.ranks) == 1 else "Σ"
        return letter if self.chunk is None else f"{letter}{self.chunk}"


Buffers = tuple[tuple[Piece, ...], ...]  # buffers[rank]; an empty one takes no part


@dataclass(frozen=True)
class Tile:
    """One collective: its name, what it does in a sentence, and the buffers before and after.

    `barrier` moves no data: its tile has `arrivals` instead, one time for each rank.
    """

    name: str
    sentence: str
    before: Buffers = ()
    after: Buffers = ()
    arrivals: tuple[float, ...] = ()


RANKS = tuple(range(WORLD_SIZE))
NOTHING = ()
EACH_OWN = tuple((Piece((r,)),) for r in RANKS)
EACH_OWN_CHUNKS = tuple(tuple(Piece((r,), c) for c in RANKS) for r in RANKS)
SUM = (Piece(RANKS),)


def _only_root(buffer: tuple[Piece, ...], others: tuple[Piece, ...] = NOTHING) -> Buffers:
    return tuple(buffer if rank == ROOT else others for rank in RANKS)


TILES = {
    tile.name: tile
    for tile in (
        Tile(
            "broadcast",
            "Every rank gets rank 0's tensor.",
            _only_root((Piece((ROOT,)),)),
            tuple((Piece((ROOT,)),) for _ in RANKS),
        ),
        Tile(
            "reduce",
            "Rank 0 gets the sum of all tensors; what the others hold afterwards is not defined.",
            EACH_OWN,
            _only_root(SUM, (Piece(()),)),
        ),
        Tile(
            "all_reduce",
            "Every rank gets the sum of all tensors.",
            EACH_OWN,
            tuple(SUM for _ in RANKS),
        ),
        Tile(
            "gather",
            "Rank 0 gets every rank's tensor, in rank order.",
            EACH_OWN,
            _only_root(tuple(Piece((r,)) for r in RANKS)),
        ),
        Tile(
            "scatter",
            "Rank 0 gives each rank one of its chunks.",
            _only_root(tuple(Piece((ROOT,), c) for c in RANKS)),
            tuple((Piece((ROOT,), r),) for r in RANKS),
        ),
        Tile(
            "all_gather",
            "Every rank gets every rank's tensor, in rank order.",
            EACH_OWN,
            tuple(tuple(Piece((r,)) for r in RANKS) for _ in RANKS),
        ),
        Tile(
            "reduce_scatter",
            "Rank j gets the sum of everybody's chunk j.",
            EACH_OWN_CHUNKS,
            tuple((Piece(RANKS, r),) for r in RANKS),
        ),
        Tile(
            "all_to_all",
            "Rank j gets chunk j of every rank, in rank order: a transposition.",
            EACH_OWN_CHUNKS,
            tuple(tuple(Piece((r,), j) for r in RANKS) for j in RANKS),
        ),
        Tile(
            "send/recv",
            "Rank 0 sends its tensor to rank 1; no other rank takes part.",
            _only_root((Piece((ROOT,)),)),
            ((Piece((ROOT,)),), (Piece((ROOT,)),), NOTHING, NOTHING),
        ),
        Tile(
            "barrier",
            "No data: nobody leaves before everybody has arrived.",
            arrivals=(0.35, 0.8, 0.2, 0.55),
        ),
    )
}
