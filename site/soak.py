"""Repeat the lab, the cold build and every exercise check, disturbed, on a loaded machine.

    python site/soak.py --rounds 200 --seed 1 --out FOLDER    # what `nox -s soak` runs
    python site/soak.py --round 17 --seed 1 --out FOLDER      # one round of it again

What a round does and how it may end is said in soak_plan.py, before the run. FOLDER receives
soak.txt, soak.json, and the output of every round that no rule explains. On Linux the rounds have a
/tmp and a /dev/shm of their own, so that what others leave there is not taken for a leak of ours.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "code")]

import soak_plan  # noqa: E402
from conftest import eventually, processes_with  # noqa: E402
from distlab import spmd  # noqa: E402
from distlab.practice import places, tasks  # noqa: E402
from distlab.spmd import processes  # noqa: E402
from site_copy import ROOT  # noqa: E402
from soak_plan import Plan, Round, Seen  # noqa: E402
from test_builds import files  # noqa: E402

LAB = "content/courses/pytorch/code/26_ddp_gloo.py"
TORCHRUN = ("torch.distributed.run", "--standalone", "--local-addr=127.0.0.1")
PAUSE = 3.0
"""Seconds for which a paused process is stopped: far less than any deadline of ours."""

LOOK = 0.02
"""Seconds between two looks at a job."""

SHARED = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108 -- the folders in which others write, too


# ---- Jobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
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


def command(plan: Plan, place: Place) -> list[str]:
    """Lay out the working folder and return the command, as a reader types it."""
    place.tmp.mkdir(parents=True)
    place.work.mkdir()
    python = [sys.executable, "-m"]
    if plan.job == "build":
        return [*python, "mkdocs", "build", "--site-dir", str(place.work / "public")]
    if plan.job == "practice":
        file = tasks.find(plan.task).file
        shipped = places.IN_REPOSITORY["solutions" if plan.how == "solution" else "originals"]
        shutil.copy(shipped / file, place.work)
        return [*python, "distlab.practice", "--folder", str(place.work), "check", plan.task]
    options = ["--steps", str(plan.steps), "--json", str(place.work / "lab.json")]
    lab = [str(place.tree / LAB), *options]
    if plan.how == "torchrun":
        return [*python, *TORCHRUN, f"--nproc_per_node={plan.ranks}", *lab, "--torchrun"]
    start = ["--world-size", str(plan.ranks), "--start-method", plan.how]
    return [sys.executable, *lab, *start]


def start(plan: Plan, place: Place) -> subprocess.Popen:
    """Start the job of a round; it ends with us."""
    env = {"TMPDIR": str(place.tmp), "PYTHONPATH": str(place.tree / "code"), "FENCE_FRESH": "1",
           "FENCE_CACHE": str(place.work / "fences"), "NO_MKDOCS_2_WARNING": "1"}  # fmt: skip
    arguments, ours = command(plan, place), os.getpid()
    with (place.folder / "stdout").open("w") as out, (place.folder / "stderr").open("w") as err:
        return subprocess.Popen(
            arguments, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=os.environ | env,
            cwd=place.tree if plan.job == "build" else place.work, start_new_session=True,
            preexec_fn=lambda: processes.die_with_parent(ours),  # noqa: PLW1509
        )  # fmt: skip


def wrong(plan: Plan, place: Place, exit_status: int | None, reference: dict[str, bytes]) -> str:
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
        built = files(place.work / "public")
        names = sorted(reference.keys() | built.keys())
        differ = [name for name in names if reference.get(name) != built.get(name)]
        return f"differs from the first build: {', '.join(differ)}" if differ else ""
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
        if match := re.search(r"/stdout(\d+)$", _link(pid)):
            found[int(match[1])] = pid
    return found


def _link(pid: int) -> str:
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
        if age > soak_plan.DEADLINE[plan.job]:
            processes.kill_tree(process.pid)
            process.wait()
            return age, hit
        if plan.strike and not hit and age >= plan.strike.delay:
            hit = strike(plan, process.pid)
        time.sleep(LOOK)
    return time.monotonic() - begun, hit


# ---- Leaks ---------------------------------------------------------------------------------------


class Watchman:
    """Knows what was there before the rounds, and tells what a round has left."""

    def __init__(self, folder: Path, launcher: spmd.Launcher, *, private: bool) -> None:
        """Look at the machine; every orphan of a round becomes our child from now on."""
        processes.adopt_orphans()
        self.launcher = launcher
        self.known = {launcher._server.pid}
        self.shared = SHARED if private else ()
        self.before = {path: self._names(path) for path in self.shared}
        self.folder = folder
        self.counts = self.first = self.count()

    def _names(self, folder: Path) -> set[str]:
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()

    def count(self) -> dict[str, int]:
        """Count what belongs to the long-lived launcher and to us."""
        server = self.launcher._server.pid
        hosts = [pid for pid in processes.children(server) if _link(pid).endswith("/server.log")]
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

    def leaks(self, place: Place, allowed: dict[str, tuple[str, ...]]) -> list[str]:
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

    def wait(self, plan: Plan, place: Place) -> tuple[float, tuple[str, ...]]:
        """Return how long a round took to be gone, and what was not gone by then."""
        begun, left, allowed = time.monotonic(), [""], may_stay(plan)

        def gone() -> bool:
            left[:] = self.leaks(place, allowed)
            return not left

        eventually(gone, plan.leave)
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


# ---- Rounds --------------------------------------------------------------------------------------


class Soak:
    """Plays rounds in a folder of its own, on a copy of the tree that nobody edits meanwhile."""

    def __init__(self, folder: Path, *, private: bool) -> None:
        """Copy the tree, start the long-lived launcher, and count what is there."""
        self.folder, self.tree = folder, folder / "tree"
        for name in ("code", "content", "site"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, self.tree / name, ignore=ignored)
        for name in ("mkdocs.yml", "constraints.txt"):
            shutil.copy(ROOT / name, self.tree)
        self.launcher = spmd.Launcher()
        self.launcher.run(soak_plan.program("finish", 0, 2))  # now what it keeps is there
        self.watchman = Watchman(folder, self.launcher, private=private)
        self.reference: dict[str, bytes] = {}

    def play(self, plan: Plan) -> Round:
        """Play one round and judge it."""
        place = Place(self.folder / f"r{plan.number}", self.tree)
        if plan.job == "build" and not self.reference:
            self.reference = self._first_build()
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                 preexec_fn=_with_us(os.getpid())) for _ in range(plan.busy)]  # noqa: PLW1509  # fmt: skip
        self.watchman.known |= {each.pid for each in busy}
        try:
            seen = self._launch(plan, place) if plan.job == "launcher" else self._run(plan, place)
        finally:
            for each in busy:
                each.kill()
                each.wait()
        return Round(plan, seen, soak_plan.judge(plan, seen))

    def _first_build(self) -> dict[str, bytes]:
        """Build once, alone: what every other build has to equal, byte by byte."""
        place = Place(self.folder / "r0", self.tree)
        process = start(Plan(0, 0, "build", "cold"), place)
        if process.wait(soak_plan.DEADLINE["build"]):
            raise RuntimeError(f"the site does not build: {place.said('stderr')[-2000:]}")
        return files(place.work / "public")

    def _run(self, plan: Plan, place: Place) -> Seen:
        process = start(plan, place)
        self.watchman.known.add(process.pid)
        seconds, hit = watch(plan, process)
        late = seconds > soak_plan.DEADLINE[plan.job]
        unlike = wrong(plan, place, process.returncode, self.reference)
        leaving, leaks = self.watchman.wait(plan, place)
        output = place.said("stdout") + place.said("stderr")
        struck, begun = hit or (None, False)
        status = None if late else process.returncode
        return Seen(status, seconds, output, unlike, struck, begun, leaving, leaks)

    def _launch(self, plan: Plan, place: Place) -> Seen:
        place.tmp.mkdir(parents=True)
        place.work.mkdir()
        begun, names = time.monotonic(), plan.how.split(", ")
        cast = list(zip(names, plan.culprits, plan.moments, strict=True))
        futures = [self.launcher.submit(soak_plan.program(n, c, plan.ranks)) for n, c, _ in cast]
        waiting = [each for each in cast if soak_plan.PROGRAMS[each[0]].outside]
        while not all(future.done() for future in futures):
            if time.monotonic() - begun > soak_plan.DEADLINE["launcher"]:
                return Seen(None, time.monotonic() - begun, "", "")
            waiting = [each for each in waiting if not self._strike_inside(*each)]
            time.sleep(LOOK)
        outcomes = [future.result() for future in futures]
        seconds = time.monotonic() - begun
        faults = [soak_plan.wrong(name, culprit, outcome)
                  for (name, culprit, _), outcome in zip(cast, outcomes, strict=True)]  # fmt: skip
        leaving, leaks = self.watchman.wait(plan, place)
        said = "\n".join(json.dumps(outcome.to_json(), indent=1) for outcome in outcomes)
        unlike = "; ".join(filter(None, faults))
        return Seen(int(bool(unlike)), seconds, said, unlike, leaving=leaving, leaks=leaks)

    def _strike_inside(self, name: str, culprit: int, moment: float) -> bool:
        """Signal the culprit of a program on the launcher, once it is old enough."""
        for pid in processes.children(self.launcher._server.pid):
            output = Path(_link(pid))
            source = output.parent / "work" / "fence.py"
            if output.name != f"stdout{culprit}" or not source.exists():
                continue
            ours = source.read_text().endswith(f"# {name}\n")
            if ours and time.time() - source.stat().st_mtime >= moment:
                signum = soak_plan.PROGRAMS[name].outside
                processes.send(pid, signal.Signals[f"SIG{signum}"])
                return True
        return False

    def forget(self, plan: Plan, out: Path, *, keep: bool) -> None:
        """Remove the folder of a round; keep what it printed if no rule explains it."""
        folder = self.folder / f"r{plan.number}"
        for stream in ("stdout", "stderr") if keep else ():
            if (folder / stream).exists():
                shutil.copy(folder / stream, out / f"round-{plan.number}.{stream}")
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> tuple[str, ...]:
        """End the launcher; return what it has left behind."""
        pid, root = self.launcher._server.pid, self.launcher.folder
        self.launcher.close()
        left = [f"file {root}"] * root.exists()
        return (*left, *(["the launcher's server"] * Path(f"/proc/{pid}").exists()))


def _with_us(ours: int) -> Callable[[], None]:
    return lambda: processes.die_with_parent(ours)


def may_stay(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return which names may lie in a round's folders afterwards: patterns by folder."""
    results = {"lab": ("lab.json",), "build": ("public", "fences")}.get(plan.job, ())
    if plan.job == "practice":
        results = (tasks.find(plan.task).file, ".progress.json")
    # torchrun 2.8 never removes the folder of its logs.
    logs = ("torchelastic_*",) if plan.how == "torchrun" else ()
    return {"t": logs, "work": results}


