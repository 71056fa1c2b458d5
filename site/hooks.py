"""MkDocs' events, each handed on to press: see press.build for what a build does.

Fences that the cache does not hold are submitted when this file is imported, which is while MkDocs
reads its configuration: on two cores the first of them are done when the first page is rendered.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.utils import CountHandler

try:
    from press.build import EXTENSIONS, Build, BuildError
    from press.draft import Draft
except ModuleNotFoundError as error:
    if error.name != "press":
        raise
    raise PluginError(
        "Python does not find press, which is in code/: run `nox -s docs`, or set PYTHONPATH=code"
    ) from None
from distlab.spmd import processes
from press import executor, nav

ROOT = Path(__file__).parents[1]

processes.die_with_caller()
build = Build(ROOT, fresh=bool(os.environ.get("FENCE_FRESH")))
drafts: list[Draft] = []
"""The site that is being built, until it is published or given up."""

log = logging.getLogger("mkdocs.hooks")


def on_startup(command, dirty):
    """Let SIGTERM end a build in order, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))


def on_config(config):
    """Register our formatters and Markdown extensions; refuse to write into the wrong folder."""
    if Path(config.docs_dir) != build.content:
        raise PluginError(f"docs_dir is {config.docs_dir}; the fences are those of {build.content}")
    if Path(config.site_dir) == ROOT / "site":
        raise PluginError("site_dir is site/, which holds the tests; MkDocs would empty it")
    if config.strict:  # --quiet hides warnings from the count of strict mode: dead links would pass
        mkdocs = logging.getLogger("mkdocs")
        mkdocs.setLevel(min(mkdocs.level, logging.WARNING))
    drafts.append(Draft(Path(config.site_dir)))
    config.site_dir = str(drafts[-1].folder)
    config.nav = nav.expanded(config.nav or [], build.content) or None
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


@event_priority(-100)
def on_post_build(config):
    """Hold the whole site against its sources, after all that write it; publish it if all is well.

    MkDocs counts the warnings of strict mode only after this, and then fails.
    """
    address = config.site_url or "" if config.strict else None
    _told(build.finish, drafts[-1].folder, address)
    if not _warnings():
        drafts.pop().publish()


def _warnings() -> bool:
    """Tell whether this build will fail for its warnings."""
    counters = [h for h in logging.getLogger("mkdocs").handlers if isinstance(h, CountHandler)]
    return any(counter.get_counts() for counter in counters)


def on_build_error(error, **_):
    """Give up a failed build: the site stays as it was."""
    _give_up()


def on_shutdown():
    """End the fork server, and what was interrupted."""
    executor.close_shared_launcher()
    _give_up()


def _give_up() -> None:
    while drafts:
        draft = drafts.pop()
        draft.discard()
        if draft.site.exists():
            log.error("%s/ is still the site as it was before this build", draft.site.name)


def _told(step, *arguments) -> None:
    """Take a step of the build; MkDocs tells what a PluginError says, without a traceback."""
    try:
        step(*arguments)
    except BuildError as problem:
        raise PluginError(str(problem)) from None
