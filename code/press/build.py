"""One build of the site: what it was asked for, what it ran, and what it found wrong."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import platform
from pathlib import Path

from press import downloads, evidence, gate, modules, page_extension, practice_zip, scan, snippets
from press.drift import page as drift
from press.drift import recordings
from press.executor import Execution, Executor
from press.fences import Fence, Problem
from press.formatter import Formatter
from press.progress import Progress

EXTENSIONS = ("press.page_extension", "press.evidence", "press.not_compared")
"""The Markdown extensions that every page is converted with."""


class BuildError(Exception):
    """The site cannot be built; the text is the report, for the author."""


class Build:
    """Collects what the pages of one build ask for and show; `root` is the project."""

    def __init__(self, root: Path, *, fresh: bool = False) -> None:
        """Know nothing of any page yet; `fresh` runs also the fences that the cache holds."""
        self.root, self.content = root, root / "content"
        self.progress = Progress("fences", logger="mkdocs")
        self.executor = Executor(root, self.progress.follow, fresh=fresh)
        self.asked: dict[str, Fence] = {}
        self.executions: dict[str, Execution] = {}
        self.problems: list[Problem] = []
        self.formatter = Formatter(self.executor, self.asked, self.executions, self.problems)

    def begin(self) -> None:
        """Read what all pages ask for, and start to run it. Raises BuildError for what is known.

        Nothing has run when a header cannot be read or a mark names nothing: all such faults are
        told at once.
        """
        _forget(_stamp())
        asked = scan.folder(self.content)
        known = [*asked.problems, *gate.duplicates(asked.fences), *self._holes()]
        for file, page in scan.pages(self.content).items():
            known += evidence.faults(page, file)
        if known:
            raise BuildError(report(known))
        self.progress.total = len(asked.fences)
        self.executor.prefetch(asked.fences)
        self.formatter.register()
        page_extension.problems()

    def _holes(self) -> list[Problem]:
        """Return what modules lack without which there is no page to build."""
        return [
            Problem(f"{modules.FOLDER}/{module.stem}", sentence)
            for module in modules.everything(self.root)
            for sentence in modules.unbuildable(module)
        ]

    def read(self, markdown: str, source: str, path: str) -> str:
        """Note what a page asks for; return its Markdown, in which each fence knows its place.

        markdown: the page without its front matter
        source:   the whole page
        path:     its path below content/
        """
        offset = source[: len(source) - len(markdown)].count("\n")
        page = scan.page(markdown, f"content/{path}", offset if source.endswith(markdown) else 0)
        self.problems += page.problems
        self.asked.update((fence.at, fence) for fence in page.fences)
        return snippets.expanded(page.markdown, self.root)

    def of_page(self, path: str) -> dict[str, Execution]:
        """Return what was executed of a page, by place."""
        prefix = f"content/{path}:"
        return {at: each for at, each in self.executions.items() if at.startswith(prefix)}

    def note_faults(self) -> None:
        """Take over the faults that Markdown extensions have met since the last call."""
        self.problems += page_extension.problems()

    def anchors(self, path: str) -> set[str]:
        """Return the anchors of the fences of a page."""
        prefix = f"content/{path}:"
        return {f"fence-{f.id}" for at, f in self.asked.items() if f.id and at.startswith(prefix)}

    def summary(self) -> str:
        """Return what was executed, in one line."""
        cached = sum(execution.cached for execution in self.executions.values())
        return f"{self.progress.summary()}; {cached} taken from the cache"

    def finish(self, public: Path, site_url: str | None) -> None:
        """Write what is beside the pages, and hold all of the site against the sources.

        public:   where MkDocs has written the pages
        site_url: where they will be published, or ""; None leaves the links alone

        Raises BuildError.
        """
        self.write_extras(public)
        asked = self.asked.values()
        unread = {problem.at for problem in self.problems}
        seen = gate.check_pages(self.content, public, asked, set(self.executions), site_url)
        self.problems += [problem for problem in seen if problem.at not in unread]
        self.problems += gate.duplicates(asked)
        self.note_faults()
        if self.problems:
            raise BuildError(report(self.problems))

    def write_extras(self, public: Path) -> None:
        """Write the downloads, and what was executed: beside the pages, because it holds times."""
        downloads.write(self.executions.values(), self.root, public)
        for module in modules.everything(self.root):
            practice_zip.write(module, public)
        versions = _versions()  # read once: it takes longer than all the rest
        entries = [_entry(execution, versions) for execution in self.executions.values()]
        (public / "executions.json").write_text(json.dumps(entries, indent=1) + "\n")


def _stamp() -> tuple[tuple[Path, int], ...]:
    """Return when what is read once was changed."""
    files = [*evidence.files(), *sorted(recordings.FOLDER.glob("*.json"))]
    return tuple((path, path.stat().st_mtime_ns) for path in files)


@functools.lru_cache(maxsize=1)  # which makes the same stamp do nothing
def _forget(stamp: tuple) -> None:
    """Read anew what is read once: while pages are served, it may have changed."""
    for read_once in (evidence.sources, drift.everything, drift.all_differences, drift.noted):
        read_once.cache_clear()


def report(problems: list[Problem]) -> str:
    """Return every problem, in the order of the pages, and their number."""
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}; no page was written."
    return "\n".join(["", *map(str, sorted(problems, key=_place)), count])


def _place(problem: Problem) -> tuple[str, int]:
    file, _, line = problem.at.rpartition(":")
    return (file, int(line)) if line.isdigit() else (problem.at, 0)


def _entry(execution: Execution, versions: dict[str, str]) -> dict:
    fence = execution.fence
    file, _, line = fence.at.rpartition(":")
    return {
        "file": file,
        "line": int(line),
        "id": fence.id,
        "ranks": fence.ranks,
        "outcome": "as declared",
        "seconds": round(execution.seconds, 3),
        "cached": execution.cached,
        "versions": versions,
    }


def _versions() -> dict[str, str]:
    return {
        "torch": importlib.metadata.version("torch"),
        "python": platform.python_version(),
        "markdown-exec": importlib.metadata.version("markdown-exec"),
    }