# ---- The command ---------------------------------------------------------------------------------


def enclose(out: Path) -> bool:
    """Run again with a /tmp and a /dev/shm of our own; return whether that is so already.

    Without the right to do so, or where the project or the report lies in /tmp, the rounds' own
    temp folders are looked at and nothing else.
    """
    if os.environ.pop("SOAK_ENCLOSED", ""):
        return True
    needed = (ROOT, Path(sys.prefix), Path(sys.executable), out.resolve())
    if any(path.is_relative_to(folder) for path in needed for folder in SHARED):
        return False
    mounts = " && ".join(f"mount -t tmpfs soak {folder}" for folder in SHARED)
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*unshare, mounts], capture_output=True, check=False).returncode
    ):
        return False
    os.environ["SOAK_ENCLOSED"] = "1"
    os.execvp("unshare", [*unshare, f'{mounts} && exec "$@"', "sh", sys.executable, *sys.argv])
    raise AssertionError("exec does not return")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options, or end with one sentence and exit status 2."""
    parser = argparse.ArgumentParser("soak", description=__doc__.splitlines()[0])
    parser.error = lambda text: parser.exit(2, f"soak: {text}; --help says what fits\n")
    parser.add_argument("--rounds", type=int, default=200, help="how many rounds (200)")
    parser.add_argument("--round", type=int, help="play this one only")
    parser.add_argument("--seed", type=int, help="from which every plan follows (a random one)")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the report (here)")
    options = parser.parse_args(arguments)
    for name in ("rounds", "round"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name} {value}: rounds are counted from 1")
    if options.round and options.seed is None:
        parser.error(f"--round {options.round} needs the --seed of its run")
    if not options.out.is_dir():
        parser.error(f"--out {options.out} is not a folder")
    return options


def notes(soak: Soak, options: argparse.Namespace, *, private: bool) -> list[str]:
    """Return what the report says beside the rounds."""
    begin, end = soak.watchman.first, soak.watchman.count()
    where = "a /tmp and a /dev/shm of their own" if private else "the shared /tmp, unchecked"
    counted = ", ".join(f"{name} {n} -> {end[name]}" for name, n in begin.items())
    return [f"seed {options.seed}; the rounds had {where}",
            f"the long-lived launcher, begin -> end: {counted}"]  # fmt: skip


def write(out: Path, rounds: list[Round], text: str) -> None:
    """Write the report for people and the one for programs."""
    entries = [dataclasses.asdict(each) for each in rounds]
    for entry in entries:
        entry["seen"]["output"] = entry["seen"]["output"][-500:]
    (out / "soak.txt").write_text(text + "\n")
    (out / "soak.json").write_text(json.dumps(entries, indent=1) + "\n")


def main(options: argparse.Namespace, *, private: bool) -> int:
    """Play the rounds, print and write the report, return the exit status."""
    if options.seed is None:
        options.seed = secrets.randbelow(10_000)
    numbers = [options.round] if options.round else range(1, options.rounds + 1)
    again = "nox -s soak -- --round {number} --seed {seed}"
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        soak = Soak(Path(folder), private=private)
        try:
            for number in numbers:
                rounds.append(soak.play(soak_plan.plan(options.seed, number)))
                told(rounds[-1])
                soak.forget(rounds[-1].plan, options.out, keep=bool(rounds[-1].verdict.faults))
        except KeyboardInterrupt:
            print(f"interrupted after {len(rounds)} rounds", file=sys.stderr)
        finally:
            said = notes(soak, options, private=private)
            left = soak.close()
            said += [f"the launcher has left {what}" for what in left]
            text = soak_plan.report(rounds, said, again)
            write(options.out, rounds, text)
    print(f"\n{text}\n\nwritten: {options.out / 'soak.txt'} and soak.json")
    if len(rounds) < len(numbers):
        return 130
    return int(bool(left) or any(each.verdict.faults for each in rounds))


def told(each: Round) -> None:
    """Print a line for a round."""
    plan, seen, verdict = each.plan, each.seen, each.verdict
    busy = f"{plan.busy} busy"
    what = f"round {plan.number:3} {seen.seconds:6.1f} s  {busy}  {plan}: {verdict.outcome}"
    print(what, *(f"    FAULT {fault}" for fault in verdict.faults), sep="\n", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & would have it ignored
    chosen = parse()
    sys.exit(main(chosen, private=enclose(chosen.out)))
