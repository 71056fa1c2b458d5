"""Run everything that the course executes under the installed torch, and record what it shows.

    python -m record.drift [--fresh]      # nox -s drift installs the versions and calls this

The pinned version is recorded in full. Under another one, only what differs is kept, and what
differs runs again, so that a program whose output varies is not mistaken for one that changed.
What a recording already holds of the same program is kept, unless `--fresh` asks for all of it.
The recording appears in content/courses/pytorch/drift/ when all is done, or not at all.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from distlab import spmd
from distlab.practice import cli, grader, places, tasks
from distlab.spmd import Outcome, Program, processes, texts
from press import modules, scan
from press.drift import recordings
from press.drift.recordings import DECLARED, Edition, ItemRecord, Showing
from press.fences import Fence
from press.judge import happened, judge, rank_texts
from press.progress import Progress
from press.project import CONTENT, links, pinned_torch
from record import tally
from record.race import Race

OWN_PAGE = "content/courses/pytorch/versions.md"  # shows what is recorded here
LINKS = links()
TORCHRUN = "torchrun --standalone --local-addr=127.0.0.1 --nproc_per_node=2"
LAB_COMMANDS = {
    "spawn": "python content/{file}",
    "forkserver": "python content/{file} --start-method forkserver",
    "torchrun": f"{TORCHRUN} content/{{file}} --torchrun",
}
"""The ways to start a lab, which every lab knows."""

SCRIPT_COMMAND = f"{TORCHRUN} content/{{file}}"

MEASURED = re.compile(r"(?m)^(.* timed ).*$")
AGAIN = 3
"""How often an item runs under the pinned version, and again under another if it differs."""

RACE_RUNS = {"fork": 24, "fresh": 6, "bash": 3}
"""How often a program of the museum whose outcome varies runs in one round, by how it starts."""


@dataclass(frozen=True)
class Item:
    """Something that is run and compared.

    name:    its place in content/, then what of it: "courses/pytorch/26_ddp_gloo.md#fence-ring"
    program: a digest of it
    start:   starts one run; what it returns waits for that run's showings
    runs:    how many runs make one round
    """

    name: str
    program: str
    start: Callable[[], Callable[[], list[Showing]]]
    runs: int = 1


@dataclass(frozen=True)
class Servers:
    """Where programs run: the pages' fork server, and that of the grader."""

    pages: spmd.Launcher
    grader: spmd.Launcher


# ---- What there is to run ------------------------------------------------------------------------


def items(servers: Servers) -> Iterator[Item]:
    """Yield everything that the course executes."""
    for fence in scan.folder(CONTENT).fences:
        if not fence.at.startswith(OWN_PAGE):
            yield _fence(servers.pages, fence)
    for races in tally.RACES.values():
        for _, race in races:
            yield _race(servers.pages, race)
    for module in modules.everything():
        for way, command in LAB_COMMANDS.items():
            yield _program(servers.pages, module.lab, way, command)
        yield _program(servers.pages, module.script, "torchrun", SCRIPT_COMMAND)
    for task in tasks.everything():
        yield _exercise(servers.grader, task)


def _fence(launcher: spmd.Launcher, fence: Fence) -> Item:
    name, digest = recordings.fence_item(fence)
    program = fence.program(fence.code, LINKS)

    def showings(outcome: Outcome) -> list[Showing]:
        ended = _outcome(outcome, judge(fence, outcome, fence.code) is None)
        said = texts.fold(rank_texts(fence, outcome, fence.code))
        return [Showing(ended, _labelled(said))]

    return Item(name, digest, _on(launcher, program, showings))


def _labelled(said: list[tuple[str, str]]) -> str:
    return "\n".join(
        f"{label}  {line}" for label, text in said for line in text.rstrip("\n").split("\n")
    )


def _outcome(outcome: Outcome, as_declared: bool) -> str:
    if as_declared:
        return DECLARED
    return re.sub(r", after [\d.]+ s$", "", happened(outcome))


