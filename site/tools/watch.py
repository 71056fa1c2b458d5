"""What tests and recorders look for on this machine while something runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


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


def eventually(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    """Wait until a condition holds, at most so long; return whether it does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
