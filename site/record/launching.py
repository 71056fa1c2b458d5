"""Plays what the page "Launching" tells on two hosts, and records what they print.

    python -m record.launching [NAME ...]     # of launching_scenarios.py; all without a name

Needs Linux that lets users make namespaces, and nft; no right of root. Where no two hosts can be
made, all is skipped, which is said, and keeps its old sections. The recording is
content/courses/pytorch/launching/recording.txt, which the page includes; no line of it is written
by hand. A scenario that does not do what it says (`says` and `exit`) is reported and leaves its old
sections; the exit status is 1.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from distlab.spmd import processes, texts
from record import hosts
from record.hosts import Done, Ran, Scenario
from record.launching_scenarios import SCENARIOS

FILE = hosts.FILES / "launching" / "recording.txt"
SECTION = re.compile(
    r"--8<-- \[start:(?P<name>[\w-]+)\]\n(?P<text>.*?)\n--8<-- \[end:(?P=name)\]", re.DOTALL
)
LONGEST = 400  # characters of a line that are shown
WIDTH = 82  # columns of a block on a page

# What every run prints and no reader needs. Stacks go too: what was raised stays.
NOISE = re.compile(
    r"^(?:\[\w+\]: )?(?:\s.*|Traceback .*|frame #.*|<omitting python frames>"
    r"|Exception raised from.*|torch\.distributed\.elastic\S*ChildFailedError: *"
    r"|.*\[Gloo\] Rank.*|.*connected peer ranks is.*|[\d ]*peer ranks\..*|\d*"
    r"|.*run\.py:\d+\] .*|.*The hostname of the client socket cannot be retrieved.*"
    r"|[=-]{20,}|\S+ FAILED|Failures:|Root Cause .*|\[0\]:)$"
)
VARIES = (
    # torch 2.8 prints arbitrary bytes where the address of the other end should stand.
    (re.compile(r"\[fdff:[0-9a-f:]+\]:\d+"), "(garbage)"),
    (re.compile(r"(?<![\d.])(?!10\.66\.0\.|127\.0\.0\.1)\d+(?:\.\d+){3}:\d+"), "(garbage)"),
    (re.compile(r"(\[(?:10\.66\.0\.\d|127\.0\.0\.1|::1)\]:)\d+"), r"\1PORT"),
    (re.compile(r"\$\d+(?=[, .]|$)", re.MULTILINE), ""),
    (re.compile(r"\b(delay=|try=|retry=)\d+"), r"\1N"),
    (re.compile(r"willRetry=\d"), "willRetry=N"),
    (re.compile(r"\b(after )\d+(?= seconds waiting)"), r"\1N"),
    (re.compile(r"(Sending process )\d+"), r"\1PID"),
    (re.compile(r"(node[AB])_\d+_\d+"), r"\1_PID_0"),
    (re.compile(r"/[^\s'\":,()]*/bin/(?=python|torchrun)"), ""),
)


def shorten(output: str) -> str:
    """Return what a page shows of an output: no stacks, each line once with how often it came."""
    text = output
    for pattern, replacement in VARIES:
        text = pattern.sub(replacement, text)
    lines = [line for line in texts.normalise(text).splitlines() if not NOISE.match(line)]
    counted = Counter(line[:LONGEST] + ("…" if len(line) > LONGEST else "") for line in lines)
    return "\n".join(f"{line}  ({n} times)" if n > 1 else line for line, n in counted.items())


# ---- Markdown ------------------------------------------------------------------------------------


def phases(log: Iterable[Ran | Done]) -> list[list[Ran | Done]]:
    """Split a log where something began after all that was started before had ended."""
    parts: list[list[Ran | Done]] = [[]]
    over = 0.0
    for entry in log:
        ran = [e for e in parts[-1] if isinstance(e, Ran)]
        if ran and entry.began >= over:
            parts.append([])
        parts[-1].append(entry)
        if isinstance(entry, Ran):
            over = max(over, entry.began + entry.seconds)
    return parts


def typed(entry: Ran | Done, zero: float) -> str:
    """Return what was typed, with a prompt, and when, unless that was at once."""
    prompt = f"{entry.step.host}{'$' if isinstance(entry, Ran) else '#'} "
    later = entry.began - zero
    when = [f"(after {later:.0f} s:)"] if later >= 1 else []
    lines = [wrap(prompt + line, " \\") for line in entry.step.command.splitlines()]
    return "\n".join(when + lines)


def wrap(line: str, end: str = "") -> str:
    """Break a long line at spaces; `end` marks where, and what follows is indented."""
    parts = textwrap.wrap(
        line,
        WIDTH - len(end),
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{end}\n".join(parts) if len(line) > WIDTH else line


def ending(ran: Ran, zero: float) -> str:
    """Tell how and when a command ended."""
    when = ran.began + ran.seconds - zero
    if ran.exit is None:
        return f"still running after {when:.0f} s"
    return f"exit status {ran.exit} after {when:.0f} s"


def blocks(phase: list[Ran | Done]) -> str:
    """Return one phase as Markdown: what was typed, then what each host printed."""
    zero = phase[0].began
    parts = [_block("", "\n".join(typed(entry, zero) for entry in phase))]
    for ran in (entry for entry in phase if isinstance(entry, Ran)):
        said = "\n".join(map(wrap, shorten(ran.output).splitlines())) or "(nothing)"
        parts.append(_block(f' title="{ran.step.host}: {ending(ran, zero)}"', said))
    return "\n\n".join(parts)


def _block(title: str, text: str) -> str:
    return f"```text{title}\n{text}\n```"


def table(log: list[Ran | Done]) -> str:
    """Return the variables that environment.py printed as a table, a column for each rank."""
    said = "\n".join(ran.output for ran in log if isinstance(ran, Ran))
    ranks = [json.loads(line) for line in re.findall(r"\{\"node\".*?\}", said)]
    ranks.sort(key=lambda rank: int(rank["RANK"]))
    rows = [["variable", *(f"rank {rank['RANK']}" for rank in ranks)]]
    rows += [[":--"] * len(rows[0]), ["(host)", *(rank["node"] for rank in ranks)]]
    for name in (name for name in ranks[0] if name != "node"):
        rows.append([f"`{name}`", *(f"`{_fixed(name, rank.get(name))}`" for rank in ranks)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _fixed(name: str, value: str | None) -> str:
    if name == "TORCHELASTIC_ERROR_FILE" and value:
        return f"…/{Path(value).parent.name}/…"
    if name == "MASTER_PORT" and value != "29500":
        return "PORT"
    return value or "-"


def where(engine: str = "", cores: str = "cores for both hosts") -> str:
    """Return the sentence that says when and with what a recording was made."""
    today = datetime.datetime.now(datetime.UTC)
    kernel = re.match(r"[\d.]+", platform.release())[0]
    return (
        f"Recorded on {today.day} {today:%B %Y} with {engine}"
        f"torch {importlib.metadata.version('torch')}, Python {platform.python_version()}, "
        f"{platform.system()} {kernel}, {os.cpu_count()} {cores}."
    )


def sections(scenario: Scenario, log: list[Ran | Done]) -> dict[str, str]:
    """Return the Markdown of a scenario by section: its name, and name-fixed if it has a sequel."""
    if scenario.name.startswith("environment"):
        texts_of = [f"{blocks(log).partition('```text title')[0].strip()}\n\n{table(log)}"]
    else:
        texts_of = [blocks(phase) for phase in phases(log)]
    names = [scenario.name, f"{scenario.name}-fixed"]
    note = f"*{where()}*"
    return {n: f"{text}\n\n{note}" for n, text in zip(names, texts_of, strict=False)}


# ---- The file ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recording:
    """What is recorded: scenarios by name, why one cannot be played, how, how shown, and where."""

    scenarios: Mapping[str, Scenario]
    why_not: Callable[[Scenario], str]
    play: Callable[[Scenario], list[Ran | Done]]
    sections: Callable[[Scenario, list[Ran | Done]], dict[str, str]]
    file: Path


def two_hosts() -> Recording:
    """Return the recording of the page "Launching"."""

    def why_not(_: Scenario) -> str:
        return hosts.why_not()

    return Recording(SCENARIOS, why_not, hosts.play, sections, FILE)


def recorded(of: Recording | None = None) -> dict[str, str]:
    """Return the sections of a recording as it is."""
    file = (of or two_hosts()).file
    text = file.read_text("utf-8") if file.exists() else ""
    return {match["name"]: match["text"] for match in SECTION.finditer(text)}


def write(found: dict[str, str], of: Recording | None = None) -> None:
    """Write a recording, in the order of the scenarios; a reader sees the old or the new one."""
    of = of or two_hosts()
    order = [name for one in of.scenarios for name in (one, f"{one}-fixed") if name in found]
    marked = [f"--8<-- [start:{n}]\n{found[n]}\n--8<-- [end:{n}]" for n in order]
    part = of.file.with_suffix(".part")
    try:
        part.write_text("\n\n".join(marked) + "\n", "utf-8")
        part.replace(of.file)
    finally:
        part.unlink(missing_ok=True)


def record(names: Iterable[str], of: Recording | None = None) -> list[str]:
    """Play scenarios, replace their sections, return the faults."""
    of, found = of or two_hosts(), []
    for name in names:
        print(f"{name} ...", flush=True)
        try:
            log = of.play(of.scenarios[name])
        except RuntimeError as error:
            found.append(str(error))
            continue
        wrong = hosts.faults(of.scenarios[name], log)
        found += wrong
        if not wrong:
            write(recorded(of) | of.sections(of.scenarios[name], log), of)
    return found


def main(arguments: list[str], of: Recording | None = None) -> int:
    """Record the named scenarios, or all that can be played here; return the exit status."""
    of = of or two_hosts()
    if unknown := [name for name in arguments if name not in of.scenarios]:
        known = ", ".join(of.scenarios)
        print(f"{unknown[0]!r} is no scenario; known are {known}", file=sys.stderr)
        return 2
    names = arguments or list(of.scenarios)
    skipped = {name: why for name in names if (why := of.why_not(of.scenarios[name]))}
    wrong = record([name for name in names if name not in skipped], of)
    for name, why in skipped.items():
        print(f"{name} SKIPPED: {why}", file=sys.stderr)
    for fault in wrong:
        print(fault, file=sys.stderr)
    count = len(recorded(of))
    print(f"{of.file.name}: {count} sections; {len(wrong)} faults, {len(skipped)} skipped")
    return int(bool(wrong))


def command(of: Recording) -> NoReturn:
    """Be the command that makes a recording."""
    processes.die_with_caller()
    try:
        sys.exit(main(sys.argv[1:], of))
    except KeyboardInterrupt:
        print("interrupted: what was recorded before stays", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    command(two_hosts())
