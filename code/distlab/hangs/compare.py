"""Hold the ranks' calls against each other: where they first differ, and who is to be suspected.

Pure functions over what `dumps` read. Two calls with the same number in the same group must be the
same collective over the same sizes and types; a number that a rank of the group does not have is a
call that it never made. What the recorder does not note cannot be compared: the reduce operation,
the source rank, send and recv, and the making of a group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from distlab.hangs.dumps import Call, Folder, Frame, RankDump, program_lines

DEFAULT_GROUP = "0"

NAMELESS = ""
"""Under TORCH_DISTRIBUTED_DEBUG=DETAIL every group is called so, the checker's own included."""

# Each rank may rightly pass its own sizes to these; of a scatter only the source passes any.
OWN_SIZES = frozenset({"all_to_all", "scatter", "gather", "barrier"})


@dataclass(frozen=True)
class Difference:
    """The first sequence number of a group at which its ranks differ.

    calls:   what each rank issued under that number
    absent:  ranks of the group that never issued it
    skipped: suspect -> the call that it left out, where the earlier calls tell
    """

    group: str
    seq: int
    calls: dict[int, Call]
    absent: tuple[int, ...]
    skipped: dict[int, Call]

    @property
    def camps(self) -> tuple[tuple[int, ...], ...]:
        """Ranks by what they issued, the most common first."""
        by_kind: dict[tuple, list[int]] = {}
        for rank, call in sorted(self.calls.items()):
            by_kind.setdefault(kind(call), []).append(rank)
        return tuple(map(tuple, sorted(by_kind.values(), key=len, reverse=True)))

    @property
    def suspects(self) -> tuple[int, ...]:
        """The ranks that are not with the majority; all of them where there is none."""
        if not self.camps or (len(self.camps) == 1 and self.absent):
            return self.absent
        first, *rest = self.camps
        if rest and len(first) == len(rest[0]):
            return tuple(sorted((*self.calls, *self.absent)))
        return tuple(sorted((*(rank for camp in rest for rank in camp), *self.absent)))

    @property
    def when(self) -> int:
        """When its first call was issued, to order the differences of several groups."""
        return min((call.when for call in self.calls.values()), default=0)


@dataclass(frozen=True)
class Findings:
    """What the dumps of one job say together.

    differences: one a group at most, the earliest first
    crossings:   the first number of a group that its ranks issued alike, from different lines
    pending:     rank -> its first collective that has not ended
    last_done:   rank -> its last collective that has ended
    nameless:    the dumps name no groups, so that nothing was compared
    apart:       ranks whose stack differs from that of most; empty where something moved
    """

    differences: tuple[Difference, ...]
    crossings: tuple[Difference, ...]
    pending: dict[int, Call]
    last_done: dict[int, Call]
    nameless: bool = False
    apart: tuple[int, ...] = ()

    @property
    def suspects(self) -> tuple[int, ...]:
        """The ranks to look at first.

        They are those that others wait for and that wait in no collective themselves; where all
        wait for each other, those of the earliest difference.
        """
        awaited = {rank for difference in self.differences for rank in difference.suspects}
        free = tuple(sorted(awaited - self.pending.keys()))
        return free or (self.differences[0].suspects if self.differences else ())


def kind(call: Call) -> tuple:
    """Return what must agree between the ranks of a group under one number."""
    if call.op in OWN_SIZES:
        return (call.op,)
    return (call.op, call.inputs, call.dtypes)


def members(folder: Folder, group: str) -> tuple[int, ...]:
    """Return the ranks of a group: as a rank told, else all for the default group, else seen."""
    for dump in folder.ranks:
        if dump.standing and group in dump.standing.groups:
            return dump.standing.groups[group][1]
    with_calls = [dump.rank for dump in folder.ranks if dump.calls is not None]
    if group == DEFAULT_GROUP:
        return tuple(with_calls)
    return tuple(d.rank for d in folder.ranks if any(c.group == group for c in d.calls or ()))


