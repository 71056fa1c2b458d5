"""A finished page without what no reader sees and every reader loads.

The data of a figure become a file beside the page, which page.js fetches when a reader comes near
the figure; the figure as it is without scripts stays in the page. White space that no browser
shows is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

DATA = re.compile(
    r'<script type="application/json">(?P<data>[^<]*(?:<(?!/script>)[^<]*)*)'
    r"</script></(?P<element>[a-z]+-[a-z-]+)>"
)
SMALL = 2_000
"""Characters of data that are not worth a request of their own."""

VERBATIM = re.compile(r"(<(pre|script|style|textarea)\b.*?</\2>)", re.DOTALL)
SPACE = r"[ \t\r\f\n]"  # not \s, in which a no-break space is
SPACES = re.compile(rf"{SPACE}{{2,}}|[\t\r\f]")
BLOCKS = (
    "article|aside|blockquote|body|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form|"
    "h[1-6]|head|header|hr|html|legend|li|link|main|meta|nav|ol|p|section|summary|table|tbody|td|"
    "th|thead|title|tr|ul"
)
AROUND_BLOCKS = re.compile(rf"{SPACE}*(</?(?:{BLOCKS})\b[^>]*>){SPACE}*")


def write(text: str, page: Path) -> str:
    """Write the data of a page's figures into the folder beside `page`; return the lighter page."""
    text, files = apart(text, page.stem)
    for name, data in files.items():
        file = page.parent / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(data, encoding="utf-8")
    return squeezed(text)


def apart(text: str, folder: str) -> tuple[str, dict[str, str]]:
    """Return a page whose figures name their data, and these files: name in `folder`, JSON."""
    files: dict[str, str] = {}
    seen: Counter[str] = Counter()

    def name(match: re.Match[str]) -> str:
        element = match["element"]
        if len(match["data"]) < SMALL:
            return match[0]
        seen[element] += 1
        number = f"-{seen[element]}" if seen[element] > 1 else ""
        file = f"{folder}/{element}{number}.json"
        files[file] = match["data"]
        return f'<script type="application/json" data-src="{file}"></script></{element}>'

    return DATA.sub(name, text), files


def squeezed(text: str) -> str:
    """Return a page without white space that is not shown: beside blocks, and after other space."""
    parts = VERBATIM.split(text)  # text, element, its name, text, ...
    parts[::3] = [SPACES.sub(_one, AROUND_BLOCKS.sub(r"\1", part)) for part in parts[::3]]
    del parts[2::3]
    return "".join(parts)


def _one(space: re.Match[str]) -> str:
    return "\n" if "\n" in space[0] else " "
