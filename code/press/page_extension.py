"""Markdown extension of the course pages: math as MathML, scrolling tables, glossary terms.

Everything happens while the page is built, so a page needs no script to show an equation.
Faults (a TeX typo, an image without a text, math in a heading) are collected, because Markdown
extensions swallow exceptions; whoever builds the site asks afterwards:

    page_extension.problems()  ->  [Problem("content/x.md:12", "Unknown command ..."), ...]

The call empties the list. Where nobody asks (Zensical knows no hooks), a formula that failed still
stands in the page as an element of class `page-problem`, which a check of the built site can find.
"""

from __future__ import annotations

import html
import re

from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor
from math_core import LatexError, LatexToMathML

from press import glossary
from press.fences import Problem
from press.project import CONTENT

ARITHMATEX = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\[(\[](?P<tex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL
)
TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)  # one that has no class yet
HEADING = re.compile(r"<h[1-6][^>]*>.*?</h[1-6]>", re.DOTALL)
IMAGE = re.compile(r"<img\b[^>]*>")
ALT = re.compile(r"""\balt\s*=\s*["']\s*[^"'\s]""")
BEFORE_MARK = re.compile(r'(?<=\S)\s+(?=<(?:a|span) class="mark )')  # a mark stays with its claim
SOURCE_CODE = re.compile(r'(<div class="[^"]*\bhighlight\b[^"]*">)<pre>(?:<span></span>)?')
PLAIN_TOKENS = re.compile(r'<span class="(?:kc|n|n[av]|ow?|p|sa|v[cgim]|w)">([^<]*)</span>')
TOKENS = {  # element -> the classes of Pygments that have its colour in site.css
    "b": "k[dnprt]?",
    "i": "il|m[bfhio]?",
    "u": "cpf|l|s[12bcis]?",
    "em": "n[cefn]",
    "var": "bp|n[bo]",
}
COLOURED = re.compile(
    f'<span class="(?:{"|".join(f"(?P<{name}>{classes})" for name, classes in TOKENS.items())})">'
    "(?P<text>[^<]*)</span>"
)
STRINGS = re.compile(r"(?:<u>[^<]*</u>){2,}")
TAG = re.compile(r"<[^>]*>")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
_faults: list[Problem] = []


def problems() -> list[Problem]:
    """Return the faults since the last call, and forget them."""
    faults, _faults[:] = list(dict.fromkeys(_faults)), []
    return faults


def tex_to_mathml(tex: str, display: bool) -> str:
    """Convert one TeX expression; raise ValueError with the converter's one-line reason."""
    try:
        return LatexToMathML().convert_with_local_state(tex, displaystyle=display)
    except LatexError as error:
        lines = [line for line in ANSI.sub("", str(error)).splitlines() if line.strip()]
        raise ValueError(f"{lines[0].removeprefix('Error: ')} In the formula: {tex}") from None


def lighter_code(page: str) -> str:
    """Drop what no reader sees but every reader loads; it was half of a page full of programs.

    Names, operators and punctuation have the colour of plain code, so they need no element of their
    own; the others share the short element of their colour, and the parts of a string share one.
    Programs stay out of the search index (outputs stay in: people search for error messages).
    """
    page = PLAIN_TOKENS.sub(r"\1", page)
    page = COLOURED.sub(_coloured, page)
    page = STRINGS.sub(lambda match: f"<u>{TAG.sub('', match[0])}</u>", page)
    return SOURCE_CODE.sub(r"\1<pre data-search-exclude>", page)


def _coloured(match: re.Match[str]) -> str:
    name = next(name for name in TOKENS if match[name])
    return f"<{name}>{match['text']}</{name}>"


def _mkdocs_page(md: Markdown) -> tuple[str, str] | None:
    """Return the page's path and text, which MkDocs leaves with what resolves links."""
    if "relpath" not in md.treeprocessors:
        return None
    file = md.treeprocessors["relpath"].file
    return file.src_uri, file.content_string


def _zensical_page(md: Markdown) -> tuple[str, str] | None:
    """Return the page's path and text; Zensical passes the path to extensions."""
    if "rendering_context" not in md.preprocessors:
        return None
    path = md.preprocessors["rendering_context"].page.path
    return path, (CONTENT / path).read_text("utf-8")


class PageFaults:
    """Where a fault stands: the page that is being converted and its source text."""

    def __init__(self, md: Markdown) -> None:
        # Inside an executed fence markdown-exec converts with an instance of its own.
        outer = getattr(md, "_original_md", md)
        self.path, self.source = _mkdocs_page(outer) or _zensical_page(outer) or ("", "")
        self.name = f"content/{self.path}" if self.path else "a page"

    def add(self, needle: str, message: str) -> str:
        """Record a fault in the line that holds `needle`; return the element to show instead."""
        before, found, _ = self.source.partition(needle.strip())
        line = f":{before.count(chr(10)) + 1}" if found else ""
        _faults.append(Problem(f"{self.name}{line}", message))
        return f'<strong class="page-problem">{html.escape(message)}</strong>'


class Pages(Postprocessor):
    """Rewrite the finished HTML of a page or of an executed fence; twice is as good as once."""

    def run(self, text: str) -> str:
        """Return `text` with MathML for TeX and every plain table in a box that can scroll."""
        faults = PageFaults(self.md)
        self._check(text, faults)
        text = ARITHMATEX.sub(lambda match: self._math(match, faults), text)
        text = TABLE.sub(r'<div class="wide"><table class="data">\1</table></div>', text)
        text = BEFORE_MARK.sub("&nbsp;", text)
        return lighter_code(text)

    def _math(self, match: re.Match[str], faults: PageFaults) -> str:
        tex, display = html.unescape(match["tex"]).strip(), match["tag"] == "div"
        try:
            mathml = tex_to_mathml(tex, display)
        except ValueError as error:
            return faults.add(tex, str(error))
        return f'<div class="math">{mathml}</div>' if display else mathml

    def _check(self, text: str, faults: PageFaults) -> None:
        for heading in HEADING.findall(text):
            if math := ARITHMATEX.search(heading):
                tex = html.unescape(math["tex"]).strip()
                faults.add(tex, f"math in a heading: {tex} (contents lists show TeX; use words)")
        for image in IMAGE.findall(text):
            if not ALT.search(image) and 'role="presentation"' not in image:
                source = re.search(r'src="([^"]*)"', image)
                name = source[1] if source else image
                faults.add(name, f"the image {name} has no text: write ![what it shows]({name})")


class PageExtension(Extension):
    """Registers the page's processors after those of Markdown and pymdownx."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, the name is Markdown's
        """Register the processors with `md`."""
        md.postprocessors.register(Pages(md), "course_pages", -10)  # after raw HTML is put back
        # After inline Markdown, before MkDocs resolves links.
        terms = glossary.TermLinks(md, page=lambda: PageFaults(md).path)
        md.treeprocessors.register(terms, "course_terms", 3)


def makeExtension(**settings: object) -> PageExtension:  # noqa: N802, the name is Markdown's
    """Return the extension (Markdown calls this)."""
    return PageExtension(**settings)
