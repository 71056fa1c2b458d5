"""What of a folder a process reads: an audit hook that writes each file down when it is first met.

Every process of a watched program reports into one file of the run: a forked rank calls `begin`, a
new interpreter finds `preload/sitecustomize.py` on its path. What is no Python (cat, diff) cannot
be asked, nor what starts as `python -I`; of a shell script the words that name files stand in.

This file is loaded by every such interpreter before its first line, so it imports next to nothing.
"""

from __future__ import annotations

import os
import sys

REPORT = "DISTLAB_READ"
"""The environment variable with the file to report into."""

WATCHED = "DISTLAB_WATCH"
"""The environment variable with the folder whose files are reported."""

PRELOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preload")

# Who only looks for modules: a new file beside one that is imported would count as a change.
SEARCHERS = ("<frozen importlib._bootstrap_external>", "importlib/metadata/__init__.py")


class Hook:
    """Hears of every open and listing in this process, and reports each path once."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.report = ""

    def begin(self, report: str, watched: str) -> None:
        """Report from now on what lies below `watched` into the file `report`."""
        if report == self.report:
            return
        begun, self.report = self.report, report
        self.below = os.path.join(os.path.realpath(watched), "")
        # An environment in the project is no part of it: its packages have versions.
        prefixes = {os.path.join(prefix, "") for prefix in (sys.prefix, sys.base_prefix)}
        self.foreign = tuple(each for each in prefixes if not self.below.startswith(each))
        # Nor is the run's own folder, where a temp folder lies in the project.
        self.own = os.path.join(os.path.realpath(os.path.dirname(report)), "")
        self.seen: set[tuple[str, bool]] = set()
        if not begun:
            sys.addaudithook(self.hear)

    def hear(self, event: str, given: tuple) -> None:
        """Take an audit event; whatever is wrong with it is the program's to be told."""
        try:
            if event == "open":
                path, _, flags = given
                writes = flags & os.O_ACCMODE == os.O_WRONLY or flags & os.O_TRUNC
                if not (writes or isinstance(path, int)):
                    self.note(path)
            elif event in ("os.listdir", "os.scandir"):
                asker = sys._getframe(1).f_code.co_filename
                if not (isinstance(given[0], int) or asker.endswith(SEARCHERS)):
                    self.note(given[0] or ".", listed=True)
        except Exception:  # an audit hook that raises stops what the program does
            return

    def note(self, path: object, *, listed: bool = False) -> None:
        """Report a path, unless it lies elsewhere or was reported before."""
        path = os.fsdecode(path)
        if not path.startswith("/"):
            path = os.path.join(os.getcwd(), path)
        if (path, listed) in self.seen:
            return
        self.seen.add((path, listed))
        if path.startswith(self.foreign):
            return
        real = os.path.realpath(path)
        if not f"{real}/".startswith(self.below) or real.startswith((*self.foreign, self.own)):
            return
        if real.endswith(".pyc"):
            real = _source(real)
        name = real[len(self.below) :] or "."
        if listed or os.path.isdir(real):
            name += "/"
        self.write(os.fsencode(name) + b"\0")

    def write(self, line: bytes) -> None:
        """Append to the report; opened each time, as a program may close what it did not open."""
        file = os.open(self.report, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(file, line)
        finally:
            os.close(file)


HOOK = Hook()


def _source(compiled: str) -> str:
    from importlib.util import source_from_cache

    try:
        return source_from_cache(compiled)
    except ValueError:
        return compiled  # a module that comes without its source


def begin() -> bool:
    """Report from now on, if the environment asks for it; return whether it does."""
    report, watched = os.environ.get(REPORT), os.environ.get(WATCHED)
    if report and watched:
        HOOK.begin(report, watched)
    return bool(report and watched)


def begin_interpreter() -> None:
    """Report from now on in a new interpreter, and what it has imported already."""
    if begin():
        for module in list(sys.modules.values()):
            if file := getattr(module, "__file__", None):
                HOOK.hear("open", (file, "r", os.O_RDONLY))


def inherited(path: str) -> dict[str, str]:
    """Return the variables that have our own children report if we do, with this PYTHONPATH."""
    report, watched = os.environ.get(REPORT), os.environ.get(WATCHED)
    return environment(report, watched, path) if report and watched else {}


def environment(report: str, watched: str, path: str) -> dict[str, str]:
    """Return the variables that have a rank and its children report; `path` is its PYTHONPATH."""
    return {
        REPORT: report,
        WATCHED: watched,
        "PYTHONPATH": os.pathsep.join(filter(None, (PRELOAD, path))),
    }
