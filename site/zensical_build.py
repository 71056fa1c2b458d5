"""Build the same content with Zensical, the successor of Material for MkDocs.

    python site/zensical_build.py            # into .cache/zensical/public

Zensical 0.0.73 reads mkdocs.yml and runs the same Markdown extensions, but ignores `hooks:`. What
site/hooks.py does at MkDocs' events therefore happens here, before and after the build: the fences
are told their places in a copy of the pages, and the integrity gate reads the finished site.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "code"), str(ROOT / "site")]

import zensical  # noqa: E402

import hooks  # noqa: E402, it needs the paths
import page_extension  # noqa: E402
from distlab import gate  # noqa: E402

PROJECT = ROOT / ".cache" / "zensical"
UNKNOWN = {  # what Zensical 0.0.73 cannot read in mkdocs.yml, and what says the same
    "!relative $config_dir": f'"{ROOT}"',
    "custom_dir: site/theme": f"custom_dir: {ROOT}/site/theme",
    "\nmarkdown_extensions:\n": "\nmarkdown_extensions:\n"
    + "".join(f"  - {extension}\n" for extension in hooks.EXTENSIONS),
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


def copy_pages() -> None:
    """Copy content/, telling each executed fence its place as hooks.on_page_markdown does."""
    shutil.copytree(ROOT / "content", PROJECT / "content")
    for page in (PROJECT / "content").rglob("*.md"):
        text = page.read_text()
        front = gate.front_matter(text)
        lines = text.splitlines(keepends=True)
        name = f"content/{page.relative_to(PROJECT / 'content')}"
        scan = gate.scan("".join(lines[front:]), name, front)
        hooks.build.problems += scan.problems
        hooks.build.asked.update((fence.at, fence) for fence in scan.fences)
        page.write_text("".join(lines[:front]) + scan.markdown)


def main() -> int:
    """Build, hold the site against its sources, and return the exit status."""
    shutil.rmtree(PROJECT, ignore_errors=True)
    PROJECT.mkdir(parents=True)
    copy_pages()
    hooks.build.register()
    page_extension.problems()
    configuration = write_configuration()
    os.chdir(PROJECT)
    zensical.build(str(configuration), {"clean": True, "strict": True})
    public = PROJECT / "public"
    hooks.on_post_build(SimpleNamespace(site_dir=str(public)))
    found = [hooks._page_problem(text) for text in page_extension.problems()]
    problems = dict.fromkeys(
        [*hooks.build.problems, *found, *gate.check_site(hooks.CONTENT, public)]
    )
    for problem in problems:
        print(problem)
    print(f"{len(hooks.build.asked)} fences, {len(problems)} problems; the site is in {public}")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        status = main()
    finally:
        hooks.on_shutdown()
    sys.exit(status)
