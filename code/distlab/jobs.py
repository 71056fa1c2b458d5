"""Run a training script on some ranks as torchrun would, and kill one of them if you like.

A call is jobs.run("26_train.py", "--epochs=2", ranks=2, kill=(1, 12)); it returns a Job.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from distlab.spmd import Launcher, Program, texts

PROGRAM = """
import os, runpy, sys
from distlab import jobs

os.chdir({folder!r})
jobs.kill_before(*{kill!r})
sys.argv[:] = {argv!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Job:
    """What came of a job.

    exits: the exit status of each rank; negative for a signal
    lines: what rank 0 printed
    error: what the ranks wrote to stderr
    """

    exits: list[int | None]
    lines: list[str]
    error: str


def run(
    script: str, *options: str, ranks: int, kill: tuple[int, int] = (-1, 0), limit: float = 60
) -> Job:
    """Run a script in this folder; when a rank fails, the others are ended, as by torchrun.

    kill:  (rank, step): kill this rank before this step of its optimizer, counted from 1
    limit: seconds that the job may take; after them TimeoutError is raised
    """
    argv = [str(find(script)), *options]
    source = PROGRAM.format(folder=str(Path.cwd()), kill=kill, argv=argv)
    outcome = _launcher().run(Program(source, ranks=ranks, timeout=limit, name="job.py"))
    if outcome.cause == "deadline":
        raise TimeoutError(f"{script} on {ranks} ranks has not ended in {limit} s")
    said = texts.normalise(outcome.ranks[0].stdout)
    error = "".join(rank.stderr for rank in outcome.ranks)
    return Job([rank.exit for rank in outcome.ranks], said.splitlines(), error)


@functools.cache
def _launcher() -> Launcher:
    launcher = Launcher()
    atexit.register(launcher.close)
    return launcher


def find(script: str) -> Path:
    """Return where a script is: as named, or its file here or above. Raises FileNotFoundError."""
    name = Path(script).name
    for path in (Path(script), Path(name), Path("..", name)):
        if path.is_file():
            return path.absolute()
    raise FileNotFoundError(f"{script} is neither there, nor {name} here or above: start beside it")


def kill_before(rank: int, step: int) -> None:
    """Have this process killed before a step of its optimizer, if it is that rank."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    steps = itertools.count(1)

    def die(*_: object) -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    if os.environ["RANK"] == str(rank):
        register_optimizer_step_pre_hook(die)
