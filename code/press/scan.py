"""What the Markdown of a page asks for: the one parser of code blocks.

A block is found as superfences finds it; its header is read by `press.fences`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from press.fences import Fence, FenceError, Problem, read_header

OPENING = re.compile(
    r"^(?P<prefix>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(?P<fence>`{3,}|~{3,})[ \t]*"
    r"(?P<language>[\w#.+-]*)(?P<info>[^`]*)$"
)
SNIPPET = "--8<--"


@dataclass(frozen=True)
class Scan:
    """What the Markdown of one page asks for.

    markdown: the same text, with `at="FILE:LINE"` added to each executed header
    """

    markdown: str
    fences: tuple[Fence, ...]
    problems: tuple[Problem, ...]


@dataclass
class _Open:
    """The code block that a scan is inside of."""

    at: str
    index: int
    opening: re.Match
    body: list[str] = field(default_factory=list)

    def closes(self, line: str) -> bool:
        return line.strip(" \t>") == self.opening["fence"]


def page(markdown: str, file: str, offset: int = 0) -> Scan:
    """Find the fences of a page as superfences finds them.

    markdown: the page, without its front matter
    file:     its name in reports, "content/page.md"
    offset:   how many lines of front matter stand before it
    """
    lines, fences, problems = markdown.split("\n"), [], []
    block: _Open | None = None
    for index, line in enumerate(lines):
        at = f"{file}:{index + 1 + offset}"
        opening = OPENING.match(line)
        if block is None:
            block = _Open(at, index, opening) if opening else None
        elif block.closes(line):
            _read(block, lines, fences, problems)
            block = None
        elif opening and _swallowed(block, opening):
            problems.append(_unclosed(block, f"this code block is not closed before {at}"))
            block = _Open(at, index, opening)
        else:
            block.body.append(line)
    if block:
        problems.append(_unclosed(block, "this code block is never closed"))
    return Scan("\n".join(lines), tuple(fences), tuple(problems))


def _unclosed(block: _Open, what: str) -> Problem:
    return Problem(block.at, what, todo=f"close it with {block.opening['fence']}")


def _swallowed(block: _Open, opening: re.Match) -> bool:
    """Tell whether a header inside a block was meant to be executed, so the block lacks its end."""
    return opening["fence"] == block.opening["fence"] and "exec" in opening["info"]


def _read(block: _Open, lines: list[str], fences: list[Fence], problems: list[Problem]) -> None:
    opening = block.opening
    try:
        fence = read_header(block.at, opening["language"], opening["info"], _text(block))
    except FenceError as error:
        problems.append(Problem(block.at, str(error)))
        return
    if fence:
        fences.append(fence)
        # superfences gives a formatter no line number, so it travels as an option.
        lines[block.index] = f'{lines[block.index].rstrip()} at="{block.at}"'


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


def file(path: Path, content: Path) -> Scan:
    """Scan a page on disk; places are named relative to the folder that holds `content`."""
    text = path.read_text()
    offset = front_matter(text)
    body = "\n".join(text.split("\n")[offset:])
    return page(body, path.relative_to(content.parent).as_posix(), offset)


def folder(content: Path) -> Scan:
    """Scan every page of a folder; the result's markdown is empty."""
    scans = [file(path, content) for path in sorted(content.rglob("*.md"))]
    fences = tuple(fence for page in scans for fence in page.fences)
    problems = tuple(problem for page in scans for problem in page.problems)
    return Scan("", fences, problems)
