"""The glossary's terms, each linked where a page first uses it, with its definition at hand.

`content/glossary.md` is the one source: a definition list that readers see as a page, and whose
entries this module reads. An entry is

    all-reduce { #all-reduce data-also="all_reduce" }
    :   Every rank contributes a tensor and every rank receives the sum.

A term on a page becomes a link to its entry, so that keyboard and touch need no script, beside a
tooltip that CSS shows on hover and on focus.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

from press.project import CONTENT

SOURCE = CONTENT / "glossary.md"
ENTRY = re.compile(
    r'^(?P<term>[^\s:#{][^\n{]*?) \{ #(?P<anchor>[\w-]+)(?: data-also="(?P<also>[^"]*)")? \}\n'
    r":   (?P<definition>.+(?:\n    .+)*)",
    re.MULTILINE,
)
PROSE = {"p", "li", "dd"}  # not headings, links, code, table cells (which clip a tooltip)
NESTED = {"ul", "ol", "div", "blockquote", "dl"}


@dataclass(frozen=True)
class Term:
    """One entry: how it is written, where it is defined and what it means (plain text)."""

    name: str
    anchor: str
    also: tuple[str, ...]
    definition: str


def read_terms(source: str) -> tuple[Term, ...]:
    """Return the entries of a glossary page, in the page's order."""
    return tuple(
        Term(
            name=entry["term"],
            anchor=entry["anchor"],
            also=tuple(filter(None, (entry["also"] or "").split(", "))),
            definition=re.sub(r"[`*]", "", " ".join(entry["definition"].split())),
        )
        for entry in ENTRY.finditer(source)
    )


@functools.cache
def terms_by_spelling(path: Path, changed: int) -> tuple[dict[str, Term], re.Pattern[str] | None]:
    """Return each spelling's term, and the pattern that finds them; `changed` renews the cache."""
    terms = read_terms(path.read_text("utf-8"))
    spelled = {name.lower(): term for term in terms for name in (term.name, *term.also)}
    longest_first = "|".join(re.escape(name) for name in sorted(spelled, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w-])({longest_first})(?:s|es)?(?![\w-])", re.IGNORECASE)
    return spelled, pattern if terms else None


class TermLinks(Treeprocessor):
    """Link each term where the page first uses it in running text."""

    source = SOURCE

    def __init__(self, md: Markdown, page: Callable[[], str]) -> None:
        """Work for `md`; `page` tells, once it converts, the path of the page below content/."""
        super().__init__(md)
        self._page = page

    def run(self, root: Element) -> None:
        """Rewrite the page's element tree in place."""
        if not self.source.exists() or root.find(".//dt[@id]") is not None:
            return  # the glossary does not link to itself
        spelled, pattern = terms_by_spelling(self.source, self.source.stat().st_mtime_ns)
        self._spelled, self._pattern, self._seen = spelled, pattern, set()
        self._glossary = posixpath.relpath(SOURCE.name, posixpath.dirname(self._page()) or ".")
        if pattern:
            for element in list(prose(root)):
                self._link(element)

    def _link(self, element: Element) -> None:
        """Link the terms in an element's text and after each of its children."""
        element.text, content = self._split(element.text)
        for child in list(element):
            child.tail, linked = self._split(child.tail)
            content += [child, *linked]
        element[:] = content

    def _split(self, text: str | None) -> tuple[str | None, list[Element]]:
        """Return the text before the first new term; and as elements, it and later new ones."""
        if not text or isinstance(text, AtomicString):
            return text, []
        before, linked, end = text, [], 0
        for match in self._pattern.finditer(text):
            term = self._spelled[match[1].lower()]
            if term.anchor in self._seen:
                continue
            self._seen.add(term.anchor)
            between, end = text[end : match.start()], match.end()
            if linked:
                linked[-1].tail = between
            else:
                before = between
            linked.append(term_link(term, match[0], self._glossary))
        if linked:
            linked[-1].tail = text[end:]
        return before, linked


def prose(element: Element) -> Iterator[Element]:
    """Yield the elements under `element` whose own text is running text, in the page's order."""
    for child in element:
        if child.tag in PROSE:
            yield child
        if child.tag in PROSE | NESTED:
            yield from prose(child)


def term_link(term: Term, written: str, glossary: str) -> Element:
    """Return a term as written on the page, with its definition and a link into `glossary`."""
    box = Element("span", {"class": "term"})
    described_by = f"definition-{term.anchor}"
    target = {"href": f"{glossary}#{term.anchor}", "aria-describedby": described_by}
    link = SubElement(box, "a", target)
    link.text = AtomicString(written)
    attributes = {"role": "tooltip", "id": described_by, "data-search-exclude": ""}
    tip = SubElement(box, "span", attributes)
    tip.text = AtomicString(term.definition)
    return box
