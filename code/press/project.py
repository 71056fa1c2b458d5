"""Where the parts of the project lie: the one place that knows its top-level folders."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTENT = ROOT / "content"
COURSE = CONTENT / "courses/pytorch"
SITE = ROOT / "site"


def links(root: Path = ROOT) -> tuple[tuple[str, str], ...]:
    """Return what a fence finds in its working folder: a command reads as a reader types it.

    Pairs (name, path), as spmd.Program takes them.
    """
    return tuple((name, str(root / name)) for name in ("content", "code", "site"))
