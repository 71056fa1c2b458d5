"""Build the same content with Zensical, the successor of Material for MkDocs.

    python -m tools.zensical_build           # into .cache/zensical/public

Zensical 0.0.73 reads mkdocs.yml and runs the same Markdown extensions, but ignores `hooks:`. What
site/hooks.py does at MkDocs' events therefore happens here, before and after the build: the fences
are told their places in a copy of the pages, and the integrity gate reads the finished site.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import zensical

from press import executor, gate, page_extension, scan
from press.build import EXTENSIONS, Build
from press.project import ROOT

PROJECT = ROOT / ".cache" / "zensical"
UNKNOWN = {  # what Zensical 0.0.73 cannot read in mkdocs.yml, and what says the same
    "!relative $config_dir": f'"{ROOT}"',
    "custom_dir: site/theme": f"custom_dir: {ROOT}/site/theme",
    "\n          - courses/pytorch/museum/*.md #": "\n          #",
    "\nmarkdown_extensions:\n": "\nmarkdown_extensions:\n"
    + "".join(f"  - {extension}\n" for extension in EXTENSIONS),
}


def write_configuration() -> Path:
    """Write mkdocs.yml as Zensical can read it; raise ValueError where a line is missing."""
    text = (ROOT / "mkdocs.yml").read_text()
    for theirs, ours in UNKNOWN.items():
        if theirs not in text:
            raise ValueError(f"mkdocs.yml no longer holds {theirs!r}: update UNKNOWN in {__file__}")
        text = text.replace(theirs, ours)
    path = PROJECT / "mkdocs.yml"
    path.write_text(text)
    return path


def copy_pages(build: Build) -> None:
    """Copy content/, telling each executed fence its place as hooks.on_page_markdown does."""
    shutil.copytree(ROOT / "content", PROJECT / "content")
    for page in (PROJECT / "content").rglob("*.md"):
        text = page.read_text()
        lines = text.splitlines(keepends=True)
        front = "".join(lines[: scan.front_matter(text)])
        path = page.relative_to(PROJECT / "content").as_posix()
        page.write_text(front + build.read(text.removeprefix(front), text, path))


def main() -> int:
    """Build, hold the site against its sources, and return the exit status."""
    shutil.rmtree(PROJECT, ignore_errors=True)
    PROJECT.mkdir(parents=True)
    build = Build(ROOT)
    build.begin()
    copy_pages(build)
    configuration = write_configuration()
    os.chdir(PROJECT)
    zensical.build(str(configuration), {"clean": True, "strict": True})
    public = PROJECT / "public"
    build.write_extras(public)
    problems = dict.fromkeys(
        [
            *build.problems,
            *page_extension.problems(),
            *gate.check_site(build.content, public),
        ]
    )
    for problem in problems:
        print(problem)
    print(f"{len(build.asked)} fences, {len(problems)} problems; the site is in {public}")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        status = main()
    finally:
        executor.close_shared_launcher()
    sys.exit(status)
