"""Recordings as Markdown: the table of versions, side-by-side outputs, notes for pinned pages."""

from __future__ import annotations

import difflib
import functools
import posixpath
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from press.drift import changes, recordings
from press.drift.changes import Change, DriftedItem
from press.drift.recordings import Edition, ItemRecord

if TYPE_CHECKING:  # a fence that prints recordings does not depend on how fences are read
    from press.fences import Fence

PAGE = PurePosixPath("courses/pytorch/versions.md")
KINDS = (recordings.UNCHANGED, recordings.VARIES, recordings.DIFFERENT)
ALIKE, DIFFER = 4, 12
"""So many equal, or differing, lines in a row are shown; of more, how many there are."""


@functools.cache
def everything() -> tuple[Edition, ...]:
    """Return all recordings, the pinned version first."""
    return tuple(recordings.read_all())


@functools.cache
def all_differences() -> tuple[DriftedItem, ...]:
    """Return every recorded difference."""
    return tuple(changes.differences(list(everything())))


def versions(found: Iterable[Edition] = ()) -> str:
    """Return a table: a row for each version, how many items are of each status, the date."""
    pinned, *later = found or everything()
    rows = ["| torch | recorded on | items | unchanged | varying | different |"]
    rows += ["|:--|:--|--:|--:|--:|--:|", f"{_told(pinned)} - | - | - |"]
    for one in later:
        statuses = [recordings.status(name, pinned, one) for name in one.items]
        rows += [f"{_told(one)} {' | '.join(str(statuses.count(kind)) for kind in KINDS)} |"]
    where = dict.fromkeys(f"Python {one.python}, {one.system}" for one in (pinned, *later))
    return "\n".join(rows) + f"\n\n{'; '.join(where)}."


def _told(one: Edition) -> str:
    when = one.date if one.since == one.date else f"{one.since} to {one.date}"
    return f"| {one.torch} | {when} | {len(one.items)} |"


def not_compared(now: Iterable[Fence], found: Iterable[Edition] = ()) -> list[str]:
    """Return the items that were written or changed since they were recorded.

    now: the fences of all pages as they are now
    """
    pinned, *later = found or everything()
    own = f"content/{PAGE}:"
    programs = dict(recordings.fence_item(f) for f in now if not f.at.startswith(own))
    names = {name for name in programs if name not in pinned.items}
    names |= {
        n for n, seen in pinned.items.items() if programs.get(n, seen.program) != seen.program
    }
    names |= {
        name
        for one in later
        for name in one.items
        if recordings.status(name, pinned, one) == recordings.STALE
    }
    return sorted(names)


# ---- One change ----------------------------------------------------------------------------------


def change(identity: str) -> str:
    """Return what a change did to its example, side by side, and the list of what it touches."""
    (one,) = (c for c in changes.CHANGES if c.id == identity)
    touched: dict[str, list[str]] = {}
    for difference in all_differences():
        if one in difference.changes:
            touched.setdefault(difference.name, []).append(difference.version)
    return "\n\n".join([_beside(one.example), _touched(touched)])


def _touched(touched: dict[str, list[str]]) -> str:
    groups: dict[str, list[str]] = {}
    for name, versions_of in touched.items():
        groups.setdefault(", ".join(versions_of), []).append(name)
    lines = [
        f"In {where}: {', '.join(_link(name) for name in names)}."
        for where, names in groups.items()
    ]
    return "\n\n".join(lines)


def _link(name: str) -> str:
    """Return an item as a Markdown link from the page of versions, if it has an address."""
    word, target = address(name)
    # To the built page: MkDocs, which turns .md into .html, does not see what a fence prints.
    target = target.replace(".md#", ".html#")
    return f"[`{word}`]({target})" if target else f"`{word}`"


def address(name: str) -> tuple[str, str]:
    """Return an item's name for readers, and its place as the page of versions links to it."""
    path, is_fence, anchor = name.partition("#")
    if not is_fence:
        return PurePosixPath(name).name.strip(), ""
    return anchor.removeprefix("fence-"), f"{posixpath.relpath(path, PAGE.parent)}#{anchor}"


