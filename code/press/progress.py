"""How far long work is: one live line on a terminal, elsewhere a line every now and then.

    with Progress("fences", 221) as progress:
        progress.follow("ring", future)        # or progress.start("ring"), progress.done("ring")

At the end stands a summary: how many, seconds of work, wall time, the three slowest.
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TextIO

EVERY = 15.0
"""Seconds between two lines where there is no terminal."""

NAMED = 4
"""How many of those that run are named."""


class Progress:
    """Follows pieces of work, each by its name; may be called from any thread."""

    def __init__(
        self,
        what: str,
        total: int = 0,
        *,
        stream: TextIO | None = None,
        every: float = EVERY,
        logger: str = "",
    ) -> None:
        """Show nothing yet.

        what:   the plural of what is done, as "fences"
        total:  how many there will be, as far as is known; those that begin count anyway
        stream: where it is shown (default: stderr)
        logger: one whose lines appear on the same terminal, above the live one
        """
        self.what, self.total, self.every = what, total, every
        self.stream = stream or sys.stderr
        self.logger = logging.getLogger(logger) if logger else None
        self.begun = time.monotonic()
        self.wall = 0.0
        self.started: dict[str, float] = {}
        self.futures: dict[str, Future] = {}
        self.seconds: dict[str, float] = {}
        self._end = threading.Event()
        self._shown = ExitStack()

    # ---- What is done ----------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Note that a piece of work begins."""
        self.started[name] = time.monotonic()

    def done(self, name: str, seconds: float | None = None) -> None:
        """Note that it has ended, after so many seconds (default: since its start)."""
        begun = self.started.pop(name, time.monotonic())
        self.futures.pop(name, None)
        self.seconds[name] = time.monotonic() - begun if seconds is None else seconds

    def follow(self, name: str, future: Future) -> None:
        """Follow a future: it runs when it says so; its result may know its own `seconds`."""
        if name in self.futures or name in self.seconds:
            name = next(f"{name} ({n})" for n in itertools.count(2)
                        if f"{name} ({n})" not in {*self.futures, *self.seconds})  # fmt: skip
        self.futures[name] = future
        future.add_done_callback(lambda ended: self._ended(name, ended))

    def _ended(self, name: str, future: Future) -> None:
        if future.cancelled() or future.exception():
            self.futures.pop(name, None)
        else:
            self.done(name, getattr(future.result(), "seconds", None))

    def running(self) -> list[str]:
        """Return what runs now."""
        return [*self.started, *(n for n, future in list(self.futures.items()) if future.running())]

    # ---- How it is shown -------------------------------------------------------------------------

    def line(self) -> str:
        """Return how far it is, in one line."""
        total = max(self.total, len(self.seconds) + len(self.started) + len(self.futures))
        parts = [f"{self.what}: {len(self.seconds)} of {total} done"]
        if running := self.running():
            more = f" and {len(running) - NAMED} more" * (len(running) > NAMED)
            parts.append(f"running {', '.join(running[:NAMED])}{more}")
        parts.append(f"{time.monotonic() - self.begun:.0f} s")
        parts += [f"slowest {name} {took:.1f} s" for name, took in self.slowest()[:1]]
        return "; ".join(parts)

    def slowest(self) -> list[tuple[str, float]]:
        """Return the three that took longest, and how long."""
        return sorted(self.seconds.items(), key=lambda pair: -pair[1])[:3]

    def summary(self) -> str:
        """Return what was done, in one line."""
        wall = self.wall or time.monotonic() - self.begun
        text = f"{self.what}: {len(self.seconds)} run in {wall:.1f} s"
        if self.seconds:
            text += f" ({sum(self.seconds.values()):.1f} s of work); slowest "
            text += ", ".join(f"{name} {took:.1f} s" for name, took in self.slowest())
        return text

    def show(self) -> Progress:
        """Show how far it is until `close`."""
        if self.stream.isatty():
            self._show_live()
        else:
            thread = threading.Thread(target=self._tell, daemon=True, name="progress")
            thread.start()
            self._shown.callback(thread.join, 1)
        self._shown.callback(self._end.set)
        return self

    def __enter__(self) -> Progress:
        return self.show()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Show no more. May be called again."""
        self.wall = self.wall or time.monotonic() - self.begun
        self._shown.close()

    def _show_live(self) -> None:
        # Imported where there is a terminal only: elsewhere a warm build need not wait for it.
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(file=self.stream, force_terminal=True)

        def renderable() -> Text:
            return Text(self.line(), no_wrap=True, overflow="ellipsis")

        live = Live(console=console, get_renderable=renderable, transient=True)
        self._shown.enter_context(live)
        for handler in self.logger.handlers if self.logger else ():
            if isinstance(handler, logging.StreamHandler) and handler.stream is self.stream:
                handler.setStream(sys.stderr)  # Live's own, which prints above the line
                self._shown.callback(handler.setStream, self.stream)

    def _tell(self) -> None:
        while not self._end.wait(self.every):
            print(self.line(), file=self.stream, flush=True)
