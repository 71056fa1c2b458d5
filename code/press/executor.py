"""Executes fences: from the cache, else on the fork server, ahead of time where it can."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from distlab.spmd import Launcher, Outcome, Program
from press.cache import Cache
from press.fences import Fence, Problem, judge
from press.project import links

_shared: Launcher | None = None


def shared_launcher() -> Launcher:
    """Return this process' fork server; started at the first call, and again if it has died."""
    global _shared  # noqa: PLW0603 -- one server a process, as logging has one root
    if _shared is None or not _shared.alive:
        _shared = Launcher()
    return _shared


def close_shared_launcher() -> None:
    """End this process' fork server and everything it started."""
    global _shared  # noqa: PLW0603
    if _shared is not None:
        _shared.close()
        _shared = None


def used_files(root: Path) -> list[Path]:
    """Return every file that a fence might use: the library with its data, labs, solutions."""
    return [
        path
        for folder in ("code", "content", "site/solutions")
        for kind in ("*.py", "*.json")
        for path in (root / folder).rglob(kind)
    ]


@dataclass(frozen=True)
class Execution:
    """One fence, executed: an entry of executions.json."""

    fence: Fence
    code: str
    outcome: Outcome
    problem: Problem | None
    cached: bool
    seconds: float


class Executor:
    """Executes the fences of one build. `root` is the project; `fresh` ignores what is cached."""

    def __init__(self, root: Path, *, fresh: bool = False) -> None:
        """Start nothing: a build whose fences are all cached imports no torch."""
        self.links = tuple((name, path) for name, path in links(root) if Path(path).exists())
        folder = Path(os.environ.get("FENCE_CACHE", root / ".cache/fences"))
        self.cache = Cache(folder, used_files(root))
        self.fresh = fresh
        self.submitted: dict[str, Future[Outcome]] = {}

    def prefetch(self, fences: Iterable[Fence]) -> None:
        """Submit what the cache does not hold, so that it runs while pages are read."""
        for fence in fences:
            # A snippet is expanded when its page is rendered; until then the text is not known.
            if fence.code is not None:
                program = fence.program(fence.code, self.links)
                key = self._key(fence, program)
                if self.fresh or self.cache.get(key) is None:
                    self._submit(key, program)

    def execute(self, fence: Fence, code: str) -> Execution:
        """Return what came of a fence with this text. Raises LauncherError."""
        begun = time.monotonic()
        program = fence.program(code, self.links)
        key = self._key(fence, program)
        outcome = None if self.fresh or key in self.submitted else self.cache.get(key)
        cached = outcome is not None
        outcome = outcome or self._submit(key, program).result()
        problem = judge(fence, outcome, code)
        if not cached and problem is None:
            self.cache.put(key, outcome)
        waited = time.monotonic() - begun
        seconds = waited if cached else outcome.seconds
        return Execution(fence, code, outcome, problem, cached, seconds)

    def _submit(self, key: str, program: Program) -> Future[Outcome]:
        if key not in self.submitted:
            self.submitted[key] = shared_launcher().submit(program)
        return self.submitted[key]

    def _key(self, fence: Fence, program: Program) -> str:
        declared = {"raises": fence.raises, "hang": fence.hang, "returncode": fence.returncode}
        asked = {"code": program.source, "options": fence.options, "language": fence.language,
                 "env": program.env}  # fmt: skip
        return self.cache.key(asked | declared)
