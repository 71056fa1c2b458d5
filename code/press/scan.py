"""What the Markdown of a page asks for: the one parser of code blocks.

A block is found as superfences finds it; its header is read by `press.fences`. Whoever asks what a
page runs, what it only shows, or what is prose, asks here: `text`, `file` and `folder`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

from press import snippets
from press.fences import Fence, FenceError, Problem, read_header

OPENING = re.compile(
    r"^(?P<prefix>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(?P<fence>`{3,}|~{3,})[ \t]*"
    r"(?P<language>[\w#.+-]*)(?P<info>[^`]*)$"
)
SNIPPET = "--8<--"
TITLE = re.compile(r"""\btitle=["']([^"']*)""")


@dataclass(frozen=True)
class Block:
    """A code block that is shown and not executed.

    code: its text; None if it includes a snippet
    """

    at: str
    language: str
    title: str
    code: str | None


@dataclass(frozen=True)
class Scan:
    """What the Markdown of one page asks for.

    markdown: the same text, with `at="FILE:LINE"` added to each executed header
    prose:    the file's lines, those of front matter and code blocks made empty
    blocks:   the code blocks that are only shown
    """

    markdown: str
    prose: str
    fences: tuple[Fence, ...]
    blocks: tuple[Block, ...]
    problems: tuple[Problem, ...]

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the fences."""
        return frozenset(fence.id for fence in self.fences if fence.id)


@dataclass
class _Open:
    """The code block that a scan is inside of."""

    at: str
    index: int
    opening: re.Match
    body: list[str] = field(default_factory=list)

    def closes(self, line: str) -> bool:
        return line.strip(" \t>") == self.opening["fence"]


class _Page:
    """A page while it is read."""

    def __init__(self, markdown: str, offset: int) -> None:
        self.lines, self.offset = markdown.split("\n"), offset
        self.prose = list(self.lines)
        self.fences: list[Fence] = []
        self.blocks: list[Block] = []
        self.problems: list[Problem] = []

    def read(self, block: _Open) -> None:
        """Take a whole block."""
        opening = block.opening
        end = block.index + len(block.body) + 2
        self.prose[block.index : end] = [""] * (end - block.index)
        try:
            fence = read_header(block.at, opening["language"], opening["info"], _text(block))
        except FenceError as error:
            self.problems.append(Problem(block.at, str(error)))
            self._tell_place(block)
            return
        if fence:
            self.fences.append(fence)
            self._tell_place(block)
        else:
            title = TITLE.search(opening["info"])
            shown = Block(block.at, opening["language"], title[1] if title else "", _text(block))
            self.blocks.append(shown)

    def _tell_place(self, block: _Open) -> None:
        """Let the place travel as an option: superfences gives a formatter no line number."""
        self.lines[block.index] = f'{self.lines[block.index].rstrip()} at="{block.at}"'

    def unclosed(self, block: _Open, what: str) -> None:
        """Note a block without an end."""
        todo = f"close it with {block.opening['fence']}"
        self.problems.append(Problem(block.at, what, todo=todo))

    def scan(self) -> Scan:
        """Return what was read."""
        prose = "\n" * self.offset + "\n".join(self.prose)
        listed = map(tuple, (self.fences, self.blocks, self.problems))
        return Scan("\n".join(self.lines), prose, *listed)


def page(markdown: str, file: str, offset: int = 0) -> Scan:
    """Find the code blocks of a page as superfences finds them.

    markdown: the page, without its front matter
    file:     its name in reports, "content/page.md"
    offset:   how many lines of front matter stand before it
    """
    reading = _Page(markdown, offset)
    block: _Open | None = None
    for index, line in enumerate(list(reading.lines)):
        at = f"{file}:{index + 1 + offset}"
        opening = OPENING.match(line)
        if block is None:
            block = _Open(at, index, opening) if opening else None
        elif block.closes(line):
            reading.read(block)
            block = None
        elif opening and _swallowed(block, opening):
            reading.unclosed(block, f"this code block is not closed before {at}")
            block = _Open(at, index, opening)
        else:
            block.body.append(line)
    if block:
        reading.unclosed(block, "this code block is never closed")
    return reading.scan()


def _swallowed(block: _Open, opening: re.Match) -> bool:
    """Tell whether a header inside a block was meant to be executed, so the block lacks its end."""
    return opening["fence"] == block.opening["fence"] and "exec" in opening["info"]


def _text(block: _Open) -> str | None:
    """Return a block's text without the prefix of what it is nested in; None with a snippet."""
    prefix = block.opening["prefix"]
    nesting = re.compile(rf"^[ \t>]{{0,{len(prefix)}}}")
    text = "\n".join(nesting.sub("", line) if line.strip(" \t>") else "" for line in block.body)
    return None if SNIPPET in text else text


def front_matter(text: str) -> int:
    """Return how many lines the front matter of a page takes."""
    match = re.match(r"---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*\n", text, re.DOTALL)
    return match[0].count("\n") if match else 0


@functools.lru_cache(maxsize=256)
def text(source: str, file: str) -> Scan:
    """Scan a page with its front matter; `file` is its name in reports."""
    offset = front_matter(source)
    return page("\n".join(source.split("\n")[offset:]), file, offset)


def file(path: Path, content: Path) -> Scan:
    """Scan a page on disk; places are named relative to the folder that holds `content`."""
    return text(path.read_text("utf-8"), path.relative_to(content.parent).as_posix())


def pages(content: Path) -> dict[str, Scan]:
    """Scan every page of a folder, by its name in reports."""
    paths = sorted(path for path in content.rglob("*.md") if not snippets.is_part(path))
    return {path.relative_to(content.parent).as_posix(): file(path, content) for path in paths}


def folder(content: Path) -> Scan:
    """Scan every page of a folder as if all were one; the result holds no text."""
    scans = pages(content).values()
    together = (
        tuple(each for page in scans for each in getattr(page, name))
        for name in ("fences", "blocks", "problems")
    )
    return Scan("", "", *together)
