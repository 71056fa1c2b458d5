"""Long work tells how far it is: on a terminal in one live line, elsewhere now and then."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from press.progress import Progress
from tools.watch import eventually

FENCE = '# A page\n\n```python exec="on" id="long-one"\nimport time\ntime.sleep(3)\n```\n'
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A terminal of our own: what is written to `stream` is on its `screen`."""

    def __init__(self):
        """Open it."""
        self.master, self.slave = pty.openpty()
        os.set_blocking(self.master, False)
        self.stream = os.fdopen(self.slave, "w")
        self.text = ""

    def screen(self) -> str:
        """Return all that was shown so far."""
        try:
            self.text += os.read(self.master, 1 << 16).decode()
        except OSError:
            pass  # nothing new, or the other end is closed
        return ESCAPES.sub("", self.text)

    def close(self) -> None:
        """Close both ends."""
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def terminal():
    """Open a terminal for a test."""
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_on_a_terminal_one_line_tells_what_runs(terminal):
    with Progress("fences", 3, stream=terminal.stream) as progress:
        progress.start("ring")
        assert eventually(lambda: "fences: 0 of 3 done; running ring" in terminal.screen(), 60)
        progress.done("ring", 1.5)
        assert eventually(lambda: "1 of 3 done; " in terminal.screen(), 60)
        assert eventually(lambda: "slowest ring 1.5 s" in terminal.screen(), 60)

    assert "\n1 of 3" not in terminal.screen()


def test_elsewhere_a_line_is_printed_now_and_then():
    stream = io.StringIO()
    with Progress("mutants", 2, stream=stream, every=0.05) as progress:
        progress.start("ring")
        assert eventually(lambda: stream.getvalue().count("0 of 2 done; running ring") >= 2, 60)
    lines = stream.getvalue().count("\n")
    time.sleep(0.2)

    assert stream.getvalue().count("\n") == lines


def test_work_shorter_than_the_interval_prints_nothing():
    stream = io.StringIO()
    with Progress("mutants", 2, stream=stream, every=60) as progress:
        progress.start("ring")

    assert stream.getvalue() == ""


def test_a_future_runs_when_it_says_so_and_tells_its_own_seconds():
    progress, future, failed = Progress("fences", 2), Future(), Future()
    progress.follow("ring", future)
    progress.follow("broken", failed)
    assert progress.running() == []
    future.set_running_or_notify_cancel()
    assert progress.running() == ["ring"]
    future.set_result(SimpleNamespace(seconds=2.5))
    failed.set_exception(RuntimeError())

    assert progress.running() == []
    assert progress.seconds == {"ring": 2.5}


def test_of_equal_names_each_is_counted():
    progress = Progress("fences")
    for _ in range(3):
        future = Future()
        progress.follow("ring", future)
        future.set_result(SimpleNamespace(seconds=1.0))

    assert progress.summary().startswith("fences: 3 run in ")


def test_the_summary_names_the_three_slowest():
    progress = Progress("fences")
    for seconds, name in enumerate("abcd"):
        progress.done(name, float(seconds))

    assert "(6.0 s of work); slowest d 3.0 s, c 2.0 s, b 1.0 s" in progress.summary()


def test_a_build_on_a_terminal_names_the_fence_that_runs(copy_of_site, terminal):
    copy_of_site.write(FENCE)
    command = [sys.executable, "-m", "mkdocs", "build"]
    env = os.environ | copy_of_site.path | {"NO_MKDOCS_2_WARNING": "1", "COLUMNS": "120"}
    where = {"cwd": copy_of_site.folder, "stderr": terminal.slave, "stdout": subprocess.DEVNULL}
    build = subprocess.Popen(command, env=env, **where)
    try:
        assert eventually(lambda: "0 of 1 done; running long-one" in terminal.screen(), 100)
        assert build.wait(100) == 0
    finally:
        build.kill()

    assert eventually(lambda: "fences: 1 run in " in terminal.screen())
    assert "slowest long-one 3." in terminal.screen()