def _beside(name: str) -> str:
    """Return an item's outputs in boxes beside each other, equal versions in one box."""
    pinned, *later = everything()
    boxes: dict[str, tuple[str, list[str]]] = {}
    for one in (pinned, *later):
        text = _shown(pinned.items[name] if one.items[name].pinned else one.items[name])
        boxes.setdefault(recordings.comparable(text), (text, []))[1].append(one.version)
    first, *others = (text for text, _ in boxes.values())
    against = [*others[:1], *[first] * len(others)]
    parts = [
        _box(text, other, f"torch {', '.join(of)}")
        for (text, of), other in zip(boxes.values(), against, strict=True)
    ]
    return '<div class="grid" markdown>\n\n' + "\n\n".join(parts) + "\n\n</div>"


def _shown(seen: ItemRecord) -> str:
    one = max(seen.showings, key=lambda showing: showing.times)
    text = one.text or "(nothing)"
    return text if one.outcome == recordings.DECLARED else f"{text}\n({one.outcome})"


def _box(text: str, other: str, title: str) -> str:
    """Return a code block that shows what differs from `other`, long stretches cut short."""
    lines, marked = [], []
    matcher = difflib.SequenceMatcher(None, other.split("\n"), text.split("\n"), autojunk=False)
    for kind, _, _, low, high in matcher.get_opcodes():
        part = text.split("\n")[low:high]
        if kind == "equal":
            lines += _cut(part, ALIKE, "that do not differ")
        else:
            cut = _cut(part, DIFFER, "more")
            marked += range(len(lines) + 1, len(lines) + len(cut) + 1)
            lines += cut
    highlight = f' hl_lines="{" ".join(map(str, marked))}"' if marked else ""
    return f'```text title="{title}"{highlight}\n' + "\n".join(lines) + "\n```"


def _cut(lines: list[str], most: int, what: str) -> list[str]:
    """Return at most so many lines: the first ones and how many there are besides."""
    if len(lines) <= most:
        return lines
    kept = 0 if what == "that do not differ" else most // 2
    return [*lines[:kept], f"(… {len(lines) - kept} lines {what})"]


def counts(name: str) -> str:
    """Return how often an item that varies showed what, as a table with a column a version."""
    found = everything()
    texts = sorted({one.text for recording in found for one in recording.items[name].showings})
    header = ["what came of it", *(one.version for one in found)]
    rows = [header, [":--"] + ["--:"] * len(found)]
    for text in texts:
        cells = [_share(text, recording.items[name]) for recording in found]
        rows.append([text, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _share(text: str, seen: ItemRecord) -> str:
    times = sum(one.times for one in seen.showings if one.text == text)
    return f"{times} of {sum(one.times for one in seen.showings)}"


def still(name: str) -> str:
    """Return what an item shows under the pinned version, and under which others it is equal."""
    pinned, *later = everything()
    same = [one.version for one in later if recordings.status(name, pinned, one) == KINDS[0]]
    title = f"torch {', '.join([pinned.version, *same])}"
    return f'```text title="{title}"\n{_shown(pinned.items[name])}\n```'


# ---- Notes on the pinned pages -------------------------------------------------------------------


@functools.cache
def noted() -> dict[str, tuple[tuple[str, ...], tuple[Change, ...]]]:
    """Return for each item that differs the versions where it does, and all its changes."""
    found: dict[str, tuple[tuple[str, ...], tuple[Change, ...]]] = {}
    for one in all_differences():
        versions_of, why = found.get(one.name, ((), ()))
        found[one.name] = (*versions_of, one.version), tuple(dict.fromkeys(why + one.changes))
    return found


def note(fence: Fence) -> str:
    """Return HTML that says in which versions a fence's output differs, and links to why.

    Empty if nothing is recorded, or if the fence is no longer the program that was recorded.
    """
    if fence.code is None or not everything():
        return ""
    name, program = recordings.fence_item(fence)
    if name not in noted() or everything()[0].items[name].program != program:
        return ""
    versions_of, why = noted()[name]
    folder = PurePosixPath(name.partition("#")[0]).parent
    path = posixpath.relpath(PAGE.with_suffix(".html"), folder)
    links = ", ".join(f'<a href="{path}#{one.id}">{one.title}</a>' for one in why)
    return f'<p class="fence-later">Differs in torch {", ".join(versions_of)}: {links}</p>'
