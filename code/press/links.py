"""The links of a built site: each must lead to a file of the site, and to an anchor in it.

It does not matter who wrote a link: an author, a fence, the theme. Links to other hosts are left
alone, for a build asks nothing of the network.
"""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from press.fences import Problem
from press.rendered import Reference, Rendered


@dataclass(frozen=True)
class BuiltSite:
    """What a built site holds.

    files: all of it, as "courses/pytorch/index.html"
    pages: what its HTML files hold
    base:  the path below which it is published, for addresses that begin with a slash
    """

    files: Set[str]
    pages: Mapping[str, Rendered]
    base: str = "/"

    def dead(self, page: str, link: Reference) -> tuple[str, str] | None:
        """Return what is wrong with a link of a page and what to write instead, or None."""
        url = urlsplit(link.address)
        if url.scheme or url.netloc:
            return None
        target = self._target(page, unquote(url.path))
        if target not in self.files:
            return f"there is no file {target} on the site", self._near(page, target, url.fragment)
        anchor = unquote(url.fragment)
        if anchor in ("", "top") or target not in self.pages:
            return None
        if anchor not in self.pages[target].anchors:
            near = difflib.get_close_matches(anchor, self.pages[target].anchors, 1)
            return f"{target} has no anchor #{anchor}", f"#{near[0]}" if near else ""
        return None

    def _target(self, page: str, path: str) -> str:
        if not path:
            return page
        below = path.removeprefix(self.base.rstrip("/") + "/") if path.startswith("/") else None
        folder = "" if below is not None else posixpath.dirname(page)
        target = posixpath.normpath(posixpath.join(folder, path if below is None else below))
        index = "index.html" if target == "." else f"{target}/index.html"
        return index if index in self.files else target

    def _near(self, page: str, target: str, anchor: str) -> str:
        suffix = PurePosixPath(target).suffix
        as_page = PurePosixPath(target).with_suffix(".html").as_posix()
        near = [as_page] if as_page in self.files else []
        alike = [file for file in self.files if PurePosixPath(file).suffix == suffix]
        near = near or difflib.get_close_matches(target, alike, 1)
        if not near:
            return ""
        path = posixpath.relpath(near[0], posixpath.dirname(page) or ".")
        there = near[0] in self.pages and anchor in self.pages[near[0]].anchors
        return f"{path}#{anchor}" if there else path


def problems(site: BuiltSite, sources: Mapping[str, str]) -> list[Problem]:
    """Return a problem for each dead link; `sources` are the names of pages in reports."""
    return [
        _problem(link, link.at or sources.get(name, name), *wrong)
        for name, page in sorted(site.pages.items())
        for link in dict.fromkeys(page.links)
        if (wrong := site.dead(name, link))
    ]


def _problem(link: Reference, at: str, wrong: str, near: str) -> Problem:
    what = f"the link {link.text!r} leads to {link.address}, and {wrong}"
    todo = f"did you mean {near}?" if near else "mend it where it is written, or remove it"
    return Problem(at, what, todo=todo)
