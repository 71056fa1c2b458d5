"""MkDocs' events, each handed on to press: see press.build for what a build does.

Fences that the cache does not hold are submitted before MkDocs reads the first page: on two cores
the first of them are done when that page is rendered.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from mkdocs.exceptions import MkDocsException, PluginError
from mkdocs.plugins import event_priority
from mkdocs.utils import CountHandler

try:
    from press.build import EXTENSIONS, Build, BuildError
    from press.draft import Draft
    from press.memory import Memory
except ModuleNotFoundError as error:
    if error.name != "press":
        raise
    raise PluginError(
        "Python does not find press, which is in code/: run `nox -s docs`, or set PYTHONPATH=code"
    ) from None
from distlab.spmd import processes
from press import executor, lighter, nav

ROOT = Path(__file__).parents[1]
WATCHED = ("code/distlab", "site/modules", "site/sources", "site/theme")
"""What pages are made of besides content/, which MkDocs watches itself."""

processes.die_with_caller()
log = logging.getLogger("mkdocs.hooks")


class Session:
    """One run of MkDocs: one build, or a build after each change.

    build:  the build that is on, or was last
    draft:  the site that is being built, until it is published or given up
    memory: the pages as they were rendered, while they are served
    """

    build: Build
    draft: Draft | None = None
    memory: Memory | None = None
    fresh = bool(os.environ.get("FENCE_FRESH"))


session = Session()


def on_startup(command, dirty):
    """Let SIGTERM end MkDocs in order, as Ctrl-C does; while serving, have the server at hand."""
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))
    if command == "serve":
        session.memory = Memory(ROOT)
        executor.shared_launcher()


def on_serve(server, config, builder):
    """Build again also when something else than a page changes; after a fault, go on serving."""

    def build_or_keep() -> None:
        try:
            builder()
        except MkDocsException as fault:  # else the server answers nothing until it is mended
            print(fault, file=sys.stderr)

    server.builder = build_or_keep
    for folder in (ROOT / name for name in WATCHED):
        if folder.exists():
            server.watch(str(folder))


def on_config(config):
    """Register our formatters and Markdown extensions; refuse to write into the wrong folder."""
    build = session.build = Build(ROOT, fresh=session.fresh)
    session.fresh = False  # once, not after each change of what is served
    if Path(config.docs_dir) != build.content:
        raise PluginError(f"docs_dir is {config.docs_dir}; the fences are those of {build.content}")
    if Path(config.site_dir) == ROOT / "site":
        raise PluginError("site_dir is site/, which holds the tests; MkDocs would empty it")
    if config.strict:  # --quiet hides warnings from the count of strict mode: dead links would pass
        mkdocs = logging.getLogger("mkdocs")
        mkdocs.setLevel(min(mkdocs.level, logging.WARNING))
    session.draft = Draft(Path(config.site_dir))
    config.site_dir = str(session.draft.folder)
    config.nav = nav.expanded(config.nav or [], build.content) or None
    # In place: markdown-exec has kept this very list for the text that fences print.
    config.markdown_extensions += [e for e in EXTENSIONS if e not in config.markdown_extensions]
    if log.isEnabledFor(logging.INFO):
        build.progress.show()
    _told(build.begin)
    return config


def on_files(files, config):
    """Tell the memory what there is: a link is resolved by it."""
    if session.memory:
        session.memory.begin(file.src_uri for file in files)


def on_page_markdown(markdown, page, config, files):
    """Note what a page asks for, and tell each fence its place."""
    if session.memory:
        page.render = functools.partial(
            session.memory.render, session.build, page, page.render, _warnings
        )
    return session.build.read(markdown, page.file.content_string, page.file.src_uri)


def on_page_content(html, page, config, files):
    """Let MkDocs know the anchors of fences: it looks for anchors before our markup is put in."""
    anchors = session.build.anchors(page.file.src_uri)
    page.present_anchor_ids = (page.present_anchor_ids or set()) | anchors


def on_post_page(output, page, config):
    """Make a finished page lighter; what it holds no longer lies beside it."""
    return lighter.write(output, Path(config.site_dir) / page.file.dest_uri)


def on_env(env, config, files):
    """Keep compiled templates: to compile them takes as long as to fill them."""
    folder = ROOT / ".cache/templates"
    folder.mkdir(parents=True, exist_ok=True)
    env.bytecode_cache = FileSystemBytecodeCache(str(folder))


@event_priority(-100)
def on_post_build(config):
    """Hold the whole site against its sources, after all that write it; publish it if all is well.

    MkDocs counts the warnings of strict mode only after this, and then fails.
    """
    session.build.progress.close()
    address = config.site_url or "" if config.strict else None
    _told(session.build.finish, session.draft.folder, address)
    log.info(session.build.summary())
    if session.memory:
        log.info("pages: %d rendered", len(session.memory.rendered))
    if not (config.strict and _warnings()):
        session.draft.publish()
        config.site_dir = str(session.draft.site)  # where gh-deploy looks next
        session.draft = None


def _warnings() -> int:
    """Return how many warnings MkDocs has counted in this build."""
    counters = [h for h in logging.getLogger("mkdocs").handlers if isinstance(h, CountHandler)]
    return sum(number for counter in counters for _, number in counter.get_counts())


def on_build_error(error, **_):
    """Give up a failed build: the site stays as it was."""
    _give_up()


def on_shutdown():
    """End the fork server, and what was interrupted."""
    executor.close_shared_launcher()
    _give_up()


def _give_up() -> None:
    if session.draft:
        draft, session.draft = session.draft, None
        session.build.progress.close()
        draft.discard()
        if draft.site.exists():
            name = "what is served" if session.memory else f"{draft.site.name}/"
            log.error("%s is still the site as it was before this build", name)


def _told(step, *arguments) -> None:
    """Take a step of the build; MkDocs tells what a PluginError says, without a traceback."""
    try:
        step(*arguments)
    except BuildError as problem:
        raise PluginError(str(problem)) from None
