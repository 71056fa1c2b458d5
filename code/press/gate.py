"""The integrity gate: what the sources ask for was run, and is shown; everything else fails.

`scan` reads the Markdown of a page, `shown` reads its HTML, `compare` holds both against the
record of what was executed. As a command, over a built site:

    python -m press.gate [CONTENT [PUBLIC]]
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

from press import scan
from press.fences import Fence, Problem

RAW_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
VERBATIM = {"code", "pre", "script", "style", "textarea"}


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


def check_site(content: Path, public: Path) -> list[Problem]:
    """Hold a built site against its sources and its record, executions.json."""
    asked = scan.folder(content)
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
        print("usage: python -m press.gate [CONTENT [PUBLIC]]", file=sys.stderr)
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
    count = len(scan.folder(content.resolve()).fences)
    print(f"{count} fences asked for, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
