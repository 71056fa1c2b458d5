"""Markdown extension: `[[not-compared]]`, alone in a paragraph, on the page of versions.

It becomes the list of what was written or changed since it was recorded, or nothing. Only the
build can say that, for it depends on every page; a fence that read them all would run again after
every edit of prose.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

from press import scan
from press.drift import page
from press.project import CONTENT

MARK = "[[not-compared]]"


class NotCompared(Treeprocessor):
    """Replace the paragraph."""

    def run(self, root: Element) -> None:
        """Change `root` in place."""
        for paragraph in [p for p in root.findall("p") if (p.text or "").strip() == MARK]:
            names = page.not_compared(scan.folder(CONTENT).fences)
            if names:
                _list(paragraph, names)
            else:
                root.remove(paragraph)


def _list(paragraph: Element, names: list[str]) -> None:
    paragraph.text = "Written or changed since they were recorded, so not compared here: "
    for number, name in enumerate(names):
        word, address = page.address(name)
        element = SubElement(paragraph, "a", {"href": address}) if address else paragraph
        code = SubElement(element, "code")
        code.text = AtomicString(word)
        (element if address else code).tail = "." if number == len(names) - 1 else ", "


class NotComparedExtension(Extension):
    """Registers the processor."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, the name is Markdown's
        """Register the processor with `md`: before inline text, after which no mark is left."""
        md.treeprocessors.register(NotCompared(md), "not_compared", 25)


def makeExtension(**settings: object) -> NotComparedExtension:  # noqa: N802, the name is Markdown's
    """Return the extension (Markdown calls this)."""
    return NotComparedExtension(**settings)
