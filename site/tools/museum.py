"""The museum's exhibits, read from its pages: what breaks, what is fixed, what is tallied.

An exhibit is a section of a page in FOLDER. Its heading ends in `{ #slug }`; its fences have the
ids `slug-broken` and `slug-fixed`. A program whose outcome varies from run to run cannot be a
fence, which declares one outcome: it is a code block with a title, run by record.tally. What is
seen of it is said in museum.py of a module; its line in the guide and in the symptom index stands
on these pages, or in a part of theirs that the module brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from distlab.spmd import Outcome, texts
from press import modules, scan, snippets
from press.fences import Fence
from press.modules import Module
from press.project import CONTENT, COURSE, ROOT
from press.scan import Block, Scan

Patterns = dict[str, tuple[str, ...]]
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


def guide() -> str:
    """Return the Markdown of the museum's first page, parts of modules included."""
    return snippets.whole(FOLDER / "index.md", ROOT)


def symptom_index() -> str:
    """Return the Markdown of the symptom index, parts of modules included."""
    return snippets.whole(COURSE / "symptoms.md", ROOT)


def expected() -> tuple[Patterns, Patterns]:
    """Return what the exhibits of all modules show, broken and fixed, by their slugs."""
    broken, fixed = {}, {}
    for module in _with_exhibits():
        shown = module.load("museum")
        broken |= shown.BROKEN
        fixed |= shown.FIXED
    return broken, fixed


def _with_exhibits() -> list[Module]:
    return [each for each in modules.everything() if (each.folder / "museum.py").is_file()]


def faults() -> list[str]:
    """Return a sentence for each exhibit that is expected and not there, or not listed."""
    there = {exhibit.slug for exhibit in exhibits()}
    gone = [
        f"{module} has no exhibit {slug!r}, which its museum.py expects: it belongs on a page as "
        f"content/courses/pytorch/museum/{module.number}_*.md"
        for module in _with_exhibits()
        for slug in sorted(_slugs(module) - there)
    ]
    strange = [
        f"the guide lists {place}, which is no exhibit"
        for _, place in _listed()
        if place.partition("#")[2] not in there
    ]
    return [*gone, *strange, *(fault for exhibit in exhibits() for fault in _unlisted(exhibit))]


def _slugs(module: Module) -> set[str]:
    shown = module.load("museum")
    return shown.BROKEN.keys() | shown.FIXED.keys()


def _listed() -> list[tuple[str, str]]:
    """Return title and place of each exhibit in the guide."""
    return re.findall(r"^- \[(.+)\]\((\w+\.md#[\w-]+)\)$", guide(), re.MULTILINE)


def _unlisted(exhibit: Exhibit) -> Iterator[str]:
    number = modules.number_of(exhibit.page) or "NN"
    place = f"{exhibit.page}#{exhibit.slug}"
    if exhibit.fences and exhibit.slug not in set().union(*expected()):
        yield f"no site/modules/{number}_*/museum.py says what {place} shows"
    if _listed().count((exhibit.title, place)) != 1:
        yield (
            f"{place} is not listed once, under its title, in the guide: its line belongs on "
            f"index.md or in content/courses/pytorch/museum/index/{number}_*.md"
        )
    if f"(museum/{place})" not in symptom_index():
        yield (
            f"{place} is not reached from the symptom index: its line belongs on symptoms.md or "
            f"in content/courses/pytorch/symptoms/{number}_*.md"
        )


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
