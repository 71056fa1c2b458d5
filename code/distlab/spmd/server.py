"""The fork server: one process that has imported torch, runs nothing itself, and forks ranks.

Started by `launcher.Launcher` as `python -m distlab.spmd.server FD FOLDER`. On the socket FD are
lines of JSON: requests and, of each program, that it has been started, and its outcome. When the
socket closes, however the caller ended, every process that a program started is killed, FOLDER is
removed, and the server ends.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections import deque
from pathlib import Path

from distlab.spmd import processes, rank
from distlab.spmd.program import Program
from distlab.spmd.run import LOOK, Run
from distlab.spmd.stores import StoreHost

# What a first `import torch` and a first DistributedDataParallel(...) would load. Imports only:
# a process that has run an operator owns threads that its forks would miss, and wait for.
PRELOAD = (
    "numpy",
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch.distributed.algorithms.join",
    "torch.utils.data",
    "torch._dynamo.convert_frame",
)

COMPUTING = max(2, os.cpu_count() or 2)
"""How many programs that compute are in flight on a busy machine: more would slow all of them."""

MOST = 3 * COMPUTING
"""How many are while a core idles: many a program that is not said to wait does, for a while."""

IDLE = 0.5
"""Cores with nothing to do for `run.LOOK` seconds that have one more program started."""

WAITING = 8
"""How many programs that mostly sleep are in flight beside them."""


class Server:
    """Takes requests from one socket, keeps a bounded number of runs in flight, answers."""

    def __init__(self, connection: socket.socket, folder: Path) -> None:
        """Fork the store host and wait for requests; nothing is started yet."""
        self.connection = connection
        self.folder = folder
        self.stores = StoreHost()
        self.queue: deque[tuple[int, Program]] = deque()
        self.runs: dict[int, Run] = {}
        self.looked = time.monotonic(), processes.idle_seconds()
        self.received = b""
        self.wake, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Work until the caller closes the socket or is gone."""
        while True:
            timeout = min((run.patience() for run in self.runs.values()), default=None)
            ready, _, _ = select.select([self.connection, self.wake], [], [], timeout)
            if self.wake in ready:
                os.read(self.wake, 4096)
                self.reap()
            if self.connection in ready and not self.receive():
                return
            for number, run in list(self.runs.items()):
                run.advance()
                if run.over():
                    self.finish(number, run)
            self.start_queued()

    def receive(self) -> bool:
        """Queue the requests that have arrived; False when the caller has closed the socket."""
        chunk = self.connection.recv(1 << 16)
        *lines, self.received = (self.received + chunk).split(b"\n")
        for line in lines:
            request = json.loads(line)
            self.queue.append((request["number"], Program.from_json(request["program"])))
        return bool(chunk)

    def start_queued(self) -> None:
        """Start what is queued, in order, as far as there is room for its kind."""
        for number, program in list(self.queue):
            if self.has_room(program):
                self.queue.remove((number, program))
                self.start(number, program)

    def has_room(self, program: Program) -> bool:
        """Tell whether one more program of this kind may run now."""
        alike = sum(run.program.waits == program.waits for run in self.runs.values())
        if program.waits:
            return alike < WAITING
        return alike < COMPUTING or (alike < MOST and self.core_idles())

    def core_idles(self) -> bool:
        """Tell whether a core has had little to do since the last look; True once a look."""
        (before, idle_before), now = self.looked, time.monotonic()
        if now - before < LOOK:
            return False
        self.looked = now, processes.idle_seconds()
        return self.looked[1] - idle_before >= IDLE * (now - before)

    def start(self, number: int, program: Program) -> None:
        """Lay out the run's folder and fork its ranks."""
        run = Run(program, self.folder / str(number), self.stores.open())
        self.runs[number] = run
        for place in run.places():
            pid = os.fork()
            if pid == 0:
                self._become(place, program)
            run.started(place.rank, pid)
        self.tell({"number": number, "started": True})

    def _become(self, place: rank.Place, program: Program) -> None:
        try:
            # The socket must not live on in a rank, or the caller's end would go unnoticed.
            for fd in (self.connection.fileno(), self.wake, self._wake_write, self.stores.fileno()):
                os.close(fd)
            rank.take_place(place, os.getppid())
            if program.shell:
                signal.signal(signal.SIGUSR1, signal.SIG_DFL)
                os.execvp(program.shell, [program.shell, program.name])
            elif program.start == "fresh":
                seed = {"PYTHONHASHSEED": str(rank.SEED + place.rank)}
                command = [sys.executable, "-m", "distlab.spmd.rank", str(place.file("place"))]
                os.execve(sys.executable, command, os.environ | seed)
            rank.run_forked(place)
        finally:
            os._exit(127)

    def reap(self) -> None:
        """Collect every child that has ended: ranks, and orphans adopted from them."""
        for pid, how in iter(_ended_child, None):
            for run in self.runs.values():
                run.ended(pid, *how)

    def finish(self, number: int, run: Run) -> None:
        """Kill what the run left behind, remove its folder, answer with its outcome."""
        del self.runs[number]
        left = self.sweep(run)
        self.stores.close(run.port)
        answer = {"number": number, "outcome": run.outcome(left).to_json()}
        shutil.rmtree(run.folder, ignore_errors=True)
        self.tell(answer)

    def tell(self, answer: dict) -> None:
        """Send the caller a line."""
        self.connection.sendall(json.dumps(answer).encode() + b"\n")

    def sweep(self, ended: Run | None = None) -> tuple[str, ...]:
        """Kill the orphans that belong to no run in flight; return their command lines.

        The ranks of an ended run are gone, so whatever they had started is now a child of this
        process, which adopts orphans.
        """
        own = {self.stores.pid, *(pid for run in self.runs.values() for pid in run.pids())}
        found = []
        for _ in range(50):  # an orphan's children appear here once it is dead
            orphans = [pid for pid in processes.children(os.getpid()) if pid not in own]
            running = self.runs.values()
            strays = [pid for pid in orphans if not any(run.owns(pid) for run in running)]
            if not strays:
                break
            for pid in strays:
                found.append(processes.command(pid))
                processes.kill_tree(pid)
            time.sleep(0.002)
            self.reap()
        return tuple(filter(None, found)) if ended and ended.ended_by_itself() else ()

    def close(self) -> None:
        """Kill everything and remove every file."""
        for run in self.runs.values():
            run.kill()
        self.runs.clear()
        self.sweep()
        processes.send(self.stores.pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def _ended_child() -> tuple[int, tuple[int, float]] | None:
    """Reap a child that has ended; return its process id with its exit status and CPU seconds."""
    try:
        pid, status, used = os.wait4(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (
        (pid, (os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)) if pid else None
    )


def main() -> None:
    """Import torch, then serve."""
    connection, folder = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    connection.set_inheritable(False)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # it ends with its caller; ranks undo this
    # Asks a rank for its stack; one that has none to show yet, or no longer, must live on.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    processes.adopt_orphans()
    gc.disable()  # what is imported stays
    for module in sys.argv[3:] or PRELOAD:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a rank would touch, and so copy, every page of torch
    gc.enable()
    processes.use_huge_pages()
    server = Server(connection, folder)
    try:
        server.serve()
    finally:
        server.close()


if __name__ == "__main__":
    main()
