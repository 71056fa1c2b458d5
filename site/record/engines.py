"""Submits what the page "Engines" tells to Slurm and Ray, and records what they print.

    python -m record.engines [NAME ...]     # scenarios of engines_scenarios.py; all without a name

Slurm needs root and Debian's packages slurmctld, slurmd, slurm-client and munge; Ray needs Linux
that lets users make namespaces. The recording is
content/courses/pytorch/engines/recording.txt; recording.py tells when it is replaced.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from collections.abc import Iterable

from distlab.spmd import texts
from press.project import COURSE
from record import engines_world, launching, recording
from record.engines_scenarios import SCENARIOS
from record.recording import Recording
from record.scenario import Done, Ran, Scenario, checked

COLOUR = re.compile(r"\x1b\[[\d;]*m")
PREFIX = re.compile(r"^(?:\(\w+\) |\d+: )")
VARIES = (
    (re.compile(r"^\((\w+)(?: pid=\d+)?(?:, ip=\S+)?\) ", re.MULTILINE), r"(\1) "),
    (re.compile(r" ?\[repeated .*", re.MULTILINE), ""),
    (re.compile(r"/dev/shm/\w+"), "~"),  # noqa: S108
    (re.compile(r"session_[\d_-]+"), "session_TIME"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{20,}"), "ID"),
    (re.compile(r"(Process \d+: .*\n)Python v.*\n"), r"\1"),
    (re.compile(r"(/\w+)+/bin/(?=python)"), ""),
)
# Ray's remarks on having neither a dashboard nor a way out of its namespace, and its records of an
# actor, of which the page keeps the sentences.
NOISE = re.compile(
    r"^.*Failed to determine local IP.*$|^.*Failed to query Ray Train Controller.*$"
    r"|^.*core_worker\.cc:\d+: Actor with class name.*$|^\(\w+\) \w.*\.\.\.$"
    r"|^(?:\(\w+\) )?(?:[ )]*|Worker info: Worker\(|\.\.\. \(Output truncated.*|e \d+, in \w+)$"
)


def shorten(output: str) -> str:
    """Return what a page shows of an output: launching.shorten, and what only engines print.

    Indented lines stay where there is no traceback: they are a table, or the stacks asked for.
    """
    text = COLOUR.sub("", output)
    for pattern, replacement in VARIES:
        text = pattern.sub(replacement, text)
    if "Traceback" not in text:
        return texts.normalise("\n".join(line for line in text.splitlines() if not _noise(line)))
    lines = [line for line in text.splitlines() if not _noise(line) and not _frame(line)]
    return launching.shorten("\n".join(lines))


def _noise(line: str) -> bool:
    body = PREFIX.sub("", line)
    indented = body[:1].isspace()
    return bool(NOISE.match(line)) or (not indented and bool(launching.NOISE.match(body)))


def _frame(line: str) -> bool:
    return bool(re.match(r"\s|Traceback", PREFIX.sub("", line)))


def block(ran: Ran, zero: float) -> str:
    """Return a command, what it printed and how it ended, as a code block; `zero` is the start."""
    said = "\n".join(map(launching.wrap, shorten(ran.output).splitlines())) or "(nothing)"
    title = f"{ran.step.host}: {launching.ending(ran, ran.began)}"
    return f'```text title="{title}"\n{launching.typed(ran, zero)}\n{said}\n```'


def sections(scenario: Scenario, log: list[Ran | Done]) -> dict[str, str]:
    """Return the Markdown of a scenario: what was done, then every command in its order."""
    done = [launching.typed(entry, entry.began) for entry in log if isinstance(entry, Done)]
    parts = ["```text\n" + "\n".join(done) + "\n```"] if done else []
    parts += [block(entry, log[0].began) for entry in log if isinstance(entry, Ran)]
    cores = "cores" if engines_world.is_ray(scenario) else "cores for both hosts"
    note = recording.where(engine(scenario), cores)
    return {scenario.name: "\n\n".join([*parts, f"*{note}*"])}


def engine(scenario: Scenario) -> str:
    """Return the engine's name and version, and a comma."""
    if engines_world.is_ray(scenario):
        return f"Ray {importlib.metadata.version('ray')}, "
    if engines_world.is_slurm(scenario):
        said = subprocess.run(
            ["slurmctld", "-V"], capture_output=True, text=True, check=True
        ).stdout
        return f"Slurm {said.split()[-1]}, "
    return ""


def play(name: str) -> dict[str, str]:
    """Play a scenario; return its section. Raises RuntimeError if it does not do what it says."""
    return sections(SCENARIOS[name], checked(SCENARIOS[name], engines_world.play(SCENARIOS[name])))


def lacking(names: Iterable[str]) -> str:
    """Return what these scenarios need and this machine lacks, a sentence; "" if nothing."""
    lacks = (engines_world.lacking(SCENARIOS[name]) for name in names)
    return next(filter(None, lacks), "")


RECORDING = Recording(COURSE / "engines/recording.txt", SCENARIOS, play, lacking)

if __name__ == "__main__":
    recording.command(RECORDING)
