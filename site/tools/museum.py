"""The museum's exhibits, read from its pages: what breaks, what is fixed, what is tallied.

An exhibit is a section of a page in FOLDER. Its heading ends in `{ #slug }`; its fences have the
ids `slug-broken` and `slug-fixed`. A program whose outcome varies from run to run cannot be a
fence, which declares one outcome: it is a code block with a title, run by `museum_tally.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from distlab.spmd import Outcome, texts
from press import scan
from press.fences import Fence
from press.project import CONTENT, COURSE
from press.scan import Block, Scan

FOLDER = COURSE / "museum"
RUN = ("python", "bash")
HEADING = re.compile(r"^## (?P<title>.+?) \{ #(?P<slug>[\w-]+) \}$", re.MULTILINE)


@dataclass(frozen=True)
class Exhibit:
    """One section of a wing.

    page:    the page's file name
    text:    its Markdown, from the heading to the next
    broken:  the fence that fails as it declares; None where the outcome varies
    fixed:   the fence that shows the right behaviour
    tallied: the programs whose outcome varies
    """

    slug: str
    title: str
    page: str
    text: str
    broken: Fence | None
    fixed: Fence | None
    tallied: tuple[Block, ...] = ()

    @property
    def fences(self) -> tuple[Fence, ...]:
        """The fences that it has."""
        return tuple(fence for fence in (self.broken, self.fixed) if fence)


def wings() -> list[Path]:
    """Return the pages that hold exhibits."""
    return [path for path in sorted(FOLDER.glob("*.md")) if path.stem != "index"]


def exhibits() -> list[Exhibit]:
    """Return every exhibit, in the order of the pages."""
    return [exhibit for path in wings() for exhibit in _of_page(path)]


def _of_page(path: Path) -> list[Exhibit]:
    text = path.read_text()
    scanned = scan.file(path, CONTENT)
    fences = {fence.id: fence for fence in scanned.fences}
    headings = list(HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return [
        Exhibit(
            slug := heading["slug"],
            heading["title"],
            path.name,
            text[(begin := heading.start()) : end],
            fences.get(f"{slug}-broken"),
            fences.get(f"{slug}-fixed"),
            tuple(block for block in _tallied(scanned) if f"\n{block.code}\n" in text[begin:end]),
        )
        for heading, end in zip(headings, ends, strict=True)
    ]


def _tallied(scanned: Scan) -> Iterator[Block]:
    return (block for block in scanned.blocks if block.title and block.language in RUN)


def tallied() -> dict[str, tuple[str, str]]:
    """Return language and text of each program whose outcome varies, by its title."""
    blocks = [block for path in wings() for block in _tallied(scan.file(path, CONTENT))]
    return {block.title: (block.language, f"{block.code}\n") for block in blocks}


def shown_program(name: str) -> tuple[str, str]:
    """Return language and text of a tallied program, or of the fence with this id."""
    fences = [fence for exhibit in exhibits() for fence in exhibit.fences]
    return (tallied() | {fence.id: (fence.language, fence.code) for fence in fences})[name]


def said(outcome: Outcome, code: str) -> str:
    """Return all that was said and where ranks stood, each line after its rank: "0: loss 1.0"."""
    lines = []
    for rank in outcome.ranks:
        text = texts.normalise(rank.stdout) + texts.normalise(rank.stderr)
        if rank.killed:
            text += texts.where_it_stood(rank.stack, code)
        if rank.exit and not rank.killed:
            text += f"exit status {rank.exit}"
        lines += [f"{rank.rank}: {line}" for line in text.splitlines()]
    return "\n".join(lines)
