"""Run a training script on some ranks as torchrun would, and kill one of them if you like.

    from distlab import jobs
    job = jobs.run("26_train.py", "--epochs=2", ranks=2, kill=(1, 12))
    print(job.exits, job.lines)

torchrun starts new interpreters, each of which imports torch for seconds. These ranks are forked
from the caller, with torchrun's variables and a store outside of them, in half a second. The caller
must not have computed anything with torch: that starts threads, which its forks would wait for.
"""

from __future__ import annotations

import itertools
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from distlab.spmd import processes, torchrun
from distlab.spmd.stores import StoreHost

PLACES = (".", "..", "content/courses/pytorch/code")
"""Where a script is looked for: here, above a zip's programs, in this project."""


@dataclass(frozen=True)
class Job:
    """What came of a job.

    exits: the exit status of each rank; negative for a signal
    lines: what rank 0 printed, without gloo's greeting
    error: what the ranks wrote to stderr
    """

    exits: list[int]
    lines: list[str]
    error: str


def run(
    script: str, *options: str, ranks: int, kill: tuple[int, int] = (-1, 0), limit: float = 60
) -> Job:
    """Run a script; when a rank fails, end the others, as torchrun does.

    kill:  (rank, step): kill this rank before this step of its optimizer, counted from 1
    limit: seconds that the job may take; after them TimeoutError is raised
    """
    import torch.distributed
    import torch.optim  # noqa: F401 - both here, so that not each rank does it

    path, stores, exits = find(script), StoreHost(), {}
    port, pids = stores.open(), []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rank in range(ranks):
                place = torchrun.environment(rank, ranks, port, "job")
                fatal_step = kill[1] if kill[0] == rank else 0
                pids.append(_fork(path, options, place, Path(folder), fatal_step))
            _wait(pids, exits, limit)
        finally:
            _end({*pids, stores.pid} - exits.keys())
        lines = Path(folder, "out0").read_text().splitlines()
        errors = [Path(folder, f"err{rank}").read_text() for rank in range(ranks)]
    said = [line for line in lines if "[Gloo]" not in line]
    return Job([exits[pid] for pid in pids], said, "".join(errors))


def find(script: str) -> Path:
    """Return where a script is. Raises FileNotFoundError."""
    for place in PLACES:
        if (path := Path(place, script)).is_file():
            return path.absolute()
    raise FileNotFoundError(f"{script} is in none of {', '.join(PLACES)}; start this beside it")


def _fork(
    path: Path, options: tuple[str, ...], place: dict[str, str], folder: Path, fatal_step: int
) -> int:
    """Start a rank; return its process id."""
    parent, pid = os.getpid(), os.fork()
    if pid:
        return pid
    code = 1
    try:
        processes.die_with_parent(parent)
        os.environ.update(place)
        for fd, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / (name + place["RANK"]), os.O_WRONLY | os.O_CREAT), fd)
        _kill_before(fatal_step)
        sys.argv = [str(path), *options]
        runpy.run_path(str(path), run_name="__main__")
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
        print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _kill_before(step: int) -> None:
    """Have this rank killed before a step of its optimizer; 0 leaves it alone."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    steps = itertools.count(1)

    def die(*_: object) -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    register_optimizer_step_pre_hook(die)


def _wait(pids: list[int], exits: dict[int, int], limit: float) -> None:
    """Wait for all ranks; note the exit status of each. Raises TimeoutError."""
    until = time.monotonic() + limit
    while waiting := set(pids) - exits.keys():
        for pid in waiting:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                exits[pid] = os.waitstatus_to_exitcode(status)
            elif any(exits.values()):
                processes.send(pid, signal.SIGTERM)
        if time.monotonic() > until:
            raise TimeoutError(f"{len(waiting)} of {len(pids)} ranks have not ended in {limit} s")
        time.sleep(0.01)


def _end(pids: set[int]) -> None:
    for pid in pids:
        processes.send(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
