"""The integrity gate: what the sources ask for was run, and is shown; everything else fails.

`scan` reads the Markdown of a page, `shown` reads its HTML, `compare` holds both against the
record of what was executed. As a command, over a built site:

    python -m distlab.gate [CONTENT [PUBLIC]]
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from distlab.fences import Fence, FenceError, Problem, read_header

OPENING = re.compile(
    r"^(?P<prefix>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(?P<fence>`{3,}|~{3,})[ \t]*"
    r"(?P<language>[\w#.+-]*)(?P<info>[^`]*)$"
)
RAW_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
SNIPPET = "--8<--"
VERBATIM = {"code", "pre", "script", "style", "textarea"}


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


def scan(markdown: str, file: str, offset: int = 0) -> Scan:
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


class _Page(HTMLParser):
    """Collects the places of executed fences, and text that looks like an unread fence."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []
        self.raw: list[str] = []
        self.verbatim = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.verbatim += tag in VERBATIM
        if place := dict(attrs).get("data-at"):
            self.places.append(place)

    def handle_endtag(self, tag: str) -> None:
        self.verbatim -= tag in VERBATIM

    def handle_data(self, data: str) -> None:
        if not self.verbatim and (match := RAW_FENCE.search(data)):
            self.raw.append(data[match.start() :].strip().split("\n")[0])


def shown(html: str, file: str) -> tuple[set[str], list[Problem]]:
    """Return the places of the fences that a page shows, and the fences left as prose."""
    page = _Page()
    page.feed(html)
    page.close()
    problems = [
        Problem(
            file,
            f"{raw!r} stands in the text of the page: it is not a code block",
            todo="check its indentation and its header",
        )
        for raw in page.raw
    ]
    return set(page.places), problems


def compare(asked: Iterable[Fence], ran: set[str], seen: set[str]) -> list[Problem]:
    """Return a problem for each fence that was asked for and not run, or run and not shown."""
    problems = []
    for fence in asked:
        if fence.at not in seen:
            what = "is in the source but not on the page"
            todo = "is it indented like code, or inside a comment?"
        elif fence.at not in ran:
            what, todo = "is on the page but was not run", "build the site again"
        else:
            continue
        problems.append(Problem(fence.at, what, fence.id, todo=todo))
    return problems


def duplicates(asked: Iterable[Fence]) -> list[Problem]:
    """Return a problem for each fence whose id another fence of its page has."""
    seen: dict[tuple[str, str], Fence] = {}
    problems = []
    for fence in asked:
        key = (fence.at.rpartition(":")[0], fence.id)
        if fence.id and key in seen:
            what = f"its id is also that of {seen[key].at}"
            problems.append(Problem(fence.at, what, fence.id, todo="give it an id of its own"))
        seen.setdefault(key, fence)
    return problems


def front_matter(text: str) -> int:
    """Return how many lines the front matter of a page takes."""
    match = re.match(r"---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*\n", text, re.DOTALL)
    return match[0].count("\n") if match else 0


def scan_file(path: Path, content: Path) -> Scan:
    """Scan a page on disk; places are named relative to the folder that holds `content`."""
    text = path.read_text()
    offset = front_matter(text)
    body = "\n".join(text.split("\n")[offset:])
    return scan(body, path.relative_to(content.parent).as_posix(), offset)


def scan_folder(content: Path) -> Scan:
    """Scan every page of a folder; the result's markdown is empty."""
    scans = [scan_file(path, content) for path in sorted(content.rglob("*.md"))]
    fences = tuple(fence for page in scans for fence in page.fences)
    problems = tuple(problem for page in scans for problem in page.problems)
    return Scan("", fences, problems)


def check_site(content: Path, public: Path) -> list[Problem]:
    """Hold a built site against its sources and its record, executions.json."""
    asked = scan_folder(content)
    record = public / "executions.json"
    if not record.exists():
        return [Problem(str(record), "there is no record of executions", todo="build the site")]
    entries = json.loads(record.read_text())
    ran = {f"{entry['file']}:{entry['line']}" for entry in entries}
    failed = [
        Problem(f"{entry['file']}:{entry['line']}", entry["outcome"], entry["id"])
        for entry in entries
        if entry["outcome"] != "as declared"
    ]
    seen: set[str] = set()
    raw: list[Problem] = []
    for path in sorted(public.rglob("*.html")):
        places, problems = shown(path.read_text(), path.relative_to(public).as_posix())
        seen |= places
        raw += problems
    return [*asked.problems, *failed, *raw, *compare(asked.fences, ran, seen)]


def main(arguments: list[str]) -> int:
    """Check a built site; print the problems and return the exit status."""
    if len(arguments) > 2 or any(word.startswith("-") for word in arguments):
        print("usage: python -m distlab.gate [CONTENT [PUBLIC]]", file=sys.stderr)
        return 2
    content, public = map(Path, (*arguments, *("content", "public")[len(arguments) :]))
    for folder in (content, public):
        if not folder.is_dir():
            rule = "name the folder of the sources, then that of the built site"
            print(f"{folder} is not a folder; {rule}", file=sys.stderr)
            return 2
    problems = check_site(content.resolve(), public)
    for problem in problems:
        print(problem)
    count = len(scan_folder(content.resolve()).fences)
    print(f"{count} fences asked for, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
