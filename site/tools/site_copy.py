"""Copies of the site with pages of one's own, and built sites compared."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from press.project import ROOT
from tools.watch import HANG


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
        for name in ("code", "constraints.txt", "requirements"):
            (folder / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "content/assets", folder / "content/assets")
        text = (ROOT / "mkdocs.yml").read_text()
        before, _, rest = text.partition("\nnav:\n")
        _, _, after = rest.partition("\n\n")
        (folder / "mkdocs.yml").write_text(f"{before}\n\n{after}")
        # Copied, because the hooks take the folder above their own for the project. Without the
        # modules: their pages are not here.
        left_out = shutil.ignore_patterns("test*", "__pycache__", "[0-9]*_*")
        shutil.copytree(ROOT / "site", folder / "site", ignore=left_out)
        self.write("# A page\n")

    @property
    def path(self) -> dict[str, str]:
        """The variable with which Python finds the copy's code."""
        folders = (str(self.folder / name) for name in ("code", "site"))
        return {"PYTHONPATH": os.pathsep.join(folders)}

    def write(self, text: str, name: str = "index.md") -> None:
        """Write a page."""
        path = self.folder / "content" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def add_modules(self) -> None:
        """Add what the modules of the course are checked with; their pages have to be there."""
        shutil.copytree(ROOT / "site/modules", self.folder / "site/modules", dirs_exist_ok=True)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen:
        """Start a build."""
        return subprocess.Popen(
            [sys.executable, "-m", "mkdocs", "build", *arguments],
            cwd=self.folder,
            env=os.environ | self.path | {"NO_MKDOCS_2_WARNING": "1"} | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def build(self, *arguments: str, **env: str) -> Built:
        """Build the copy; raises subprocess.TimeoutExpired if the build hangs."""
        process = self.start(*arguments, **env)
        try:
            said, _ = process.communicate(timeout=HANG)
        finally:
            process.kill()
        return Built(process.returncode, said, self.folder / "public")


def build_into(folder: Path, **env: str) -> Path:
    """Build the whole site as it is into a folder, and return that."""
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"} | env,
        check=True,
        timeout=HANG,
    )
    return folder


def is_current(public: Path) -> bool:
    """Tell whether a whole site is in a folder, and nothing that it is made of is newer."""
    index = public / "search/search_index.json"
    made_of = [ROOT / "mkdocs.yml", ROOT / "constraints.txt"]
    for name in ("content", "code", "site"):
        made_of += [path for path in (ROOT / name).rglob("*.*") if path.suffix != ".pyc"]
    tests = ROOT / "site/tests"
    built = index.stat().st_mtime if index.exists() else 0.0
    return all(path.stat().st_mtime < built for path in made_of if tests not in path.parents)


def files(folder: Path) -> dict[str, bytes]:
    """Return all files of a built site but its record, which holds times."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "executions.json"
    }


SHOWN = 12
"""How many differing lines of a page are told."""


def differences(before: dict[str, bytes], after: dict[str, bytes]) -> str:
    """Return which files of two built sites differ and the lines of the pages; "" if none do.

    Two builds that differ once in a hundred times are not made again to see where.
    """
    names = sorted(before.keys() | after.keys())
    differ = [name for name in names if before.get(name) != after.get(name)]
    lines = [", ".join(differ)] if differ else []
    for name in differ:
        if name.endswith(".html"):
            pages = [side.get(name, b"").decode().splitlines() for side in (before, after)]
            found = [line for line in difflib.unified_diff(*pages, n=0, lineterm="")
                     if line[:1] in "-+" and line[:3] not in ("---", "+++")]  # fmt: skip
            lines += [f"  {line[:300]}" for line in found[:SHOWN]]
    return "\n".join(lines)
