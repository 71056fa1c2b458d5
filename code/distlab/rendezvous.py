"""How ranks that know nothing of each other meet at a store: the moments of a rendezvous as data.

Each rank sets its own address under a key and gets the key of every rank; a get blocks until
somebody has set the key. A test runs the same on real ranks and compares.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """What each rank and the store know at one moment.

    `known[rank]` are the ranks whose addresses it knows, empty while it has not started; `store`
    are those whose addresses the store holds. Ranks are `connected` once all know all.
    """

    name: str
    known: tuple[frozenset[int], ...]
    store: frozenset[int]

    @property
    def connected(self) -> bool:
        """Whether every rank knows the address of every rank."""
        return all(len(addresses) == len(self.known) for addresses in self.known)


def moments(world_size: int, late: int) -> tuple[Moment, ...]:
    """Return three moments of a rendezvous to which the rank `late` comes last.

    Raises ValueError if there is no such rank.
    """
    if late not in range(world_size):
        raise ValueError(f"rank {late} is not one of the {world_size} ranks that meet")
    alone = [frozenset({rank}) for rank in range(world_size)]
    here = frozenset(range(world_size)) - {late}
    early = tuple(alone[rank] if rank in here else frozenset() for rank in range(world_size))
    all_ranks = here | {late}
    return (
        Moment("come", early, frozenset()),
        Moment("publish", early, here),
        Moment("read, connect", (all_ranks,) * world_size, all_ranks),
    )
