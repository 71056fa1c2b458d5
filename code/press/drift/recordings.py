"""What came of every item under one version of torch: the data, its files, and how to compare."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from distlab.practice.tasks import ONLY
from press.project import COURSE

if TYPE_CHECKING:
    from press.fences import Fence

FOLDER = COURSE / "drift"
DECLARED = "as declared"
UNCHANGED, VARIES, DIFFERENT, STALE = "unchanged", "varies", "different", "not comparable"

# Where in torch something was said is not what was said.
PLACES = (
    (re.compile(r"(?:/[\w.-]+)*/pytorch/(?=(?:torch|aten|c10|third_party)/)"), ""),
    (re.compile(r"(\b[\w/]+\.(?:cc|cpp|c|h|hpp)):\d+"), r"\1:LINE"),
    (re.compile(r'(File "torch/[^"]+", line |\btorch/[\w/]+\.py, line )\d+'), r"\1LINE"),
    (re.compile(r"(\btorch/[\w/]+\.py):\d+"), r"\1:LINE"),
    (re.compile(r"… \d+ frames? in torch"), "… frames in torch"),
    (re.compile(r"(?m) +$"), ""),
)
LABELLED = re.compile(r"ranks? (?P<first>\d+)(?:-(?P<last>\d+))?  (?P<line>.*)")


@dataclass(frozen=True)
class Showing:
    """What one run showed, and how many runs showed just that.

    outcome: DECLARED, or how it ended instead
    text:    what every rank said, normalised as on the pages
    """

    outcome: str
    text: str
    times: int = 1

    @property
    def key(self) -> tuple[str, str]:
        """What is compared: the outcome and the text without places in torch's sources."""
        return self.outcome, comparable(self.text)


@dataclass(frozen=True)
class Seen:
    """What came of one item.

    program:  a digest of what was run
    showings: what was shown; empty where it equals that of the pinned version
    pinned:   a digest of the pinned version's showings, if they are equal
    """

    program: str
    showings: tuple[Showing, ...] = ()
    pinned: str = ""


@dataclass(frozen=True)
class Recording:
    """All items under one version.

    torch:       the wheel's version, as 2.13.0+cpu
    since, date: the days of the oldest and the latest run, as 2026-11-30
    """

    torch: str
    python: str
    system: str
    since: str
    date: str
    items: dict[str, Seen]

    @property
    def version(self) -> str:
        """The version without the wheel's variant: 2.13.0 for 2.13.0+cpu."""
        return self.torch.partition("+")[0]


def fence_item(fence: Fence) -> tuple[str, str]:
    """Return the name of a fence's item, which is its address in content/, and its program."""
    page = fence.at.removeprefix("content/").rpartition(":")[0]
    told = fence.program(fence.code).to_json()
    del told["links"], told["watch"]  # of this machine
    told["env"] = [pair for pair in told["env"] if pair[0] != ONLY]  # of its page
    return f"{page}#fence-{fence.id}", program_digest(json.dumps(told, sort_keys=True))


def program_digest(source: str) -> str:
    """Return a short digest of a program."""
    return hashlib.sha256(source.encode()).hexdigest()[:12]


@functools.cache
def comparable(text: str) -> str:
    """Return a text without line numbers of torch's sources and counts of its frames."""
    for pattern, replacement in PLACES:
        text = pattern.sub(replacement, text)
    return unfolded(text)


def unfolded(text: str) -> str:
    """Return a text with lines of "ranks 0-1" repeated for each rank, in order of rank."""
    found = [LABELLED.fullmatch(line) for line in text.split("\n")]
    if not all(found):
        return text
    lines = [
        (rank, match["line"])
        for match in found
        for rank in range(int(match["first"]), int(match["last"] or match["first"]) + 1)
    ]
    return "\n".join(f"rank {r}  {line}" for r, line in sorted(lines, key=lambda pair: pair[0]))


def collect(showings: Iterable[Showing]) -> tuple[Showing, ...]:
    """Put equal showings together, the first one's text kept; in order of key."""
    found: dict[tuple[str, str], Showing] = {}
    for one in showings:
        kept = found.setdefault(one.key, Showing(one.outcome, one.text, 0))
        found[one.key] = Showing(kept.outcome, kept.text, kept.times + one.times)
    return tuple(found[key] for key in sorted(found))


def digest(showings: Iterable[Showing]) -> str:
    """Return a short digest of what showings are compared by."""
    keys = sorted({one.key for one in showings})
    return hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:12]


def compare(pinned: Iterable[Showing], later: Iterable[Showing]) -> str:
    """Tell whether two versions show the same: UNCHANGED, VARIES (they overlap) or DIFFERENT."""
    before, after = {one.key for one in pinned}, {one.key for one in later}
    if before == after and len(before) == 1:
        return UNCHANGED
    return VARIES if before & after else DIFFERENT


def status(name: str, pinned: Recording, later: Recording) -> str:
    """Compare an item of two recordings; STALE if they were not made of the same program."""
    before, after = pinned.items.get(name), later.items[name]
    if before is None or before.program != after.program:
        return STALE
    if not after.pinned:
        return compare(before.showings, after.showings)
    return UNCHANGED if after.pinned == digest(before.showings) else STALE


# ---- Files ---------------------------------------------------------------------------------------


def file_of(version: str, folder: Path = FOLDER) -> Path:
    """Return where the recording of a version is kept."""
    return folder / f"torch-{version}.json"


def read(path: Path) -> Recording:
    """Read a recording. Raises ValueError with the file's name if it is none."""
    try:
        data = json.loads(path.read_text("utf-8"))
        items = {name: _seen(entry) for name, entry in data.pop("items").items()}
        return Recording(**data, items=items)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        again = f"record it anew: nox -s drift -- {path.stem.removeprefix('torch-')}"
        raise ValueError(f"{path.name} is no recording ({error!r}); {again}") from error


def _seen(entry: dict) -> Seen:
    shown = entry.get("showings", ())
    showings = tuple(Showing(one["outcome"], "\n".join(one["text"]), one["times"]) for one in shown)
    return Seen(entry["program"], showings, entry.get("pinned", ""))


def write(recording: Recording, folder: Path = FOLDER) -> Path:
    """Write a recording; a reader sees the old one or the new one. Return its file."""
    path = file_of(recording.version, folder)
    data = {
        name: getattr(recording, name) for name in ("torch", "python", "system", "since", "date")
    }
    data["items"] = {name: _entry(seen) for name, seen in sorted(recording.items.items())}
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        part.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _entry(seen: Seen) -> dict:
    if seen.pinned:
        return {"program": seen.program, "pinned": seen.pinned}
    shown = [
        {"outcome": one.outcome, "times": one.times, "text": one.text.split("\n")}
        for one in seen.showings
    ]
    return {"program": seen.program, "showings": shown}


def read_all(folder: Path = FOLDER) -> list[Recording]:
    """Read every recording, oldest version first: the first is the pinned one."""
    found = [read(path) for path in folder.glob("torch-*.json")]
    return sorted(found, key=lambda one: [int(n) for n in re.findall(r"\d+", one.version)])
