"""The caller's side: start the fork server, submit programs to it, get their outcomes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path

from distlab.spmd import processes, reads
from distlab.spmd.program import Outcome, Program

CODE = Path(__file__).parents[2]

# A page must not change with the reader's shell, so little of it reaches a rank.
KEPT = ("HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


class LauncherError(RuntimeError):
    """The server itself ended: our fault or the machine's, never a program's."""


def environment() -> dict[str, str]:
    """Return the environment that every program finds, before the variables of its rank."""
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    return kept | {
        # `python` in a shell fence is the interpreter that builds the page.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(CODE),
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "80",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        # A server that a watched program starts reports as well, and so do its ranks.
        **reads.inherited(str(CODE)),
    }


class Launcher:
    """A fork server of one's own; a context manager. Methods may be called from any thread.

    folder: the server's own; removed when the server ends, however that comes about
    """

    def __init__(self, preload: tuple[str, ...] = ()) -> None:
        """Start the server; it imports torch while the caller goes on.

        preload: the modules that every forked rank finds imported (default: server.PRELOAD)
        """
        self.folder = Path(tempfile.mkdtemp(prefix="distlab-"))
        temp = self.folder / "tmp"  # torch's import makes a folder that a killed server leaves
        temp.mkdir()
        self._socket, theirs = socket.socketpair()
        with theirs, (self.folder / "server.log").open("w") as log:
            command = [sys.executable, "-m", "distlab.spmd.server", str(theirs.fileno())]
            self._server = subprocess.Popen(
                [*command, self.folder, *preload],
                env=environment() | {"TMPDIR": str(temp)},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C in the terminal, or a killed process group, must leave it the time to
                # clean up: it ends when the socket closes.
                start_new_session=True,
            )
        self._numbers = itertools.count()
        self._pending: dict[int, Future[Outcome]] = {}
        self._closing = False
        self._lock = threading.Lock()
        self.error: LauncherError | None = None
        self._reader = threading.Thread(target=self._read, daemon=True, name="spmd answers")
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Whether the server still takes programs."""
        return self.error is None

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._server.pid

    def submit(self, program: Program) -> Future[Outcome]:
        """Queue a program and return at once. The future raises LauncherError only.

        The future is running() from the moment when the program's ranks have been started.
        """
        future: Future[Outcome] = Future()
        with self._lock:
            if self.error:
                raise self.error
            number = next(self._numbers)
            self._pending[number] = future
            request = {"number": number, "program": program.to_json()}
            try:
                self._socket.sendall(json.dumps(request).encode() + b"\n")
            except OSError:
                pass  # the reader meets the same closed socket and fails every future
        return future

    def run(self, program: Program) -> Outcome:
        """Run a program and wait for its outcome: its deadline plus a few seconds at most."""
        return self.submit(program).result()

    def close(self) -> None:
        """End every run in flight, and the server."""
        self._closing = True
        self._socket.close() if self.error else self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self._server.wait(5)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
            self._end_strays()
        self._reader.join(1)
        self._socket.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            try:
                for line in lines:
                    self._take(**json.loads(line))
            except OSError:
                pass  # closed under us: the same as its end
        if not self._closing:
            self._end_strays()
        self.fail_pending()

    def _take(self, number: int, *, started: bool = False, outcome: dict | None = None) -> None:
        future = self._pending[number]
        if started:
            future.set_running_or_notify_cancel()
        elif not self._pending.pop(number).cancelled():
            future.set_result(Outcome.from_json(outcome))

    def _end_strays(self) -> None:
        """Kill what a killed server could not: its ranks die with it, but not their children."""
        for pid in processes.everyone():
            if processes.carries(pid, self.folder, f"TMPDIR={self.folder / 'tmp'}"):
                processes.kill_tree(pid)

    def fail_pending(self) -> None:
        """Fail every program in flight with what the server said last: it has ended."""
        try:
            tail = (self.folder / "server.log").read_text()[-2000:]
        except FileNotFoundError:
            tail = ""  # a server that ends in order has removed it, perhaps this moment
        self._server.poll()
        with self._lock:
            self.error = LauncherError(f"the fork server has ended; it said: {tail or 'nothing'}")
            for future in self._pending.values():
                if not future.done():
                    # One each: an error that is raised again grows by a traceback each time.
                    future.set_exception(LauncherError(*self.error.args))
            self._pending.clear()
