"""Markdown extension: what a claim rests on, as a mark behind it.

An author writes, behind a sentence or in the last cell of a table row,

    [[ran:ring]]          a fence of this page with the id `ring` asserts it on every build
    [[src:ddp-paper]]     read in the source `ddp-paper` of a file of SOURCES
    [[judged]]            experience, or a definition of terms
    [[not-run]]           nothing here executes it: it needs a GPU, or was measured once elsewhere

and, alone in a paragraph, `[[sources]]` for the numbered list of the sources that the page uses.
An unknown fence, source or mark is a fault of the page (see `page_extension.problems`).
"""

from __future__ import annotations

import functools
import html
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.treeprocessors import Treeprocessor

from press import not_compared, page_extension, scan
from press.fences import Problem
from press.project import SITE

MARK = r"\[\[(?P<kind>[a-z-]+)(?::(?P<name>[\w.-]+))?\]\]"
SOURCE_MARK = re.compile(r"\[\[src:([\w.-]+)\]\]")
VERBATIM = re.compile(r"(`+)(?:(?!\n\s*\n).)+?(?<!`)\1(?!`)|<!--.*?-->", re.DOTALL)
LIST = "[[sources]]"
PARAGRAPHS = (LIST, not_compared.MARK)
"""What stands alone in a paragraph, and is no mark behind a claim."""

SOURCES = ("modules/*/sources.toml", "sources/*.toml")
"""Where sources are defined, below site/: those of modules, and those of single pages."""

KINDS = "[[ran:FENCE]], [[src:NAME]], [[judged]] or [[not-run]]"


@dataclass(frozen=True)
class Source:
    """Something that was read: a pinned file and line, a paper, a page; `accessed` is a date."""

    name: str
    title: str
    url: str
    accessed: str


def files(folder: Path = SITE) -> list[Path]:
    """Return the files of SOURCES."""
    return sorted(path for pattern in SOURCES for path in folder.glob(pattern))


@functools.cache
def sources(folder: Path = SITE) -> dict[str, Source]:
    """Read every file of SOURCES. Raises ValueError for a name that stands twice."""
    known: dict[str, Source] = {}
    for path in files(folder):
        table = tomllib.loads(path.read_text())
        accessed = table.pop("accessed")
        for name, entry in table.items():
            if name in known:
                raise ValueError(
                    f"{path.relative_to(folder)}: the source {name!r} is defined before; rename one"
                )
            known[name] = Source(name, **{"accessed": accessed, **entry})
    return known


def used_sources(source: str) -> dict[str, int]:
    """Return the number of each source that a page's text marks, by its first use."""
    names = dict.fromkeys(SOURCE_MARK.findall(scan.text(source, "").prose))
    return {name: number for number, name in enumerate(names, 1)}


def faults(page: scan.Scan, file: str) -> list[Problem]:
    """Return the marks of a page that mean nothing, which a look at its text tells.

    What an included file marks is seen when the page is rendered.
    """
    prose = VERBATIM.sub(lambda match: "\n" * match[0].count("\n"), page.prose)
    return [
        Problem(f"{file}:{number}", fault)
        for number, line in enumerate(prose.split("\n"), 1)
        for mark in re.finditer(MARK, line)
        if line.strip() not in PARAGRAPHS and (fault := _fault(page, mark))
    ]


def _fault(page: scan.Scan, mark: re.Match[str]) -> str:
    """Return why a mark means nothing, or ""."""
    kind, name = mark["kind"], mark["name"] or ""
    known = {"ran": name in page.ids, "src": name in sources()}
    if known.get(kind, mark[0] in ("[[judged]]", "[[not-run]]")):
        return ""
    return _reason(kind, name, mark[0])


class Marks(InlineProcessor):
    """Turn each mark into a link or a span; its words say everything, also on paper."""

    def handleMatch(self, match: re.Match[str], data: str):  # noqa: N802, Markdown's name
        """Return the element for one mark."""
        markup = self._markup(match, match["kind"], match["name"])
        # Raw HTML: MkDocs, which checks the links that Markdown makes, sees no anchor of a fence.
        return self.md.htmlStash.store(markup), match.start(0), match.end(0)

    def _markup(self, mark: re.Match[str], kind: str, name: str | None) -> str:
        faults = page_extension.PageFaults(self.md)
        if fault := _fault(scan.text(faults.source, faults.name), mark):
            return faults.add(mark[0], fault)
        if kind == "ran":
            return _link("executed", "executed", f"#fence-{name}", f"asserted by the fence {name}")
        if kind == "src":
            number = used_sources(faults.source).get(name, "")
            title = f"{sources()[name].title}; accessed {sources()[name].accessed}"
            return _link("source", f"source {number}", sources()[name].url, title)
        if kind == "judged":
            return _span("judgement", "judgement")
        return _span("not-executed", "not executed here")


def _reason(kind: str, name: str, written: str) -> str:
    if kind == "ran":
        return f"{written}: no fence of this page has the id {name!r}; name the one that asserts it"
    if kind == "src":
        return f"{written}: no source is named {name!r}; add it to the sources.toml of the module"
    return f"{written} is no mark; write {KINDS}"


def _link(kind: str, words: str, address: str, title: str) -> str:
    address, title = html.escape(address), html.escape(title)
    return f'<a class="mark mark-{kind}" href="{address}" title="{title}">{words}</a>'


def _span(kind: str, words: str) -> str:
    return f'<span class="mark mark-{kind}">{words}</span>'


class SourceList(Treeprocessor):
    """Replace the paragraph `[[sources]]` by the list of the sources that the page uses."""

    def run(self, root: Element) -> None:
        """Change `root` in place."""
        used = used_sources(page_extension.PageFaults(self.md).source)
        for paragraph in root.iter("p"):
            if (paragraph.text or "").strip() == LIST:
                paragraph.tag, paragraph.text = "ol", None
                paragraph.set("class", "sources")
                for name in used:
                    if name in sources():
                        _item(paragraph, sources()[name])


def _item(parent: Element, source: Source) -> None:
    item = SubElement(parent, "li", {"id": f"source-{source.name}"})
    link = SubElement(item, "a", {"href": source.url})
    link.text = source.title
    link.tail = f" (accessed {source.accessed})"


class Evidence(Extension):
    """Registers both."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, the name is Markdown's
        """Register the processors with `md`: after code spans, before links."""
        md.inlinePatterns.register(Marks(MARK, md), "evidence_marks", 175)
        md.treeprocessors.register(SourceList(md), "evidence_sources", 25)  # before inline text


def makeExtension(**settings: object) -> Evidence:  # noqa: N802, the name is Markdown's
    """Return the extension (Markdown calls this)."""
    return Evidence(**settings)