def _race(launcher: spmd.Launcher, race: Race) -> Item:
    program = race.program()

    def showings(outcome: Outcome) -> list[Showing]:
        return [Showing(DECLARED, kind) for kind in race.kinds(outcome)]

    digest = recordings.program_digest(program.source + repr(program.files))
    runs = RACE_RUNS[program.shell or program.start]
    run = _on(launcher, program, showings)
    return Item(f"courses/pytorch/museum/ {race.name}", digest, run, runs)


def _program(launcher: spmd.Launcher, path: Path, way: str, pattern: str) -> Item:
    bash = {"shell": "bash", "timeout": 240.0}
    file = path.relative_to(CONTENT).as_posix()
    command = pattern.format(file=file)
    program = Program(command, links=LINKS, **bash)

    def showings(outcome: Outcome) -> list[Showing]:
        rank = outcome.ranks[0]
        said = MEASURED.sub(r"\1(a measured time)", texts.normalise(rank.stdout + rank.stderr))
        return [Showing(_outcome(outcome, outcome.cause == "finished"), said.rstrip())]

    digest = recordings.program_digest(command + path.read_text())
    return Item(f"{file} {way}", digest, _on(launcher, program, showings))


def _exercise(launcher: spmd.Launcher, task: tasks.Task) -> Item:
    text = places.solution(task).read_text()

    def start() -> Callable[[], list[Showing]]:
        heard = _Listening(launcher)
        verdict = grader.start(heard, task, text, (1, 2, 3, 4), deadline=30)
        return lambda: [_graded(task, verdict(), heard)]

    digest = recordings.program_digest(text)
    return Item(f"courses/pytorch/exercises/{task.module}/{task.file}", digest, start)


def _graded(task: tasks.Task, verdict: grader.Verdict, heard: _Listening) -> Showing:
    warnings = {
        line
        for future in heard.futures
        for rank in future.result().ranks
        for line in texts.normalise(rank.stderr).splitlines()
        if "Warning" in line
    }
    ended = DECLARED if verdict.passed else "the solution does not pass"
    return Showing(ended, "\n".join([cli.report(task, verdict), *sorted(warnings)]))


class _Listening:
    """A launcher that keeps what it submits: a verdict does not tell what the ranks warned of."""

    def __init__(self, launcher: spmd.Launcher) -> None:
        self.launcher, self.futures = launcher, []

    def submit(self, program: Program) -> Future[Outcome]:
        self.futures.append(self.launcher.submit(program))
        return self.futures[-1]


def _on(launcher: spmd.Launcher, program: Program, showings: Callable) -> Callable:
    def start() -> Callable[[], list[Showing]]:
        running = launcher.submit(program)
        return lambda: showings(running.result())

    return start


# ---- Running and comparing -----------------------------------------------------------------------


def play(wanted: list[Item], rounds: int) -> dict[str, tuple[Showing, ...]]:
    """Run items, all rounds of all at once; print how far it is; return what each showed."""
    running = {item.name: [item.start() for _ in range(rounds * item.runs)] for item in wanted}
    shown = {}
    with Progress("items", len(running)) as progress:
        for name, runs in running.items():
            progress.start(name)
            shown[name] = recordings.collect(one for run in runs for one in run())
            progress.done(name)
    print(progress.summary(), flush=True)
    return shown


def record(wanted: list[Item], pinned: Edition | None) -> dict[str, ItemRecord]:
    """Run everything; what differs from the pinned recording, if there is one, AGAIN times more."""
    if pinned is None:
        shown = play(wanted, AGAIN)
        return {item.name: ItemRecord(item.program, shown[item.name]) for item in wanted}
    shown = play(wanted, 1)
    again = [item for item in wanted if not _as_pinned(shown[item.name], pinned.items[item.name])]
    print(f"{len(again)} items differ; they run {AGAIN} times more:", flush=True)
    for name, more in play(again, AGAIN).items():
        shown[name] = recordings.collect((*shown[name], *more))
    return {item.name: _seen(item, shown[item.name], pinned.items[item.name]) for item in wanted}


def _as_pinned(showings: tuple[Showing, ...], pinned: ItemRecord) -> bool:
    return recordings.compare(pinned.showings, showings) == recordings.UNCHANGED


