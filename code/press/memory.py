"""Pages as they were rendered, kept while the site is served: only what changed is rendered again.

A rendered page is used again as long as all that it is made of is the same: its text, what it
includes, what its fences show, and what every page shares (the configuration, the glossary, the
sources, the recordings, the names of all files).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from markdown_exec import MarkdownConverter

from press import evidence, glossary, not_compared, scan
from press.drift import page as drift
from press.drift import recordings

if TYPE_CHECKING:
    from press.build import Build
    from press.executor import Execution

INCLUDED = re.compile(rf'{scan.SNIPPET}\s+"([^":\n]+)')
NUMBERED = "exec-"
"""How the ids begin that markdown-exec numbers through all pages."""


@dataclass(frozen=True)
class Remembered:
    """One page as it was rendered.

    made_of:    a digest of its text and of all that is no fence
    executions: what its fences showed, by place
    numbers:    the first number that markdown-exec gave it, and how many
    links:      MkDocs' links_to_anchors, by the linked page's path
    """

    made_of: str
    executions: dict[str, Execution]
    numbers: tuple[int, int]
    content: str
    toc: object
    title: str | None
    anchors: set[str]
    links: dict[str, dict[str, str]] | None


class Memory:
    """The pages of a site that is being served. `root` is the project."""

    def __init__(self, root: Path) -> None:
        """Remember nothing yet."""
        self.root = root
        self.pages: dict[str, Remembered] = {}
        self.rendered: list[str] = []
        self.shared = ""

    def begin(self, names: Iterable[str]) -> None:
        """Begin a build; `names` are the paths of all files of the site, below content/."""
        self.rendered = []
        digest = hashlib.sha256("\0".join(sorted(names)).encode())
        files = [self.root / "mkdocs.yml", glossary.SOURCE, *recordings.FOLDER.glob("*.json")]
        for path in sorted([*files, *evidence.files()]):
            digest.update(path.read_bytes() if path.exists() else b"")
        self.shared = digest.hexdigest()

    def render(self, build: Build, page, render: Callable, warned: Callable[[], int], *mkdocs):
        """Stand in for MkDocs' page.render: use what is remembered, or render and remember.

        warned: returns how many warnings there are so far; a page with one is rendered again
        mkdocs: the configuration and the files, as MkDocs gives them
        """
        path, made_of = page.file.src_uri, self._made_of(page.markdown)
        known = self.pages.pop(path, None)
        if known and known.made_of == made_of != "" and self._shows_again(build, known):
            self.pages[path] = known
            self._restore(page, known, mkdocs[1])
            return
        self.rendered.append(path)
        before, first = (warned(), len(build.problems)), MarkdownConverter.counter
        render(*mkdocs)
        build.note_faults()
        if (warned(), len(build.problems)) == before:
            numbers = (first, MarkdownConverter.counter - first)
            self.pages[path] = _remembered(page, made_of, build.of_page(path), numbers)

    def _made_of(self, markdown: str) -> str:
        """Return a digest of a page's text and what it includes; "" if that cannot be told."""
        digest = hashlib.sha256(f"{self.shared}\0{markdown}".encode())
        files = [self.root / name for name in INCLUDED.findall(markdown)]
        if markdown.count(scan.SNIPPET) != len(files) or not all(map(Path.is_file, files)):
            return ""
        for file in files:
            digest.update(file.read_bytes())
        if not_compared.MARK in markdown:
            fences = scan.folder(self.root / "content").fences
            digest.update("\0".join(drift.not_compared(fences)).encode())
        return digest.hexdigest()

    def _shows_again(self, build: Build, known: Remembered) -> bool:
        """Tell whether a page's fences show what they showed; note so if they do."""
        first, _ = known.numbers
        if NUMBERED in known.content and first != MarkdownConverter.counter:
            return False
        for at, execution in known.executions.items():
            fence = build.asked.get(at)
            if fence is None or build.executor.known(fence, execution.code) != execution.outcome:
                return False
        for at, execution in known.executions.items():
            fence = build.asked[at]
            build.executions[at] = replace(execution, fence=fence, cached=True, seconds=0.0)
        return True

    def _restore(self, page, known: Remembered, files) -> None:
        MarkdownConverter.counter += known.numbers[1]
        page.content, page.toc = known.content, known.toc
        page.title = known.title
        page.present_anchor_ids = set(known.anchors)
        if known.links is not None:
            links = {files.get_file_from_path(path): of for path, of in known.links.items()}
            page.links_to_anchors = links


def _remembered(
    page, made_of: str, executions: dict[str, Execution], numbers: tuple[int, int]
) -> Remembered:
    links = page.links_to_anchors
    if links is not None:
        links = {file.src_uri: of for file, of in links.items()}
    anchors = set(page.present_anchor_ids)
    return Remembered(
        made_of, executions, numbers, page.content, page.toc, page.title, anchors, links
    )
