"""What the files of a module are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Mutation(NamedTuple):
    """One change of one fence. `claim` says which sentence would be false, in a few words."""

    fence: str
    claim: str
    old: str
    new: str


@dataclass(frozen=True)
class WrongAnswer:
    """A mistake.

    task:  the exercise's id
    name:  the mistake, in a few words
    edits: pairs (old, new): every old text occurs in the solution
    kind:  the verdict's kind; "hang|signal" if sizes and timing decide which
    says:  a part of the message that is meant for this mistake; "a|b" if either will do
    ranks: the number of ranks to show it on
    """

    task: str
    name: str
    edits: tuple[tuple[str, str], ...]
    kind: str
    says: str
    ranks: int = 2


def slip(  # noqa: PLR0917 - it is a row of a table
    task: str, name: str, old: str, new: str, kind: str, says: str, ranks: int = 2
) -> WrongAnswer:
    """Return a mistake of a single edit."""
    return WrongAnswer(task, name, ((old, new),), kind, says, ranks)
