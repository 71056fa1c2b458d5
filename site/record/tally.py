"""Runs the museum's programs whose outcome varies, many times, and writes what came of them.

    python -m record.tally [NAME ...]

The recording is content/courses/pytorch/museum/tally.txt; recording.py tells when it is replaced.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from distlab import spmd
from distlab.spmd import Outcome, Program
from record import recording
from record.recording import Recording
from tools import museum


@dataclass(frozen=True)
class Race:
    """A program to run many times.

    name:   the title of its code block, or the id of a fence that shows its fixed version
    kinds:  tells what came of one run, in the words of the page: one entry a run, or one a rank
    runs:   how many times
    column: what the entries are counted in
    files:  titles of other code blocks, to lay beside the program under their titles
    ranks, timeout, start: as in spmd.Program
    """

    name: str
    kinds: Callable[[Outcome], list[str]]
    ranks: int = 1
    timeout: float = 10.0
    start: str = "fork"
    runs: int = 24
    column: str = "Runs"
    files: tuple[str, ...] = ()

    def program(self) -> Program:
        """Return the program as the page shows it."""
        language, code = museum.shown_program(self.name)
        return Program(
            code,
            ranks=self.ranks,
            timeout=self.timeout,
            start=self.start,
            shell="bash" if language == "bash" else "",
            files=tuple((name, museum.shown_program(name)[1]) for name in self.files),
            waits=self.start == "fork" and language == "python",
        )


def means(outcome: Outcome) -> list[str]:
    """Tell whether a division came too early, from the ranks' printed means."""
    if outcome.cause != "finished":
        return ["an error or a hang"]
    found = [re.findall(r"[\d.]+", rank.stdout.partition("mean")[2]) for rank in outcome.ranks]
    values = {float(number) for numbers in found for number in numbers}
    return ["right: 3 everywhere" if values == {3.0} else "no error, some elements are not 3"]


def sums(outcome: Outcome) -> list[str]:
    """Tell which ranks' values met in the two groups."""
    if outcome.cause != "finished":
        return ["a hang" if outcome.cause == "deadline" else "an error about a closed connection"]
    found = [int(re.search(r"sum (\d+)", rank.stdout)[1]) for rank in outcome.ranks]
    right = found == [1001, 110, 110, 1001]
    return ["right: 1001 and 110" if right else "no error, sums of the wrong ranks"]


def exits(outcome: Outcome) -> list[str]:
    """Tell how each process ended after its result."""
    return [
        f"{'result printed' if 'result' in rank.stdout else 'no result'}, exit status {rank.exit}"
        for rank in outcome.ranks
    ]


def restarts(outcome: Outcome) -> list[str]:
    """Tell whether torchrun's second attempt came up, and if not, with which error."""
    rank = outcome.ranks[0]
    if "attempt 1 is up" in rank.stdout:
        return ["attempt 1 came up"]
    error = re.search(r"connectFullMesh failed|EADDRINUSE|Timed out|timed out", rank.stderr)
    return [f"attempt 1 did not: {error[0] if error else 'another error'}"]


FRESH = {"ranks": 2, "start": "fresh", "timeout": 120.0, "runs": 12, "column": "Processes"}
SHELL = {"timeout": 300.0, "runs": 12}
RACES: dict[str, tuple[tuple[str, Race], ...]] = {
    "async": (("as shown", Race("async_race.py", means, ranks=2)),),
    "own-groups": (("as shown", Race("own_groups.py", sums, ranks=4, timeout=4.0)),),
    "no-destroy": (
        ("as shown", Race("no_destroy.py", exits, **FRESH)),
        ("all waited for, still no destroy", Race("no_destroy_waited.py", exits, **FRESH)),
        ("fixed", Race("no-destroy-fixed", exits, **FRESH)),
    ),
    "restart": (
        ("as shown", Race("restart.sh", restarts, **SHELL)),
        ("fixed", Race("restart_fixed.sh", restarts, files=("restart.sh",), **SHELL)),
    ),
}
"""For each tally the variants of its program, with their names in the table."""


def run(race: Race, launcher: spmd.Launcher) -> Counter[str]:
    """Run a program many times and count what came of it."""
    futures = [launcher.submit(race.program()) for _ in range(race.runs)]
    return Counter(kind for future in futures for kind in race.kinds(future.result()))


def table(tallies: list[tuple[str, Race, Counter[str]]]) -> str:
    """Return one tally as a Markdown table, with its date."""
    rows = [
        f"| {variant} | {kind} | {count} of {tally.total()} |"
        for variant, _, tally in tallies
        for kind, count in tally.most_common()
    ]
    head = [f"| Program | What came of it | {tallies[0][1].column} |", "|:--|:--|--:|"]
    measured = (
        f"Run on {datetime.datetime.now(datetime.UTC):%d %B %Y} with torch "
        f"{importlib.metadata.version('torch')} on {platform.system()}, {os.cpu_count()} cores; "
        "another machine, or another day, gives other shares."
    )
    return "\n".join([*head, *rows, "", measured])


def tally(name: str) -> dict[str, str]:
    """Run all variants of a program many times; return the section."""
    with spmd.Launcher() as launcher:
        return {name: table([(label, race, run(race, launcher)) for label, race in RACES[name]])}


RECORDING = Recording(museum.FOLDER / "tally.txt", RACES, tally)

if __name__ == "__main__":
    recording.command(RECORDING)
