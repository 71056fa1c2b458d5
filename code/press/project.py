"""Where the parts of the project lie: the one place that knows its top-level folders."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTENT = ROOT / "content"
COURSE = CONTENT / "courses/pytorch"
SITE = ROOT / "site"


def pinned_torch(root: Path = ROOT) -> str:
    """Return the version of torch that the course is about, as requirements/docs.txt pins it."""
    return re.search(r"(?m)^torch==([\d.]+)", (root / "requirements/docs.txt").read_text())[1]


def links(root: Path = ROOT) -> tuple[tuple[str, str], ...]:
    """Return what a fence finds in its working folder: a command reads as a reader types it.

    Pairs (name, path), as spmd.Program takes them.
    """
    return tuple((name, str(root / name)) for name in ("content", "code", "site"))
