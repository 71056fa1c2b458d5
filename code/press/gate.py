"""The integrity gate: what the sources ask for was run, and is shown; everything else fails.

`scan` reads the Markdown of a page, `rendered` reads its HTML, `compare` holds both against the
record of what was executed, and `links` looks where every link leads. As a command, over a built
site:

    python -m press.gate [CONTENT [PUBLIC]]

With links that begin with a slash, as those of 404.html, it needs the SITE_URL that the site was
built with.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from press import links, rendered, scan
from press.fences import Fence, Problem


def check_pages(
    content: Path, public: Path, asked: Iterable[Fence], ran: set[str], site_url: str | None
) -> list[Problem]:
    """Hold all HTML of a built site against what was asked for and ran.

    site_url: where it will be published, or ""; None leaves the links alone
    """
    files = {path.relative_to(public).as_posix() for path in public.rglob("*") if path.is_file()}
    names = sorted(name for name in files if name.endswith(".html"))
    pages = {name: rendered.read((public / name).read_text("utf-8")) for name in names}
    sources = {name: source_name(content, name) for name in names}
    seen = {place for page in pages.values() for place in page.places}
    raw = [_unread(sources[name], line) for name, page in pages.items() for line in page.raw]
    faults = [*raw, *compare(asked, ran, seen)]
    if site_url is None:
        return faults
    site = links.BuiltSite(files, pages, urlsplit(site_url).path or "/")
    return [*faults, *links.problems(site, sources)]


def source_name(content: Path, page: str) -> str:
    """Return the name that a page, as "index.html", has in reports: that of its source."""
    source = content / Path(page).with_suffix(".md")
    return source.relative_to(content.parent).as_posix() if source.exists() else page


def _unread(file: str, line: str) -> Problem:
    return Problem(
        file,
        f"{line!r} stands in the text of the page: it is not a code block",
        todo="check its indentation and its header",
    )


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
    site_url = os.environ.get("SITE_URL", "")
    return [*asked.problems, *failed, *check_pages(content, public, asked.fences, ran, site_url)]


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
