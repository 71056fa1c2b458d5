"""One run in flight: its ranks, its deadline, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from distlab.spmd import processes, rank, reads, shell, torchrun
from distlab.spmd.program import RUNNER, Outcome, Program, RankOutcome

GRACE = 3.0
"""Seconds that peers have to end by themselves after a rank has failed."""

STACKS = 2.0
"""Seconds that ranks have to write their stacks before they are killed; most need a millisecond."""

TICK = 0.02
"""Seconds between two looks at a run that is ending."""

LOOK = 0.25
"""Seconds between two looks at how much a run has written."""

FLOOD = 4 << 20
"""Bytes that a rank may write to one descriptor before its run is ended."""

PATIENCE = 10.0
"""How many times longer a busy machine may let everything take."""

PEER_GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""What the error of a rank says that only heard of another's end."""


@dataclass
class Member:
    """A rank of the run: its process and, once it has ended, how and when."""

    place: rank.Place
    pid: int = 0
    exit: int | None = None
    killed: bool = False
    seconds: float = 0.0
    cpu: float = 0.0

    @property
    def alive(self) -> bool:
        """Whether the process has not been reaped."""
        return self.exit is None

    def failed_at(self, begun: float) -> float:
        """Return when it raised; without an exception, when it ended (monotonic seconds).

        begun: when the ranks were started
        """
        raised = _text(self.place.file("raised"))
        return float(raised) if raised else begun + self.seconds

    def is_echo(self) -> bool:
        """Tell whether its error is no more than a peer's closed connection."""
        _, _, error = _text(self.place.file("stderr")).rpartition("Traceback (most recent call")
        return any(words in error for words in PEER_GONE)


