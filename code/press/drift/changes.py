"""What changed in torch: each change as rules that turn a later text into the pinned one.

A difference counts as explained only if the rules leave nothing of it, or if a change names the
item because it behaves otherwise altogether. What each change means, and the source line or the
upstream issue that it rests on, stands on the page, under the change's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from press.drift import recordings
from press.drift.recordings import Edition, Showing


@dataclass(frozen=True)
class Change:
    """A change that readers of a later version see.

    id:      its anchor on the page
    title:   its heading there
    example: the item that the page shows side by side
    items:   items that behave otherwise; no text is compared for them
    rules:   pairs (pattern, replacement) for texts, by which a later one becomes the pinned one
    ours:    it is a program of this course that behaves otherwise, by its own rule, not torch
    """

    id: str
    title: str
    example: str
    items: tuple[str, ...] = ()
    rules: tuple[tuple[str, str], ...] = ()
    ours: bool = False

    def undo(self, text: str) -> str:
        """Return a text as it was before this change."""
        for pattern, replacement in self.rules:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        return text


MODULE = "courses/pytorch/26_ddp_gloo.md#fence-"
CLINIC = "courses/pytorch/hang_clinic.md#fence-"
MUSEUM = "courses/pytorch/museum/"
RANKS = r"^(?:ranks? [\d-]+  )?"  # the label before a line, if there is one
NEXT_LINE = r".*\n.*\n?"  # the rest of a warning, and the line that it quotes

CHANGES = (
    Change(
        "reduce-scatter",
        "gloo's reduce_scatter reduces as it is told",
        MUSEUM + "silent_collectives.md#fence-op-ignored-broken",
        items=(
            MODULE + "ops-ignored",
            MUSEUM + "silent_collectives.md#fence-op-ignored-broken",
        ),
    ),
    Change(
        "two-forwards",
        "Two forwards with buffers raise no error",
        MUSEUM + "loud_ddp.md#fence-buffers-broken",
        items=(MUSEUM + "loud_ddp.md#fence-buffers-broken",),
    ),
    Change(
        "single-names",
        "Two collectives have new names",
        MUSEUM + "silent_collectives.md#fence-aliased-fixed",
        rules=(
            (
                RANKS
                + r"torch/distributed/c10d_logger\.py:\S+ FutureWarning: `torch\.distributed\."
                r"(?:all_gather_into_tensor|reduce_scatter_tensor)`" + NEXT_LINE,
                "",
            ),
        ),
    ),
    Change(
        "functional",
        "torch.distributed.nn.functional warns",
        MUSEUM + "silent_gradients.md#fence-no-grad-gather-fixed",
        rules=(
            (
                RANKS
                + r"\S+ FutureWarning: torch\.distributed\.nn\.functional\.\w+ is deprecated"
                + NEXT_LINE,
                "",
            ),
        ),
    ),
    Change(
        "forward-sync-buffers",
        "broadcast_buffers warns",
        MODULE + "buffers",
        rules=((RANKS + r"\S+ FutureWarning: `broadcast_buffers` is deprecated" + NEXT_LINE, ""),),
    ),
    Change(
        "gloo-words",
        "A closed connection says more",
        MUSEUM + "loud_collectives.md#fence-scatter-broken",
        rules=((r"\. This is typically caused by a remote worker .*? GLHF! \S+", ""),),
    ),
    Change(
        "gloo-sizes",
        "A message of the wrong size asks the right question",
        MUSEUM + "loud_collectives.md#fence-sizes-broken",
        rules=((r"\. Received data size doesn't match expected size\. Is there .*\?$", ""),),
    ),
    Change(
        "torchfrtrace",
        "torchfrtrace starts",
        MODULE + "torchfrtrace",
        items=(MODULE + "torchfrtrace", CLINIC + "clinic-torchfrtrace"),
    ),
    Change(
        "dump-version",
        "The Flight Recorder's dumps have a longer version",
        CLINIC + "clinic-pipeline",
        rules=((r"only 6 remain", "only 7 remain"),),
    ),
    Change(
        "torchrun-variable",
        "torchrun exports one more variable",
        MODULE + "torchrun-env",
        items=(MODULE + "torchrun-env",),
    ),
    Change(
        "destroy-twice",
        "Destroying a group twice says what is missing",
        MODULE + "destroy-twice",
        rules=(("AssertionError: Process group cannot be None", "AssertionError"),),
    ),
    Change(
        "nccl2",
        "NCCL refuses in other words",
        MODULE + "init-refusals",
        items=(MODULE + "init-refusals",),
    ),
    Change(
        "gloo-frame",
        "A group on gloo is made one function deeper",
        MUSEUM + "loud_collectives.md#fence-group-members-broken",
        rules=((RANKS + r"  \S+, line \d+, in _create_gloo_process_group\n?", ""),),
    ),
    Change(
        "local-names",
        "A group made by its members alone makes the next one hang",
        MODULE + "local-sync",
        items=(MODULE + "local-sync",),
    ),
    Change(
        "doctor",
        "The doctor refuses",
        CLINIC + "clinic-doctor",
        items=(CLINIC + "clinic-doctor",),
        ours=True,
    ),
)


def explaining(
    name: str, pinned: Iterable[Showing], later: Iterable[Showing], changes=CHANGES
) -> tuple[Change, ...]:
    """Return the changes that explain all of an item's difference; empty if something is left."""
    whole = tuple(change for change in changes if name in change.items)
    fired = tuple(
        change
        for change in changes
        if change not in whole and any(change.undo(one.text) != one.text for one in later)
    )
    if whole:
        return whole + fired
    before = {(one.outcome, undone(one.text, changes)) for one in pinned}
    after = {(one.outcome, undone(one.text, changes)) for one in later}
    return fired if before & after else ()


def undone(text: str, changes: Iterable[Change]) -> str:
    """Return a text as it was before all changes, fit to be compared."""
    for change in changes:
        text = change.undo(text)
    return recordings.comparable(text.rstrip("\n"))


@dataclass(frozen=True)
class DriftedItem:
    """An item that shows something else under a later version, and the changes that explain it."""

    name: str
    version: str
    changes: tuple[Change, ...]


def differences(found: list[Edition], changes=CHANGES) -> list[DriftedItem]:
    """Return every difference of all versions, in order of version and name."""
    pinned, *later = found
    return [
        DriftedItem(
            name,
            one.version,
            explaining(name, pinned.items[name].showings, seen.showings, changes),
        )
        for one in later
        for name, seen in one.items.items()
        if recordings.status(name, pinned, one) == recordings.DIFFERENT
    ]
