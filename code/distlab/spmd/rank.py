"""What one rank does: take its place, run the program as a script, and leave."""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
import types
from dataclasses import dataclass
from pathlib import Path

from distlab.spmd import processes, reads

SEED = 1000
"""Rank r starts with seed SEED + r: different on every rank, the same in every build."""

RUN_ID = "DISTLAB_RUN"
"""The environment variable by which the server knows a program's processes again."""

STACK_ENDS = (" in _run_module_as_main\n", "  ...\n")
"""How a stack ends that faulthandler has written to its end: frame by frame, with pauses if the
machine is busy. The outermost frame is that of `python -m`; after 100 frames come the dots."""


@dataclass(frozen=True)
class Place:
    """Where one rank stands: the run's folder, and what it is told by its environment."""

    folder: Path
    rank: int
    name: str
    env: dict[str, str]

    @property
    def work(self) -> Path:
        """The working folder, shared by the ranks of one run."""
        return self.folder / "work"

    def file(self, kind: str) -> Path:
        """Return a file that this rank alone writes: stdout, stderr, stack, raised or end."""
        return self.folder / f"{kind}{self.rank}"


def take_place(place: Place, parent: int) -> None:
    """Make this newly forked process a rank: own session, own files, own environment."""
    os.setsid()
    processes.die_with_parent(parent)
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _redirect(0, Path(os.devnull), os.O_RDONLY)
    _redirect(1, place.file("stdout"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _redirect(2, place.file("stderr"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.environ.update(place.env)
    os.chdir(place.work)


def _redirect(fd: int, path: Path, flags: int) -> None:
    opened = os.open(path, flags, 0o600)
    os.dup2(opened, fd)
    os.close(opened)


def run_forked(place: Place) -> None:
    """Run the program in a process forked from the server, and end the process."""
    _forget_the_server()
    reads.begin()
    code = run_script(place)
    try:
        threading._shutdown()  # waits for the program's threads, as the interpreter does
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code)


def _forget_the_server() -> None:
    import logging
    import multiprocessing
    import multiprocessing.util
    import tempfile

    # Handlers that the server's imports registered would cost every rank 50 ms; a script of the
    # program's own would run these two.
    atexit._clear()
    atexit.register(logging.shutdown)
    atexit.register(multiprocessing.util._exit_function)
    multiprocessing.set_start_method(None, force=True)
    tempfile.tempdir = None  # TMPDIR has changed


def run_script(place: Place) -> int:
    """Execute the program as `__main__` and return the exit status Python would end with."""
    pid, path = os.getpid(), place.work / place.name
    sys.stdout.reconfigure(line_buffering=True)  # C output and Python output in order
    stack = place.file("stack").open("w")
    faulthandler.enable(stack)
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    main = types.ModuleType("__main__")
    main.__file__ = str(path)
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    sys.argv[:] = [str(path)]
    sys.path.insert(0, str(place.work))
    source = path.read_text()
    _seed(source, place.rank)
    try:
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102
    except SystemExit as stop:
        return _status(stop)
    except BaseException as error:
        if os.getpid() == pid:
            # A peer that hears of it may be gone before this process: the end tells no order.
            place.file("raised").write_text(repr(time.monotonic()))
        # Without our own frame, the traceback is the one that `python fence.py` prints.
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    if os.getpid() == pid:  # a child that the program forked may fall off the end as well
        place.file("end").touch()
    return 0


def _status(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return (stop.code or 0) & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def _seed(source: str, rank: int) -> None:
    import random

    random.seed(SEED + rank)
    # A new interpreter has not imported torch; one that never names it need not wait for it.
    if "torch" in sys.modules or "torch" in source:
        import torch

        # torch.manual_seed would also note a whole stack for each kind of device, in 3 ms.
        torch.default_generator.manual_seed(SEED + rank)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED + rank)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # the program closed it
    processes.LIBC.fflush(None)


def main() -> int:
    """Run the program in a new interpreter: `python -m distlab.spmd.rank PLACE.json`."""
    place = json.loads(Path(sys.argv[1]).read_text())
    return run_script(Place(Path(place["folder"]), place["rank"], place["name"], {}))


if __name__ == "__main__":
    sys.exit(main())
