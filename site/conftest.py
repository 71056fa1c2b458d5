"""What the tests share: one fork server, and copies of the site to build."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from distlab import spmd
from distlab.spmd import processes
from site_copy import Site

processes.die_with_caller()
# A shell's & has Ctrl-C ignored, in whatever the tests start and interrupt as well.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def launcher():
    """Start the fork server that most tests run their programs on."""
    with spmd.Launcher() as shared:
        yield shared


@pytest.fixture
def copy_of_site(tmp_path):
    """Copy the site into an empty folder."""
    return Site(tmp_path)


def processes_with(mark: str) -> list[str]:
    """Return the command lines of live processes whose environment or command holds `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            continue
        if alive and mark.encode() in text:
            found.append((entry / "cmdline").read_text().replace("\0", " "))
    return found


def eventually(condition, seconds: float = 5.0) -> bool:
    """Wait until a condition holds, at most so long; return whether it does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
