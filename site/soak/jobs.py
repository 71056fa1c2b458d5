"""The jobs of `nox -s soak`: how each is started, struck, and told right from wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from distlab.practice import places, tasks
from distlab.spmd import processes
from press.modules import Module
from soak.plan import DEADLINE, Plan
from tools.site_copy import differences, files

TORCHRUN = ("torch.distributed.run", "--standalone", "--local-addr=127.0.0.1")
PAUSE = 3.0
"""Seconds for which a paused process is stopped: far less than any deadline of ours."""

LOOK = 0.02
"""Seconds between two looks at a job."""


@dataclass(frozen=True)
class RoundFolder:
    """The folder of one round: `tmp` is its TMPDIR, `work` its working folder."""

    folder: Path
    tree: Path

    @property
    def tmp(self) -> Path:
        """The temp folder: a fork server's socket lies in it, and its path has 108 bytes."""
        return self.folder / "t"

    @property
    def work(self) -> Path:
        """The working folder, in which the results stay."""
        return self.folder / "work"

    def said(self, stream: str) -> str:
        """Return what the job wrote to "stdout" or "stderr"."""
        return (self.folder / stream).read_text(errors="replace")


def command(plan: Plan, place: RoundFolder) -> list[str]:
    """Lay out the working folder and return the command, as a reader types it."""
    place.tmp.mkdir(parents=True)
    place.work.mkdir()
    python = [sys.executable, "-m"]
    if plan.job == "build":
        return [*python, "mkdocs", "build", "--site-dir", str(place.work / "public")]
    if plan.job == "practice":
        task = tasks.find(plan.task)
        shutil.copy((places.solution if plan.how == "solution" else places.original)(task),
                    place.work)  # fmt: skip
        return [*python, "distlab.practice", "--folder", str(place.work), "check", plan.task]
    options = ["--steps", str(plan.steps), "--json", str(place.work / "lab.json")]
    lab = [str(Module(plan.module, place.tree).lab), *options]
    if plan.how == "torchrun":
        return [*python, *TORCHRUN, f"--nproc_per_node={plan.ranks}", *lab, "--torchrun"]
    start = ["--world-size", str(plan.ranks), "--start-method", plan.how]
    return [sys.executable, *lab, *start]


def start(plan: Plan, place: RoundFolder) -> subprocess.Popen:
    """Start the job of a round; it ends with us."""
    path = os.pathsep.join(str(place.tree / name) for name in ("code", "site"))
    env = {"TMPDIR": str(place.tmp), "PYTHONPATH": path, "FENCE_FRESH": "1",
           "FENCE_CACHE": str(place.work / "fences"), "NO_MKDOCS_2_WARNING": "1"}  # fmt: skip
    if plan.job == "practice":  # as from the module's zip: its files lie in the folder itself
        env[tasks.ONLY] = tasks.find(plan.task).module
    arguments, ours = command(plan, place), os.getpid()
    with (place.folder / "stdout").open("w") as out, (place.folder / "stderr").open("w") as err:
        return subprocess.Popen(
            arguments, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=os.environ | env,
            cwd=place.tree if plan.job == "build" else place.work, start_new_session=True,
            preexec_fn=lambda: processes.die_with_parent(ours),  # noqa: PLW1509
        )  # fmt: skip


def wrong(
    plan: Plan, place: RoundFolder, exit_status: int | None, reference: dict[str, bytes]
) -> str:
    """Return how a job's result differs from that of an undisturbed one, or ""."""
    out, err = place.said("stdout"), place.said("stderr")
    last = (out.splitlines() or ["nothing printed"])[-1]
    if plan.job == "practice":
        words = "passed on 2, 3 and 4 ranks" if plan.how == "solution" else "not begun"
        good = exit_status == int(plan.how == "stub") and words in out
        return "" if good else f"exit {exit_status}: {last} {err[-300:]}".strip()
    if exit_status != 0 or "Traceback" in err:
        return f"exit {exit_status}: {last[-300:]} {err[-300:]}".strip()
    if plan.job == "build":
        differ = differences(reference, files(place.work / "public"))
        return differ and f"differs from the first build: {differ}"
    checks = json.loads((place.work / "lab.json").read_text())["checks"]
    failed = [name for name, passed, _ in checks if not passed]
    return f"{last}; failed: {failed}" if failed or not last.startswith("ok: ") else ""


# ---- Strikes -------------------------------------------------------------------------------------


def server_of(plan: Plan, pid: int) -> int | None:
    """Return the fork server that a job has started, if it has one now."""
    name = "multiprocessing.forkserver" if plan.job == "lab" else "distlab.spmd.server"
    found = [child for child in processes.children(pid) if name in processes.command(child)]
    return found[0] if found else None


def ranks_of(plan: Plan, pid: int) -> dict[int, int]:
    """Return the process ids of a job's living ranks, by rank.

    The kernel lists children in the order of their birth, which is that of the ranks.
    """
    if plan.how == "torchrun":
        return {rank: child for child in processes.children(pid)
                if (rank := _variable(child, "RANK")) is not None}  # fmt: skip
    if plan.how == "spawn":
        started = [c for c in processes.children(pid) if "spawn_main" in processes.command(c)]
        return dict(enumerate(started))
    server = server_of(plan, pid)
    started = processes.children(server) if server else []
    return dict(enumerate(started)) if plan.job == "lab" else ranks_by_output(started)


def ranks_by_output(started: list[int]) -> dict[int, int]:
    """Return the ranks among the children of a fork server of distlab.spmd: they write stdoutR."""
    found = {}
    for pid in started:
        if match := re.search(r"/stdout(\d+)$", link(pid)):
            found[int(match[1])] = pid
    return found


def link(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/fd/1").readlink())
    except OSError:
        return ""


def _variable(pid: int, name: str) -> int | None:
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    match = re.search(rf"(?:^|\0){name}=(\d+)", text)
    return int(match[1]) if match else None


def target(plan: Plan, pid: int) -> tuple[int, int] | None:
    """Return what is to be struck, if it is there now: its rank (else its pid), and its pid."""
    aim = plan.strike
    if aim.target == "parent":
        return pid, pid
    if aim.target == "server":
        server = server_of(plan, pid)
        return (server, server) if server else None
    ranks = ranks_of(plan, pid)
    if plan.job == "lab":
        return (aim.rank, ranks[aim.rank]) if aim.rank in ranks else None
    return sorted(ranks.items())[aim.rank % len(ranks)] if ranks else None


def strike(plan: Plan, pid: int) -> tuple[int, bool] | None:
    """Strike if the target is there; return what was hit and whether the job had begun."""
    found = target(plan, pid)
    if not found:
        return None
    begun = bool(processes.children(pid))
    name = plan.strike.signal
    processes.send(found[1], signal.SIGSTOP if name == "PAUSE" else signal.Signals[f"SIG{name}"])
    if name == "PAUSE":
        time.sleep(PAUSE)
        processes.send(found[1], signal.SIGCONT)
    return found[0], begun


def watch(plan: Plan, process: subprocess.Popen) -> tuple[float, tuple[int, bool] | None]:
    """Wait for the end of a job, strike it, end it at its deadline; return seconds and hit."""
    begun, hit = time.monotonic(), None
    while process.poll() is None:
        age = time.monotonic() - begun
        if age > DEADLINE[plan.job]:
            processes.kill_tree(process.pid)
            process.wait()
            return age, hit
        if plan.strike and not hit and age >= plan.strike.delay:
            hit = strike(plan, process.pid)
        time.sleep(LOOK)
    return time.monotonic() - begun, hit
