"""What the HTML of a page holds: the fences it shows, its links and anchors, and stray fences."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from html.parser import HTMLParser

RAW_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
VERBATIM = {"code", "pre", "script", "style", "textarea"}


@dataclass(frozen=True)
class Reference:
    """An address in an attribute `href`, `src`, or `data-src`, which page.js fetches.

    text: the words of the link, or the element's name where it has none
    at:   the place of the fence that it stands in, or ""
    """

    address: str
    text: str
    at: str


@dataclass(frozen=True)
class Rendered:
    """What one page holds.

    places: where the fences that it shows stand in the sources
    raw:    the first lines of what looks like a code block and is text
    """

    places: frozenset[str]
    raw: tuple[str, ...]
    links: tuple[Reference, ...]
    anchors: frozenset[str]


class _Reader(HTMLParser):
    """Collects all that while the page goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []
        self.raw: list[str] = []
        self.anchors: list[str] = []
        self.links: list[Reference] = []
        self.verbatim = 0
        self.boxes: list[str] = []  # for each open div the fence it belongs to
        self.address: str | None = None  # of the link that is open
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.verbatim += tag in VERBATIM
        if place := given.get("data-at"):
            self.places.append(place)
        if tag == "div":
            self.boxes.append(place or self._place())
        self.anchors += filter(None, (given.get("id"), given.get("name") if tag == "a" else None))
        if tag == "a":
            self.address, self.text = given.get("href"), ""
        elif address := given.get("href") or given.get("src") or given.get("data-src"):
            self.links.append(Reference(address, f"<{tag}>", self._place()))

    def handle_endtag(self, tag: str) -> None:
        self.verbatim -= tag in VERBATIM
        if tag == "div" and self.boxes:
            self.boxes.pop()
        if tag == "a" and self.address is not None:
            words = " ".join(self.text.split()) or "<a>"
            self.links.append(Reference(self.address, words, self._place()))
            self.address = None

    def handle_data(self, data: str) -> None:
        self.text += data if self.address is not None else ""
        if not self.verbatim and (match := RAW_FENCE.search(data)):
            self.raw.append(data[match.start() :].strip().split("\n")[0])

    def _place(self) -> str:
        return self.boxes[-1] if self.boxes else ""


@functools.lru_cache(maxsize=1024)  # while pages are served, most stay as they were
def read(html: str) -> Rendered:
    """Return what a page holds."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return Rendered(
        frozenset(reader.places),
        tuple(reader.raw),
        tuple(reader.links),
        frozenset(reader.anchors),
    )
