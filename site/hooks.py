"""MkDocs' events, each handed on to press: see press.build for what a build does.

Fences that the cache does not hold are submitted when this file is imported, which is while MkDocs
reads its configuration: on two cores the first of them are done when the first page is rendered.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from mkdocs.exceptions import PluginError

try:
    from press.build import EXTENSIONS, Build, BuildError
except ModuleNotFoundError as error:
    if error.name != "press":
        raise
    raise PluginError(
        "Python does not find press, which is in code/: run `nox -s docs`, or set PYTHONPATH=code"
    ) from None
from distlab.spmd import processes
from press import executor

ROOT = Path(__file__).parents[1]

processes.die_with_caller()
build = Build(ROOT, fresh=bool(os.environ.get("FENCE_FRESH")))


def on_startup(command, dirty):
    """Take pages back from a build only: what is being served stays, and so does public/."""
    served.takes_back = command == "build"


class Served:
    """Where this build writes, and whether a failed build takes back what it has written."""

    site_dir: Path | None = None
    takes_back = False


served = Served()


def on_config(config):
    """Register our formatters and Markdown extensions; refuse to write into the wrong folder."""
    if Path(config.docs_dir) != build.content:
        raise PluginError(f"docs_dir is {config.docs_dir}; the fences are those of {build.content}")
    if Path(config.site_dir) == ROOT / "site":
        raise PluginError("site_dir is site/, which holds the tests; MkDocs would empty it")
    if config.strict:  # --quiet hides warnings from the count of strict mode: dead links would pass
        mkdocs = logging.getLogger("mkdocs")
        mkdocs.setLevel(min(mkdocs.level, logging.WARNING))
    served.site_dir = Path(config.site_dir)
    # In place: markdown-exec has kept this very list for the text that fences print.
    config.markdown_extensions += [e for e in EXTENSIONS if e not in config.markdown_extensions]
    _told(build.begin)
    return config


def on_page_markdown(markdown, page, config, files):
    """Note what a page asks for, and tell each fence its place."""
    return build.read(markdown, page.file.content_string, page.file.src_uri)


def on_page_content(html, page, config, files):
    """Let MkDocs know the anchors of fences: it looks for anchors before our markup is put in."""
    page.present_anchor_ids = (page.present_anchor_ids or set()) | build.anchors(page.file.src_uri)


def on_env(env, config, files):
    """Compare what was asked with what ran and is shown; this is before any page is written."""
    pages = [(file.src_uri, file.page.content or "") for file in files.documentation_pages()]
    _told(build.compare, pages)


def on_post_build(config):
    """Write what is beside the pages."""
    build.write_extras(Path(config.site_dir))


def on_build_error(error, **_):
    """Take back the pages that were written before a late fault, as a dead anchor, was found."""
    if served.takes_back and served.site_dir:
        shutil.rmtree(served.site_dir, ignore_errors=True)


def on_shutdown():
    """End the fork server."""
    executor.close_shared_launcher()


def _told(step, *arguments) -> None:
    """Take a step of the build; MkDocs tells what a PluginError says, without a traceback."""
    try:
        step(*arguments)
    except BuildError as problem:
        raise PluginError(str(problem)) from None
