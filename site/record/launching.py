"""Plays what the page "Launching" tells on two hosts, and records what they print.

    python -m record.launching [NAME ...]     # of launching_scenarios.py; all without a name

Needs Linux that lets users make namespaces, and nft; no right of root. The recording is
content/courses/pytorch/launching/recording.txt; recording.py tells when it is replaced.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from distlab.spmd import texts
from press.project import COURSE
from record import hosts_world, recording
from record.launching_scenarios import SCENARIOS
from record.recording import SEQUEL, Recording
from record.scenario import Done, Ran, Scenario, checked

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


def sections(scenario: Scenario, log: list[Ran | Done]) -> dict[str, str]:
    """Return the Markdown of a scenario by section: its name, and that of its sequel."""
    if scenario.name.startswith("environment"):
        texts_of = [f"{blocks(log).partition('```text title')[0].strip()}\n\n{table(log)}"]
    else:
        texts_of = [blocks(phase) for phase in phases(log)]
    names = [scenario.name, scenario.name + SEQUEL]
    note = f"*{recording.where()}*"
    return {n: f"{text}\n\n{note}" for n, text in zip(names, texts_of, strict=False)}


def play(name: str) -> dict[str, str]:
    """Play a scenario; return its sections. Raises RuntimeError if it does not do what it says."""
    return sections(SCENARIOS[name], checked(SCENARIOS[name], hosts_world.play(SCENARIOS[name])))


RECORDING = Recording(
    COURSE / "launching/recording.txt", SCENARIOS, play, lambda names: hosts_world.lacking()
)

if __name__ == "__main__":
    recording.command(RECORDING)
