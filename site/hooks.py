"""The MkDocs side: wires the executor, the gate and the Markdown extensions to MkDocs' events.

Fences that the cache does not hold are submitted when this file is imported, which is while MkDocs
reads its configuration: on two cores the first of them are done when the first page is rendered.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import platform
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# MkDocs takes back what a hook adds to sys.path once it is imported, so on_config adds it again.
PATHS = [str(ROOT / "code"), str(ROOT / "site")]
sys.path[:0] = PATHS

from mkdocs.exceptions import PluginError  # noqa: E402

import downloads  # noqa: E402
import fence_formatter  # noqa: E402
import page_extension  # noqa: E402
import practice_zip  # noqa: E402
from distlab import executor, gate  # noqa: E402
from distlab.fences import Problem  # noqa: E402
from distlab.spmd import processes  # noqa: E402

CONTENT = ROOT / "content"
EXTENSIONS = ("page_extension", "evidence")

processes.die_with_caller()
build = fence_formatter.Build(executor.Executor(ROOT, fresh=bool(os.environ.get("FENCE_FRESH"))))
build.takes_back, build.site_dir = False, None  # a failed build removes what it has written
build.executor.prefetch(gate.scan_folder(CONTENT).fences)


def on_config(config):
    """Register our formatters and Markdown extensions; refuse to write into the wrong folder."""
    sys.path[:0] = [path for path in PATHS if path not in sys.path]
    if Path(config.docs_dir) != CONTENT:
        raise PluginError(f"docs_dir is {config.docs_dir}; the fences are those of {CONTENT}")
    if Path(config.site_dir) == ROOT / "site":
        raise PluginError("site_dir is site/, which holds the tests; MkDocs would empty it")
    if config.strict:  # --quiet hides warnings from the count of strict mode: dead links would pass
        mkdocs = logging.getLogger("mkdocs")
        mkdocs.setLevel(min(mkdocs.level, logging.WARNING))
    build.site_dir = Path(config.site_dir)
    build.register()
    # In place: markdown-exec has kept this very list for the text that fences print.
    config.markdown_extensions += [e for e in EXTENSIONS if e not in config.markdown_extensions]
    page_extension.problems()
    return config


def on_page_markdown(markdown, page, config, files):
    """Note what a page asks for, and tell each fence its place."""
    source = page.file.content_string
    offset = source[: len(source) - len(markdown)].count("\n") if source.endswith(markdown) else 0
    scan = gate.scan(markdown, f"content/{page.file.src_uri}", offset)
    build.problems += scan.problems
    build.asked.update((fence.at, fence) for fence in scan.fences)
    return scan.markdown


def on_page_content(html, page, config, files):
    """Let MkDocs know the anchors of fences: it looks for anchors before our markup is put in."""
    prefix = f"content/{page.file.src_uri}:"
    ids = {f"fence-{fence.id}" for at, fence in build.asked.items() if at.startswith(prefix)}
    page.present_anchor_ids = (page.present_anchor_ids or set()) | ids


def on_env(env, config, files):
    """Compare what was asked with what ran and is shown; this is before any page is written."""
    seen = set()
    for file in files.documentation_pages():
        places, raw = gate.shown(file.page.content or "", f"content/{file.src_uri}")
        seen |= places
        build.problems += raw
    asked = build.asked.values()
    unread = {problem.at for problem in build.problems}
    missing = gate.compare(asked, set(build.executions), seen)
    build.problems += [problem for problem in missing if problem.at not in unread]
    build.problems += gate.duplicates(asked)
    build.problems += [_page_problem(text) for text in page_extension.problems()]
    if build.problems:
        raise PluginError(report(build.problems))


def _page_problem(text: str) -> Problem:
    at, _, what = text.partition(": ")
    return Problem(at, what)


def report(problems: list[Problem]) -> str:
    """Return every problem, in the order of the pages, and their number."""
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}; no page was written."
    return "\n".join(["", *map(str, sorted(problems, key=_place)), count])


def _place(problem: Problem) -> tuple[str, int]:
    file, _, line = problem.at.rpartition(":")
    return (file, int(line)) if line.isdigit() else (problem.at, 0)


def on_post_build(config):
    """Write the downloads, and what was executed: beside the pages, because it holds times."""
    downloads.write(build.executions.values(), ROOT, Path(config.site_dir))
    if (CONTENT / "courses/pytorch/exercises").exists():
        practice_zip.write(ROOT, Path(config.site_dir))
    versions = {
        "torch": importlib.metadata.version("torch"),
        "python": platform.python_version(),
        "markdown-exec": importlib.metadata.version("markdown-exec"),
    }
    entries = [_entry(execution, versions) for execution in build.executions.values()]
    record = Path(config.site_dir) / "executions.json"
    record.write_text(json.dumps(entries, indent=1) + "\n")


def _entry(execution: executor.Execution, versions: dict[str, str]) -> dict:
    fence = execution.fence
    file, _, line = fence.at.rpartition(":")
    return {
        "file": file,
        "line": int(line),
        "id": fence.id,
        "ranks": fence.ranks,
        "outcome": "as declared",
        "seconds": round(execution.seconds, 3),
        "cached": execution.cached,
        "versions": versions,
    }


def on_startup(command, dirty):
    """Take pages back from a build only: what is being served stays, and so does public/."""
    build.takes_back = command == "build"


def on_build_error(error, **_):
    """Take back the pages that were written before a late fault, as a dead anchor, was found."""
    if build.takes_back and build.site_dir:
        shutil.rmtree(build.site_dir, ignore_errors=True)


def on_shutdown():
    """End the fork server."""
    executor.close_shared_launcher()
