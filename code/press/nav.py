"""The navigation of mkdocs.yml: an entry with a pattern stands for the pages that it matches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

Nav = list[str | dict[str, "str | Nav"]]
"""As in mkdocs.yml: a page, {title: page}, or {title: further entries}."""


def expanded(nav: Nav, content: Path) -> Nav:
    """Return the navigation with each pattern replaced by the pages that no other entry names.

    They are in the order of their names; their titles are the pages' own.
    """
    listed = set(_pages(nav))

    def expand(entries: Nav) -> Nav:
        full: Nav = []
        for entry in entries:
            if isinstance(entry, str):
                full += _matches(entry, content, listed) if "*" in entry else [entry]
            else:
                full.append({title: value if isinstance(value, str) else expand(value)
                             for title, value in entry.items()})  # fmt: skip
        return full

    return expand(nav)


def _pages(nav: Nav) -> Iterator[str]:
    for entry in nav:
        for value in [entry] if isinstance(entry, str) else entry.values():
            yield from [value] if isinstance(value, str) else _pages(value)


def _matches(pattern: str, content: Path, listed: set[str]) -> list[str]:
    names = [path.relative_to(content).as_posix() for path in sorted(content.glob(pattern))]
    return [name for name in names if name not in listed]
