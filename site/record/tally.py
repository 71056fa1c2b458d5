"""Runs the museum's programs whose outcome varies, many times, and writes what came of them.

    python -m record.tally [NAME ...]

The result is content/courses/pytorch/museum/tally.txt, which the pages include; no line of it is
written by hand. With names, as `own-groups`, only these sections are made anew.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import sys
from collections import Counter

from distlab import spmd
from press import modules
from record.race import Race
from tools import museum

FILE = museum.FOLDER / "tally.txt"
SECTION = re.compile(r"--8<-- \[start:(?P<name>[\w-]+)\]\n.*?--8<-- \[end:(?P=name)\]", re.DOTALL)


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


def section(name: str, tallies: list[tuple[str, Race, Counter[str]]]) -> str:
    """Return one tally as a Markdown table between the marks of a snippet."""
    rows = [
        f"| {variant} | {kind} | {count} of {tally.total()} |"
        for variant, _, tally in tallies
        for kind, count in tally.most_common()
    ]
    table = [f"| Program | What came of it | {tallies[0][1].column} |", "|:--|:--|--:|", *rows]
    measured = (
        f"Run on {datetime.datetime.now(datetime.UTC):%d %B %Y} with torch "
        f"{importlib.metadata.version('torch')} on {platform.system()}, {os.cpu_count()} cores; "
        "another machine, or another day, gives other shares."
    )
    lines = [f"--8<-- [start:{name}]", *table, "", measured, f"--8<-- [end:{name}]"]
    return "\n".join(lines)


def recorded() -> dict[str, str]:
    """Return the sections of the file as it is, by name."""
    text = FILE.read_text() if FILE.exists() else ""
    return {match["name"]: match[0] for match in SECTION.finditer(text)}


def write(sections: dict[str, str]) -> None:
    """Write the file, in the order of RACES; a reader sees the old one or the new one."""
    part = FILE.with_suffix(".part")
    part.write_text("\n\n".join(sections[name] for name in RACES if name in sections) + "\n")
    part.replace(FILE)


def main(arguments: list[str]) -> int:
    """Run the named races, or all, write the tally and return the exit status."""
    if unknown := [name for name in arguments if name not in RACES]:
        print(f"{unknown[0]!r} is no race; known are {', '.join(RACES)}", file=sys.stderr)
        return 2
    with spmd.Launcher() as launcher:
        for name in arguments or RACES:
            tallies = [(label, race, run(race, launcher)) for label, race in RACES[name]]
            text = section(name, tallies)
            write(recorded() | {name: text})
            print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
