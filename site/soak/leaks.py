"""What a round of `nox -s soak` has left: processes, files, descriptors, threads and ports."""

from __future__ import annotations

import fnmatch
import os
import time
from pathlib import Path

from distlab import spmd
from distlab.practice import tasks
from distlab.spmd import processes
from soak import plan as plans
from soak.jobs import RoundFolder, link
from soak.plan import Plan
from tools.watch import eventually, processes_with

SHARED = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108 -- the folders in which others write, too


class Watchman:
    """Knows what was there before the rounds, and tells what a round has left."""

    def __init__(self, folder: Path, launcher: spmd.Launcher, *, private: bool) -> None:
        """Look at the machine; every orphan of a round becomes our child from now on."""
        processes.adopt_orphans()
        self.launcher = launcher
        self.known = {launcher.pid}
        self.shared = SHARED if private else ()
        self.before = {path: self._names(path) for path in self.shared}
        self.folder = folder
        self.counts = self.first = self.count()

    def _names(self, folder: Path) -> set[str]:
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()

    def count(self) -> dict[str, int]:
        """Count what belongs to the long-lived launcher and to us."""
        server = self.launcher.pid
        hosts = [pid for pid in processes.children(server) if link(pid).endswith("/server.log")]
        counts = {"server's children": len(processes.children(server)),
                  "files in its folder": len(list(self.launcher.folder.iterdir()))}  # fmt: skip
        for name, pid in (("server", server), ("caller", os.getpid()), ("store host", *hosts[:1])):
            for what, kind in (("descriptors", "fd"), ("threads", "task")):
                counts[f"{name}'s {what}"] = len(os.listdir(f"/proc/{pid}/{kind}"))  # noqa: PTH208
        return counts | {"listening ports": len(listening((os.getpid(), server, *hosts)))}

    def orphans(self) -> list[int]:
        """Return our children that no round should have left, after reaping the ended ones."""
        found = [pid for pid in processes.children(os.getpid()) if pid not in self.known]
        return [pid for pid in found if not os.waitpid(pid, os.WNOHANG)[0]]

    def leaks(self, place: RoundFolder, allowed: dict[str, tuple[str, ...]]) -> list[str]:
        """Return what a round has left; `allowed` are patterns of names in its folders."""
        orphans = self.orphans()
        found = [f"process {processes.command(pid) or pid}" for pid in orphans]
        found += [f"process {line}" for line in processes_with(f"{place.folder}/") if not orphans]
        for folder, patterns in allowed.items():
            for name in self._names(place.folder / folder):
                if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                    found.append(f"file {folder}/{name}")
        for folder, names in self.before.items():
            found += [f"file {folder / name}" for name in self._names(folder) - names]
        now = self.count()
        return found + [f"{name}: {n}, before {self.counts[name]}" for name, n in now.items()
                        if n != self.counts[name]]  # fmt: skip

    def wait(self, plan: Plan, place: RoundFolder) -> tuple[float, tuple[str, ...]]:
        """Return how long a round took to be gone, and what was not gone by then."""
        begun, left, allowed = time.monotonic(), [""], may_stay(plan)

        def gone() -> bool:
            left[:] = self.leaks(place, allowed)
            return not left

        eventually(gone, plans.LEAVE)
        took = time.monotonic() - begun
        if left:
            self._forgive()
        return took, tuple(left)

    def _forgive(self) -> None:
        """End what was left and take the rest as given, so that each leak is told once."""
        for pid in self.orphans():
            processes.kill_tree(pid)
        self.before = {path: self._names(path) for path in self.shared}
        self.counts = self.count()


def listening(pids: tuple[int, ...]) -> set[str]:
    """Return the listening TCP sockets that these processes hold open."""
    rows = [line.split() for name in ("tcp", "tcp6") if Path(f"/proc/net/{name}").exists()
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]  # fmt: skip
    sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}
    held = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                held.add(str(fd.readlink()))
            except OSError:
                continue  # the descriptor with which we list our own
    return sockets & held


def may_stay(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return which names may lie in a round's folders afterwards: patterns by folder."""
    results = {"lab": ("lab.json",), "build": ("public", "fences")}.get(plan.job, ())
    if plan.job == "practice":
        results = (tasks.find(plan.task).file, ".progress.json")
    if plan.how != "torchrun":
        return {"t": (), "work": results}
    # torchrun 2.8 never removes the folder of its logs, and a rank that it ends not the one that
    # torch/distributed/nn/jit/instantiator.py makes as it is imported: both are torch's.
    struck = ("tmp????????",) if plan.strike else ()
    return {"t": ("torchelastic_*", *struck), "work": results}