def _seen(item: Item, showings: tuple[Showing, ...], pinned: ItemRecord) -> ItemRecord:
    """Keep what is shown only where it differs, or where how often it is shown is the point."""
    if item.runs == 1 and _as_pinned(showings, pinned):
        return ItemRecord(item.program, pinned=recordings.digest(showings))
    return ItemRecord(item.program, showings)


def pinned_edition(wanted: list[Item]) -> Edition:
    """Read the pinned recording. Raises ValueError where it does not hold today's programs."""
    path = recordings.file_of(pinned_torch())
    if not path.exists():
        first = f"nox -s drift -- {pinned_torch()}"
        raise ValueError(f"there is no {path.name} to compare with: {first}")
    pinned = recordings.read(path)
    for item in wanted:
        seen = pinned.items.get(item.name)
        if seen is None or seen.program != item.program:
            what = f"{item.name} has changed since {path.name} was recorded"
            raise ValueError(f"{what}: nox -s drift -- {pinned.version}")
    return pinned


def kept(old: Edition | None, new: Edition, wanted: list[Item]) -> dict[str, ItemRecord]:
    """Return what an older recording holds of today's programs, if it was made of this torch."""
    if old is None or (old.torch, old.python, old.system) != (new.torch, new.python, new.system):
        return {}
    pinned = pinned_edition(wanted) if new.version != pinned_torch() else old
    return {
        item.name: seen
        for item in wanted
        if (seen := old.items.get(item.name)) and seen.program == item.program
        if not seen.pinned or seen.pinned == recordings.digest(pinned.items[item.name].showings)
    }


def existing(version: str) -> Edition | None:
    """Read the recording of a version as it is; None if there is none or it cannot be read."""
    try:
        return recordings.read(recordings.file_of(version))
    except (OSError, ValueError):
        return None


def empty() -> Edition:
    """Return a recording of the installed torch without items."""
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    system = f"{platform.system()}, {os.cpu_count()} cores"
    torch = importlib.metadata.version("torch")
    return Edition(torch, platform.python_version(), system, today, today, {})


def make(fresh: bool) -> Edition:
    """Run what is to be run and return the recording. Raises ValueError, spmd.LauncherError."""
    new = empty()
    with ExitStack() as stack:
        pages = stack.enter_context(spmd.Launcher())
        wanted = list(items(Servers(pages, stack.enter_context(grader.launcher()))))
        pinned = None if new.version == pinned_torch() else pinned_edition(wanted)
        old = None if fresh else existing(new.version)
        have = kept(old, new, wanted)
        print(f"{len(have)} of {len(wanted)} items are recorded already", flush=True)
        ran = record([item for item in wanted if item.name not in have], pinned)
    since = old.since if have else new.since
    date = new.date if ran else old.date
    return dataclasses.replace(new, since=since, date=date, items=have | ran)


def main(arguments: list[str]) -> int:
    """Record the installed torch; return the exit status."""
    if unknown := [word for word in arguments if word != "--fresh"]:
        print(
            f"{unknown[0]!r}: this records the torch that is installed; name versions to nox, as: "
            "nox -s drift -- 2.13.0",
            file=sys.stderr,
        )
        return 2
    print(f"torch {importlib.metadata.version('torch')}", flush=True)
    try:
        done = make("--fresh" in arguments)
    except (ValueError, spmd.LauncherError) as error:
        print(f"nothing was recorded: {error}", file=sys.stderr)
        return 1
    path = recordings.write(done)
    own = done.version == pinned_torch()
    pinned = done if own else recordings.read(recordings.file_of(pinned_torch()))
    print(f"{path.name}: {summary(pinned, done)}")
    return 0


def summary(pinned: Edition, later: Edition) -> str:
    """Return how many items there are of each status."""
    found = [recordings.status(name, pinned, later) for name in later.items]
    kinds = (recordings.UNCHANGED, recordings.VARIES, recordings.DIFFERENT)
    return ", ".join(f"{found.count(kind)} {kind}" for kind in kinds)


if __name__ == "__main__":
    processes.die_with_caller()
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("interrupted: nothing was recorded", file=sys.stderr)
        sys.exit(130)
