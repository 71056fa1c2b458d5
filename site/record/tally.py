"""Runs the museum's programs whose outcome varies, many times, and writes what came of them.

    python -m record.tally [NAME ...]

The recording is content/courses/pytorch/museum/tally.txt; recording.py tells when it is replaced.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections import Counter

from distlab import spmd
from press import modules
from record import recording
from record.race import Race
from record.recording import Recording
from tools import museum


def everyone() -> dict[str, tuple[tuple[str, Race], ...]]:
    """Return the tallies of all modules, each with the variants of its program. Raises ValueError.

    A module's are the RACES in its races.py, if it has any.
    """
    known: dict[str, tuple[tuple[str, Race], ...]] = {}
    for module in modules.everything():
        if not (module.folder / "races.py").exists():
            continue
        own = module.load("races").RACES
        if twice := known.keys() & own.keys():
            raise ValueError(f"{module.folder}/races.py: {min(twice)!r} is the name of another")
        known |= own
    return known


RACES = everyone()


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
