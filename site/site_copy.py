"""Copies of the site with pages of one's own, for tests and measurements."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Built:
    """A finished build: its exit status, all it said, and where the site is."""

    status: int
    said: str
    public: Path


class Site:
    """A copy of the site with pages of the test's own, with the real code beside it."""

    def __init__(self, folder: Path) -> None:
        """Lay out the copy; it has one page, index.md, without fences."""
        self.folder = folder
        for name in ("code", "constraints.txt"):
            (folder / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "content/assets", folder / "content/assets")
        text = (ROOT / "mkdocs.yml").read_text()
        before, _, rest = text.partition("\nnav:\n")
        _, _, after = rest.partition("\n\n")
        (folder / "mkdocs.yml").write_text(f"{before}\n\n{after}")
        # Copied, because the hooks take the folder above their own for the project.
        shutil.copytree(ROOT / "site", folder / "site", ignore=shutil.ignore_patterns("test_*"))
        self.write("# A page\n")

    def write(self, text: str, name: str = "index.md") -> None:
        """Write a page."""
        path = self.folder / "content" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen:
        """Start a build."""
        return subprocess.Popen(
            [sys.executable, "-m", "mkdocs", "build", *arguments],
            cwd=self.folder,
            env=os.environ | {"NO_MKDOCS_2_WARNING": "1"} | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def build(self, *arguments: str, **env: str) -> Built:
        """Build the copy, within two minutes."""
        process = self.start(*arguments, **env)
        try:
            said, _ = process.communicate(timeout=120)
        finally:
            process.kill()
        return Built(process.returncode, said, self.folder / "public")