def compare(folder: Folder) -> Findings:
    """Return where the ranks of a job differ and how far each has come."""
    named = {dump.rank: _named(dump) for dump in folder.ranks if dump.calls is not None}
    differences, crossings = [], []
    for group in dict.fromkeys(call.group for calls in named.values() for call in calls):
        ranks = set(members(folder, group))
        columns = {r: _column(calls, group) for r, calls in named.items() if r in ranks}
        differences += _first(group, columns, kind)
        crossings += _first(group, columns, _lines)
    return Findings(
        tuple(sorted(differences, key=lambda difference: difference.when)),
        tuple(c for c in crossings if not c.absent and _before(c, differences)),
        {r: call for r, calls in named.items() if (call := _next(c for c in calls if not c.done))},
        {
            r: call
            for r, calls in named.items()
            if (call := _next(c for c in calls[::-1] if c.done))
        },
        nameless=any(len(named[d.rank]) < len(d.calls) for d in folder.ranks if d.calls),
        apart=_apart(folder),
    )


def _named(dump: RankDump) -> tuple[Call, ...]:
    return tuple(call for call in dump.calls or () if call.group != NAMELESS)


def _apart(folder: Folder) -> tuple[int, ...]:
    there = [d for d in folder.ranks if d.standing and not d.standing.ended]
    if any(dump.standing.moved for dump in there):
        return ()
    by_line: dict[tuple, list[int]] = {}
    for dump in there:
        place = [(frame.file, frame.line) for frame in program_lines(dump.standing.stack)[:1]]
        by_line.setdefault(tuple(place), []).append(dump.rank)
    most = max(by_line.values(), key=len, default=[])
    others = [dump.rank for dump in there if dump.rank not in most]
    return tuple(others) if len(most) > len(others) else ()


def _column(calls: tuple[Call, ...], group: str) -> dict[int, Call]:
    return {call.seq: call for call in calls if call.group == group}


def _next(calls: Iterable[Call]) -> Call | None:
    return next(iter(calls), None)


def _lines(call: Call) -> tuple[Frame, ...]:
    return call.lines


def _before(crossing: Difference, differences: list[Difference]) -> bool:
    same = [d.seq for d in differences if d.group == crossing.group]
    return not same or crossing.seq < same[0]


def _first(group: str, columns: dict[int, dict[int, Call]], key: object) -> list[Difference]:
    """Return the first number at which the columns differ by `key`, in a list of one or none."""
    # The recorder forgets the oldest calls, on each rank at its own pace.
    begin = max((min(column) for column in columns.values() if column), default=0)
    numbers = sorted({seq for column in columns.values() for seq in column if seq >= begin})
    for seq in numbers:
        calls = {rank: column[seq] for rank, column in columns.items() if seq in column}
        absent = tuple(sorted(columns.keys() - calls.keys()))
        if absent or len({key(call) for call in calls.values()}) > 1:
            difference = Difference(group, seq, calls, absent, {})
            return [Difference(group, seq, calls, absent, _skipped(difference, columns))]
    return []


def _skipped(difference: Difference, columns: dict[int, dict[int, Call]]) -> dict[int, Call]:
    """Return the suspects whose call is the one that follows, elsewhere or in earlier rounds.

    Such a rank did not do something else: it left out the call that the others made.
    """
    if len(difference.camps) < 2 or len(difference.suspects) == len(difference.calls):
        return {}
    model = difference.camps[0][0]
    column = columns[model]
    numbers = sorted(column)
    made = _signature(column[difference.seq])
    followers = {
        _signature(column[after])
        for seq, after in itertools.pairwise(numbers)
        if _signature(column[seq]) == made
    }
    return {
        rank: column[difference.seq]
        for rank in difference.suspects
        if rank in difference.calls and _signature(difference.calls[rank]) in followers
    }


def _signature(call: Call) -> tuple:
    return (*kind(call), call.lines)
