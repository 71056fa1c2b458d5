"""What is played and what came of it, as data: a scenario, its steps, its log.

A world plays it (hosts, engines_world); this knows no process.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Start:
    """Start a command on a host.

    says: patterns that its output must have
    exit: its exit status, or None if it must still run when the scenario stops waiting for it
    """

    host: str
    command: str
    says: tuple[str, ...] = ()
    exit: int | None = 0


@dataclass(frozen=True)
class Admin:
    """Do what an administrator does on a host: pull the cable, set a firewall rule."""

    host: str
    command: str


@dataclass(frozen=True)
class Until:
    """Wait until the last command of a host has printed a text or ended, at most so long."""

    host: str
    text: str
    seconds: float = 60


@dataclass(frozen=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Finish:
    """Wait until all commands have ended, at most so many seconds; then end them."""

    seconds: float = 90


Step = Start | Admin | Until | Pause | Finish


@dataclass(frozen=True)
class Scenario:
    """What happens on the two hosts; `names`: whether they know each other's (and their own)."""

    name: str
    steps: tuple[Step, ...]
    names: bool = True


def pack(scenario: Scenario) -> str:
    """Return a scenario as JSON."""
    steps = [[type(step).__name__, asdict(step)] for step in scenario.steps]
    return json.dumps({"name": scenario.name, "names": scenario.names, "steps": steps})


def unpack(text: str) -> Scenario:
    """Return the scenario that was packed."""
    data = json.loads(text)
    kinds = {kind.__name__: kind for kind in (Start, Admin, Until, Pause, Finish)}
    steps = [kinds[kind](**values) for kind, values in data["steps"]]
    return Scenario(data["name"], tuple(steps), data["names"])


def scenario(name: str, *steps: Step | list[Step], names: bool = True) -> Scenario:
    """Make a scenario of steps and lists of steps."""
    flat = [s for part in steps for s in (part if isinstance(part, list) else [part])]
    return Scenario(name, tuple(flat), names)


@dataclass(frozen=True)
class Ran:
    """What came of a Start: `exit` is None if it had to be ended; `began` and `seconds` in s."""

    step: Start
    output: str
    exit: int | None
    began: float
    seconds: float


@dataclass(frozen=True)
class Done:
    """An Admin step, and when it was done."""

    step: Admin
    began: float


def faults(scenario: Scenario, log: list[Ran | Done]) -> list[str]:
    """Return where what came of a scenario differs from what it says must come of it."""
    wrong = []
    for ran in (entry for entry in log if isinstance(entry, Ran)):
        where = f"{scenario.name}, {ran.step.host}"
        if ran.exit != ran.step.exit:
            wrong.append(f"{where}: exit status {ran.exit}, not {ran.step.exit}")
        wrong += [
            f"{where}: no line matches {text!r}"
            for text in ran.step.says
            if not re.search(text, ran.output, re.MULTILINE)
        ]
    if len(log) != sum(isinstance(step, Start | Admin) for step in scenario.steps):
        wrong.append(f"{scenario.name}: {len(log)} entries do not match its steps")
    return wrong


def checked(scenario: Scenario, log: list[Ran | Done]) -> list[Ran | Done]:
    """Return a log that is as its scenario says; raise RuntimeError with the faults of another."""
    if wrong := faults(scenario, log):
        raise RuntimeError("\n".join(wrong))
    return log
