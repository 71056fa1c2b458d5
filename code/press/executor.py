"""Executes fences: from the cache, else on the fork server, ahead of time where it can."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from distlab.spmd import Launcher, Outcome, Program
from press.cache import Cache
from press.fences import Fence, Problem
from press.judge import judge
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


@dataclass(frozen=True)
class Execution:
    """One fence, executed: an entry of executions.json."""

    fence: Fence
    code: str
    outcome: Outcome
    problem: Problem | None
    cached: bool
    seconds: float


def _ignore(name: str, future: Future) -> None:
    """Follow nothing."""


@dataclass(frozen=True)
class Submitted:
    """A fence that was given to the fork server; `begun` is the time of day then."""

    future: Future[Outcome]
    begun: float


class Executor:
    """Executes the fences of one build. `root` is the project; `fresh` ignores what is cached."""

    def __init__(
        self, root: Path, follow: Callable[[str, Future], None] = _ignore, *, fresh: bool = False
    ) -> None:
        """Start nothing: a build whose fences are all cached imports no torch.

        follow: is told the name and the future of each fence that is run
        """
        self.follow = follow
        self.root = root
        self.links = tuple((name, path) for name, path in links(root) if Path(path).exists())
        folder = Path(os.environ.get("FENCE_CACHE", root / ".cache/fences"))
        self.cache = Cache(folder, root)
        self.fresh = fresh
        self.stored: dict[str, Outcome] = {}
        self.submitted: dict[str, Submitted] = {}

    def prefetch(self, fences: Iterable[Fence]) -> None:
        """Submit what the cache does not hold, so that it runs while pages are read.

        The longest first, so that nobody waits for it alone in the end: as long as it took when
        last it ran with this text, else up to its deadline.
        """
        missing = []
        for fence in fences:
            # A snippet is expanded when its page is rendered; until then the text is not known.
            if fence.code is not None:
                program = self._program(fence, fence.code)
                key = key_of(self.cache, fence, program)
                if self._stored(key) is None:
                    missing.append(
                        (self.cache.seconds(key) or program.timeout, key, fence, program)
                    )
        for _, key, fence, program in sorted(missing, key=lambda each: -each[0]):
            self._submit(key, fence, program)

    def execute(self, fence: Fence, code: str) -> Execution:
        """Return what came of a fence with this text. Raises LauncherError."""
        begun = time.monotonic()
        program = self._program(fence, code)
        key = key_of(self.cache, fence, program)
        outcome = self._stored(key)
        cached = outcome is not None
        if not cached:
            run = self._submit(key, fence, program)
            outcome = run.future.result()
        problem = judge(fence, outcome, code)
        if not cached and problem is None:
            self.cache.put(key, outcome, run.begun)
        waited = time.monotonic() - begun
        seconds = waited if cached else outcome.seconds
        return Execution(fence, code, outcome, problem, cached, seconds)

    def known(self, fence: Fence, code: str) -> Outcome | None:
        """Return what a fence with this text would show, if that is known without running it."""
        return self._stored(key_of(self.cache, fence, self._program(fence, code)))

    def _program(self, fence: Fence, code: str) -> Program:
        return replace(fence.program(code, self.links), watch=str(self.root))

    def _stored(self, key: str) -> Outcome | None:
        """Return what the cache holds, read once in a build."""
        if self.fresh or key in self.submitted:
            return None
        if key not in self.stored and (outcome := self.cache.get(key)):
            self.stored[key] = outcome
        return self.stored.get(key)

    def _submit(self, key: str, fence: Fence, program: Program) -> Submitted:
        if key not in self.submitted:
            begun = time.time()
            future = shared_launcher().submit(program)
            self.submitted[key] = Submitted(future, begun)
            self.follow(fence.name, future)
        return self.submitted[key]


def key_of(cache: Cache, fence: Fence, program: Program) -> str:
    """Return the key of all that decides what happens; how it is shown is no part of it."""
    told = program.to_json()
    del told["links"], told["watch"]  # of this machine
    declared = {"raises": fence.raises, "hang": fence.hang, "returncode": fence.returncode}
    return cache.key(told | declared)
