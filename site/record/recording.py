"""A recording: a file of sections that a command makes by playing them, and that pages include.

    --8<-- [start:NAME]
    what was recorded
    --8<-- [end:NAME]

No line of it is written by hand. Without names a command plays everything and then replaces the
file in one step, if all went as it must; with names it replaces these sections, each if it did.
Else the faults are told, the exit status is 1, and the file, or the section, is as it was.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from distlab.spmd import processes
from press.progress import Progress

SECTION = re.compile(
    r"--8<-- \[start:(?P<name>[\w-]+)\]\n(?P<text>.*?)\n--8<-- \[end:(?P=name)\]", re.DOTALL
)
SEQUEL = "-fixed"
"""What is added to a name for the second section that playing it may give."""


def _lacks_nothing(names: Iterable[str]) -> str:
    return ""


@dataclass(frozen=True)
class Recording:
    """A file of sections, and how each is made.

    names:   what can be played, in the order of the file
    play:    plays one of them and returns its sections by name; raises RuntimeError, a fault a line
    lacking: says in a sentence what these names need and this machine lacks, and how to get it
    """

    file: Path
    names: Collection[str]
    play: Callable[[str], dict[str, str]]
    lacking: Callable[[Iterable[str]], str] = _lacks_nothing

    def sections(self) -> dict[str, str]:
        """Return the sections as they are recorded, by name."""
        text = self.file.read_text("utf-8") if self.file.exists() else ""
        return {match["name"]: match["text"] for match in SECTION.finditer(text)}

    def write(self, sections: dict[str, str]) -> None:
        """Replace the file, in the order of the names; a reader sees the old or the new one."""
        order = [n for name in self.names for n in (name, name + SEQUEL) if n in sections]
        marked = [f"--8<-- [start:{n}]\n{sections[n]}\n--8<-- [end:{n}]" for n in order]
        part = self.file.with_suffix(".part")
        try:
            part.write_text("\n\n".join(marked) + "\n", "utf-8")
            part.replace(self.file)
        finally:
            part.unlink(missing_ok=True)

    def replace(self, name: str, sections: dict[str, str]) -> None:
        """Replace what playing one name gave before by what it gave now."""
        before = self.sections()
        kept = {n: text for n, text in before.items() if n not in {name, name + SEQUEL}}
        self.write(kept | sections)


def where(engine: str = "", cores: str = "cores for both hosts") -> str:
    """Return the sentence that says when and with what a recording was made."""
    today = datetime.datetime.now(datetime.UTC)
    kernel = re.match(r"[\d.]+", platform.release())[0]
    return (
        f"Recorded on {today.day} {today:%B %Y} with {engine}"
        f"torch {importlib.metadata.version('torch')}, Python {platform.python_version()}, "
        f"{platform.system()} {kernel}, {os.cpu_count()} {cores}."
    )


# ---- The command ---------------------------------------------------------------------------------


def played(of: Recording, names: Collection[str], faults: list[str]) -> Iterator[tuple[str, dict]]:
    """Play names one by one, tell how long each took, yield each with its sections, note faults."""
    with Progress("scenarios", len(names)) as progress:
        for name in names:
            progress.start(name)
            try:
                sections = of.play(name)
            except RuntimeError as error:
                faults += str(error).splitlines()
                print(f"{name} is FAULTY", flush=True)
                continue
            finally:
                progress.done(name)
            yield name, sections
    print(progress.summary(), flush=True)


def record_all(of: Recording) -> list[str]:
    """Play everything, then replace the file if nothing was wrong; return the faults."""
    faults: list[str] = []
    whole = {n: text for _, part in played(of, of.names, faults) for n, text in part.items()}
    if not faults:
        of.write(whole)
    return faults


def record(of: Recording, names: Collection[str]) -> list[str]:
    """Play names, replace the sections of each that went as it must; return the faults."""
    faults: list[str] = []
    for name, sections in played(of, names, faults):
        of.replace(name, sections)
    return faults


def main(arguments: list[str], of: Recording) -> int:
    """Record the named, or all; return the exit status."""
    if unknown := [name for name in arguments if name not in of.names]:
        known = ", ".join(of.names)
        print(f"{unknown[0]!r} cannot be recorded; known are {known}", file=sys.stderr)
        return 2
    if lack := of.lacking(arguments or of.names):
        print(f"{of.file.name} stays as it is: {lack}", file=sys.stderr)
        return 1
    faults = record(of, arguments) if arguments else record_all(of)
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        stays = "what was faulty stays as it was" if arguments else "the whole file stays as it was"
        print(f"{of.file.name}: {len(faults)} faults, so {stays}", file=sys.stderr)
    else:
        print(f"{of.file.name}: recorded, {len(of.sections())} sections")
    return int(bool(faults))


def command(of: Recording) -> NoReturn:
    """Be the command that makes a recording."""
    processes.die_with_caller()
    try:
        sys.exit(main(sys.argv[1:], of))
    except KeyboardInterrupt:
        print("interrupted: no section that was not whole has been recorded", file=sys.stderr)
        sys.exit(130)
