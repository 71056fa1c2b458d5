"""Pages that take in whatever files there are: a snippet line whose path is a pattern.

A module adds its lines to a page that all modules share, as the symptom index, by a file of its
own. The page says where they stand,

    --8<-- "content/courses/pytorch/symptoms/*.md"

and the build makes one line of it for each file, in the order of their names. The parts of a page
lie in a folder of its name; they are no pages (see exclude_docs in mkdocs.yml).
"""

from __future__ import annotations

import re
from pathlib import Path

PATTERN = re.compile(r'^--8<-- "(?P<pattern>[^"\n]*\*[^"\n]*)"\n', re.MULTILINE)


def is_part(path: Path) -> bool:
    """Tell whether a Markdown file is a part of a page."""
    return path.parent.with_suffix(".md").is_file()


def expanded(markdown: str, root: Path) -> str:
    """Return the text with a snippet line for each file that a pattern of it matches."""
    return PATTERN.sub(
        lambda match: "".join(
            f'--8<-- "{path.relative_to(root).as_posix()}"\n'
            for path in sorted(root.glob(match["pattern"]))
        ),
        markdown,
    )


def whole(path: Path, root: Path) -> str:
    """Return a page's source with the text of its parts in place."""
    return PATTERN.sub(
        lambda match: "".join(part.read_text() for part in sorted(root.glob(match["pattern"]))),
        path.read_text(),
    )
