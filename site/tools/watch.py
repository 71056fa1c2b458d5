"""What tests and recorders look for on this machine while something runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

HANG = 900
"""Seconds after which a test takes something for hung: ten times what the longest, a cold build of
the course, takes alone. A limit of this kind must never tell how busy the machine is."""

LEAVE = 60
"""Seconds within which all is gone after an end: ten times what it takes alone, and less than what
a test leaves behind on purpose would live."""


def processes_with(mark: str) -> list[str]:
    """Return the command lines of live processes whose environment or command holds `mark`."""
    commands = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            continue
        if alive and mark.encode() in text:
            commands.append((entry / "cmdline").read_text().replace("\0", " "))
    return commands


def eventually(condition: Callable[[], object], seconds: float = LEAVE) -> bool:
    """Wait until a condition holds, at most so long; return whether it does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