class Run:
    """Moves a run from "running" over "asked" (for stacks) and "killed" to its outcome."""

    def __init__(self, program: Program, folder: Path, port: int) -> None:
        """Create the run's folder and everything in it that its ranks will read."""
        self.program, self.folder, self.port = program, folder, port
        self.report = folder / "read"
        self.id = folder.name
        self.phase, self.cause = "running", "finished"
        self.members = [Member(self._place(r)) for r in range(program.ranks)]
        self._lay_out()
        self.begun = time.monotonic()
        self._allow(program.timeout)

    def _allow(self, seconds: float) -> None:
        """Give the current phase so many seconds from now, and more while the machine is busy."""
        self.since, self.limit = time.monotonic(), seconds

    def _left(self) -> float:
        """Return the seconds that the current phase has left; 0 or less if it is over."""
        return self.since + self.limit * slowness() - time.monotonic()

    def _place(self, index: int) -> rank.Place:
        env = {rank.RUN_ID: str(self.folder), "TMPDIR": str(self.folder / "tmp")}
        if not self.program.shell:
            world_size = self.program.ranks
            env |= torchrun.environment(index, world_size, self.port, f"fence-{self.id}")
        env |= dict(self.program.env)
        if self.program.watch:
            path = env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
            env |= reads.environment(str(self.report), self.program.watch, path)
        return rank.Place(self.folder, index, self.program.name, env)

    def _lay_out(self) -> None:
        work = self.folder / "work"
        work.mkdir(parents=True)
        (self.folder / "tmp").mkdir()
        for name, path in self.program.links:
            (work / name).symlink_to(path)
        for name, text in (*self.program.files, (self.program.name, self.program.source)):
            (work / name).write_text(text)
        if self.program.watch:
            self.report.touch()
        if self.program.start == "fresh":
            for member in self.members:
                place = member.place
                data = {"folder": str(place.folder), "rank": place.rank, "name": place.name}
                place.file("place").write_text(json.dumps(data))

    def places(self) -> list[rank.Place]:
        """Return the places to fork a rank for, in rank order."""
        return [member.place for member in self.members]

    def pids(self) -> list[int]:
        """Return the process ids of the ranks that have been started and not reaped."""
        return [member.pid for member in self.members if member.pid and member.alive]

    def owns(self, pid: int) -> bool:
        """Tell whether an adopted process was started by a rank of this run."""
        return processes.carries(pid, self.folder, f"{rank.RUN_ID}={self.folder}")

    def started(self, index: int, pid: int) -> None:
        """Note the process of a rank."""
        self.members[index].pid = pid

    def ended(self, pid: int, exit_status: int, cpu: float = 0.0) -> None:
        """Note that a process has been reaped; one that is no rank of this run is ignored."""
        member = next((m for m in self.members if m.pid == pid and m.alive), None)
        if member is None:
            return
        member.exit, member.cpu = exit_status, cpu
        member.seconds = time.monotonic() - self.begun
        member.killed = self.phase != "running" and exit_status == -signal.SIGKILL
        if self.phase == "running" and self._failed(member) and self.cause == "finished":
            self.cause = "failed"
            self._allow(min(self._left(), GRACE))

    def _failed(self, member: Member) -> bool:
        if self.program.shell:
            return member.exit != 0
        return member.exit != 0 or not member.place.file("end").exists()

    def _first_failed(self) -> int | None:
        """Return the rank to blame: who only tells of another's death did not die first."""
        if self.cause != "failed":
            return None
        failed = [member for member in self.members if self._failed(member)]
        return min(
            failed, key=lambda m: (m.killed, m.is_echo(), m.failed_at(self.begun))
        ).place.rank

    def patience(self) -> float:
        """Return the seconds until this run wants to be looked at again."""
        limit = LOOK if self.phase == "running" else TICK
        return max(0.0, min(limit, self._left()))

    def over(self) -> bool:
        """Tell whether every rank has been reaped, or cannot be."""
        return not self.pids() or (self.phase == "killed" and self._left() <= 0)

    def advance(self) -> None:
        """Do what the clock asks for: end the run at its deadline or flood, ask, kill."""
        if self.phase == "running":
            if self._left() <= 0:
                self._ask_for_stacks("deadline" if self.cause == "finished" else self.cause)
            elif self._flooded():
                self._ask_for_stacks("flood")
        elif self.phase == "asked" and (self._left() <= 0 or self.answered()):
            self.kill()

    def _flooded(self) -> bool:
        files = (m.place.file(kind) for m in self.members for kind in ("stdout", "stderr"))
        return any(path.exists() and path.stat().st_size > FLOOD for path in files)

    def _ask_for_stacks(self, cause: str) -> None:
        self.phase, self.cause = "asked", cause
        self._allow(STACKS)
        if self.program.shell:
            self.kill()  # a shell would die of the signal; it has no Python stack to show
        for pid in self.pids():
            processes.send(pid, signal.SIGUSR1)

    def answered(self) -> bool:
        """Tell whether every rank that lives has written its stack to the end."""
        alive = [m.place.file("stack") for m in self.members if m.alive]
        return all(path.exists() and path.read_text().endswith(rank.STACK_ENDS) for path in alive)

    def kill(self) -> None:
        """Kill every rank, what is in its session, and what it started in another."""
        self.phase = "killed"
        self._allow(2)
        for pid in self.pids():  # else the last could still tell that the first has gone
            processes.send(pid, signal.SIGSTOP)
        for pid in self.pids():
            processes.kill_tree(pid)
            processes.send(pid, signal.SIGKILL, group=True)

    def ended_by_itself(self) -> bool:
        """Tell whether no rank had to be killed."""
        return self.phase == "running"

    def outcome(self, left_behind: tuple[str, ...]) -> Outcome:
        """Read what the ranks wrote and return the run as plain data."""
        for member in self.members:  # what a rank left in its own session ends with it
            processes.send(member.pid, signal.SIGKILL, group=True)
        ranks = tuple(self._rank_outcome(member) for member in self.members)
        seconds = max(time.monotonic() - self.begun, 0.0)
        return Outcome(
            self.cause, round(seconds, 3), ranks, self._first_failed(), left_behind, self._read()
        )

    def _read(self) -> tuple[str, ...]:
        """Return what was read below the watched folder, as far as it is not the runner's own."""
        if not self.program.watch:
            return ()
        root = Path(self.program.watch).resolve()
        read = set(os.fsdecode(self.report.read_bytes()).split("\0")) - {""}
        if self.program.shell:
            read |= shell.named(self.program.source, self.folder / "work", root)
        own = {path.relative_to(root).as_posix() for path in RUNNER if path.is_relative_to(root)}
        return tuple(sorted(read - own))

    def _rank_outcome(self, member: Member) -> RankOutcome:
        place = member.place
        finished = place.file("end").exists()
        if self.program.shell:
            finished = member.exit == 0
        return RankOutcome(
            rank=place.rank,
            exit=member.exit,
            finished=finished,
            killed=member.killed,
            stdout=_text(place.file("stdout")),
            stderr=_text(place.file("stderr")),
            stack=_text(place.file("stack")),
            seconds=round(member.seconds, 3),
            cpu=round(member.cpu, 3),
        )


def slowness() -> float:
    """Return how many times longer things take here now: 1, more where processes queue for cores.

    A run that is healthy needs more of the clock on a busy machine, and a deadline only protects
    against one that never ends.
    """
    queue = os.getloadavg()[0] / (2 * (os.cpu_count() or 1))
    return min(PATIENCE, max(1.0, queue))


def _text(path: Path) -> str:
    """Return a rank's file; of a flood, its beginning and its end."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        data = file.read(FLOOD)
        rest = os.fstat(file.fileno()).st_size - len(data)
        if rest > 0:
            file.seek(-min(rest, 4096), os.SEEK_END)
            data = data[:4096] + f"\n[... {rest} bytes more ...]\n".encode() + file.read()
    return data.decode(errors="replace").replace("\r\n", "\n")
