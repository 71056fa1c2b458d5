"""What is run and what came of it: plain data that crosses the socket to the server as JSON."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

MAX_RANKS = 16
"""The most ranks that one program may have: more would show a laptop's scheduler at work."""

START_METHODS = ("fork", "fresh")

# Forking a process that has loaded macOS' frameworks is unsafe, so new interpreters are used there.
DEFAULT_START = "fresh" if sys.platform == "darwin" else "fork"


RUNNER = (
    Path(__file__).parents[1] / "__init__.py",
    *(
        Path(__file__).parent / f"{module}.py"
        for module in ("__init__", "launcher", "processes", "program", "rank", "reads", "run",
                       "server", "shell", "stores", "torchrun")
    ),
)  # fmt: skip
"""The files of distlab that the fork server has imported: every outcome depends on them."""


@dataclass(frozen=True)
class Program:
    """A program and how to run it.

    source:  the text of the program: Python, or a script for the shell that `shell` names
    ranks:   how many processes run it (1 for a shell script)
    timeout: seconds from the start of the ranks to their deadline
    start:   "fork" (from a server that has imported torch) or "fresh" (new interpreters)
    shell:   "" for Python, else the shell's name, as "bash"
    name:    the file name that tracebacks show
    env:     pairs added to the environment of every rank
    files:   pairs (name, text) laid into the working folder before the ranks start
    links:   pairs (name, path) of symbolic links laid into the working folder
    waits:   mostly sleeps, so it may run beside programs that compute
    watch:   a folder: the outcome tells which files below it were read; "" asks for nothing
    """

    source: str
    ranks: int = 1
    timeout: float = 60.0
    start: str = DEFAULT_START
    shell: str = ""
    name: str = "fence.py"
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    waits: bool = False
    watch: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be run: ValueError with the value and the rule."""
        if not 1 <= self.ranks <= MAX_RANKS:
            raise ValueError(f"ranks={self.ranks}: a program runs on 1 to {MAX_RANKS} ranks")
        if not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout}: a deadline lies at more than 0 seconds")
        if self.start not in START_METHODS:
            raise ValueError(f"start={self.start!r} is not one of {', '.join(START_METHODS)}")
        if self.shell and self.ranks != 1:
            raise ValueError(f"ranks={self.ranks}: a shell script runs once; start ranks inside it")

    def to_json(self) -> dict:
        """Return plain data for the socket."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> Program:
        """Rebuild what `to_json` returned."""
        pairs = {key: tuple(map(tuple, data[key])) for key in ("env", "files", "links")}
        return cls(**{**data, **pairs})


@dataclass(frozen=True)
class RankOutcome:
    """What one rank did.

    exit:     the exit status; negative for a signal; None if it could not be reaped
    finished: the program ran off its end (never true after SystemExit or os._exit)
    killed:   it was still running when the run was ended
    stdout, stderr: all that was written to file descriptors 1 and 2, by it and its children
    stack:    where it stood when it was killed or crashed, as faulthandler wrote it
    seconds:  from the start of the ranks to its end
    cpu:      seconds of processor time, with the children that it has waited for
    """

    rank: int
    exit: int | None
    finished: bool
    killed: bool
    stdout: str
    stderr: str
    stack: str
    seconds: float
    cpu: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What came of one run.

    cause:        why the run ended: "finished" (all ranks ended by themselves with status 0),
                  "failed" (a rank did not), "deadline", or "flood" (more output than is kept)
    first_failed: the rank that failed first, or None
    left_behind:  command lines of processes that the program left running (they were killed)
    read:         what was read below Program.watch, as paths relative to it, RUNNER left out: files
                  (one that was asked for and is not there is among them) and, with a "/" at their
                  end, folders that were listed
    """

    cause: str
    seconds: float
    ranks: tuple[RankOutcome, ...]
    first_failed: int | None = None
    left_behind: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    def to_json(self) -> dict:
        """Return plain data for a cache or a socket."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> Outcome:
        """Rebuild what `to_json` returned."""
        ranks = tuple(RankOutcome(**rank) for rank in data["ranks"])
        lists = {key: tuple(data.get(key, ())) for key in ("left_behind", "read")}
        return cls(**{**data, "ranks": ranks, **lists})
