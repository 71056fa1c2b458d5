"""Repeat the lab, the cold build and every exercise check, disturbed, on a loaded machine.

    python -m soak --rounds 200 --seed 1 --out FOLDER    # what `nox -s soak` runs
    python -m soak --round 17 --seed 1 --out FOLDER      # one round of it again

What a round does is said in plan.py, how it may end in rules.py, before the run. FOLDER
receives soak.txt, soak.json, and the output of every round that no rule explains. On Linux the
rounds have a /tmp and a /dev/shm of their own, so that others' files are not taken for a leak.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from distlab import spmd
from distlab.spmd import processes
from press.progress import Progress
from soak import plan as plans
from soak import programs, rules
from soak.jobs import LOOK, RoundFolder, link, start, watch, wrong
from soak.leaks import SHARED, Watchman
from soak.plan import DEADLINE, Plan
from soak.programs import PROGRAMS
from soak.rules import Observed, Round
from tools.site_copy import ROOT, files


class Unbuilt(Exception):  # noqa: N818
    """There is no build to compare with; the text is what it said."""


class Soak:
    """Plays rounds in a folder of its own, on a copy of the tree that nobody edits meanwhile."""

    def __init__(self, folder: Path, *, private: bool) -> None:
        """Copy the tree, start the long-lived launcher, and count what is there."""
        self.folder, self.tree = folder, folder / "tree"
        for name in ("code", "content", "site"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, self.tree / name, symlinks=True, ignore=ignored)
        shutil.copytree(ROOT / "requirements", self.tree / "requirements")
        for name in ("mkdocs.yml", "constraints.txt"):
            shutil.copy(ROOT / name, self.tree)
        self.launcher = spmd.Launcher()
        self.launcher.run(programs.program("finish", 0, 2))  # now what it keeps is there
        self.watchman = Watchman(folder, self.launcher, private=private)
        self.reference: dict[str, bytes] = {}

    def play(self, plan: Plan) -> Round:
        """Play one round and judge it."""
        place = RoundFolder(self.folder / f"r{plan.number}", self.tree)
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
        return Round(plan, seen, rules.judge(plan, seen))

    def _first_build(self) -> dict[str, bytes]:
        """Build once, alone: what every other build has to equal, byte by byte."""
        place = RoundFolder(self.folder / "r0", self.tree)
        process = start(Plan(0, 0, "build", "cold"), place)
        if process.wait(DEADLINE["build"]):
            raise Unbuilt(f"undisturbed, the site does not build: {place.said('stderr')[-2000:]}")
        return files(place.work / "public")

    def _run(self, plan: Plan, place: RoundFolder) -> Observed:
        process = start(plan, place)
        self.watchman.known.add(process.pid)
        seconds, hit = watch(plan, process)
        late = seconds > DEADLINE[plan.job]
        unlike = wrong(plan, place, process.returncode, self.reference)
        leaving, leaks = self.watchman.wait(plan, place)
        output = place.said("stdout") + place.said("stderr")
        struck, begun = hit or (None, False)
        status = None if late else process.returncode
        return Observed(status, seconds, output, unlike, struck, begun, leaving, leaks)

    def _launch(self, plan: Plan, place: RoundFolder) -> Observed:
        place.tmp.mkdir(parents=True)
        place.work.mkdir()
        begun, names = time.monotonic(), plan.how.split(", ")
        cast = list(zip(names, plan.culprits, plan.moments, strict=True))
        futures = [self.launcher.submit(programs.program(n, c, plan.ranks)) for n, c, _ in cast]
        waiting = [each for each in cast if PROGRAMS[each[0]].outside]
        while not all(future.done() for future in futures):
            if time.monotonic() - begun > DEADLINE["launcher"]:
                return Observed(None, time.monotonic() - begun, "", "")
            waiting = [each for each in waiting if not self._strike_inside(*each)]
            time.sleep(LOOK)
        outcomes = [future.result() for future in futures]
        seconds = time.monotonic() - begun
        faults = [programs.wrong(name, culprit, outcome)
                  for (name, culprit, _), outcome in zip(cast, outcomes, strict=True)]  # fmt: skip
        leaving, leaks = self.watchman.wait(plan, place)
        said = "\n".join(json.dumps(outcome.to_json(), indent=1) for outcome in outcomes)
        unlike = "; ".join(filter(None, faults))
        return Observed(int(bool(unlike)), seconds, said, unlike, leaving=leaving, leaks=leaks)

    def _strike_inside(self, name: str, culprit: int, moment: float) -> bool:
        """Signal the culprit of a program on the launcher, once it is old enough."""
        for pid in processes.children(self.launcher.pid):
            output = Path(link(pid))
            source = output.parent / "work" / "fence.py"
            if output.name != f"stdout{culprit}" or not source.exists():
                continue
            ours = source.read_text().endswith(f"# {name}\n")
            if ours and time.time() - source.stat().st_mtime >= moment:
                signum = PROGRAMS[name].outside
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
        pid, root = self.launcher.pid, self.launcher.folder
        self.launcher.close()
        left = [f"file {root}"] * root.exists()
        return (*left, *(["the launcher's server"] * Path(f"/proc/{pid}").exists()))


def _with_us(ours: int) -> Callable[[], None]:
    return lambda: processes.die_with_parent(ours)


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
        entry["observed"]["output"] = entry["observed"]["output"][-500:]
    (out / "soak.txt").write_text(text + "\n")
    (out / "soak.json").write_text(json.dumps(entries, indent=1) + "\n")


def main(options: argparse.Namespace, *, private: bool) -> int:
    """Play the rounds, print and write the report, return the exit status."""
    if options.seed is None:
        options.seed = secrets.randbelow(10_000)
    numbers = [options.round] if options.round else range(1, options.rounds + 1)
    again = "nox -s soak -- --round {number} --seed {seed}"
    rounds: list[Round] = []
    status = 0
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        progress = Progress("rounds", len(numbers)).show()  # before what is there is counted
        soak = Soak(Path(folder), private=private)
        try:
            for number in numbers:
                plan = plans.plan(options.seed, number)
                progress.start(str(plan))
                rounds.append(soak.play(plan))
                progress.done(str(plan))
                told(rounds[-1])
                soak.forget(rounds[-1].plan, options.out, keep=bool(rounds[-1].judgement.faults))
        except KeyboardInterrupt:
            print(f"interrupted after {len(rounds)} rounds", file=sys.stderr)
            status = 130
        except Unbuilt as problem:
            print(f"soak: {problem}", file=sys.stderr)
            status = 1
        finally:
            progress.close()
            said = notes(soak, options, private=private)
            left = soak.close()
            said += [f"the launcher has left {what}" for what in left]
            text = rules.report(rounds, said, again)
            write(options.out, rounds, text)
    print(f"\n{text}\n\nwritten: {options.out / 'soak.txt'} and soak.json")
    return status or int(bool(left) or any(each.judgement.faults for each in rounds))


def told(each: Round) -> None:
    """Print a line for a round."""
    plan, seen, verdict = each.plan, each.observed, each.judgement
    busy = f"{plan.busy} busy"
    what = f"round {plan.number:3} {seen.seconds:6.1f} s  {busy}  {plan}: {verdict.outcome}"
    print(what, *(f"    FAULT {fault}" for fault in verdict.faults), sep="\n", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & would have it ignored
    chosen = parse()
    sys.exit(main(chosen, private=enclose(chosen.out)))
