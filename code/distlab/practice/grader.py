"""Run an answer on 2, 3 and 4 ranks and turn what came of it into a verdict.

The ranks compare values and count bytes (see bench); here their reports are put together with how
their processes ended, and the cause is told from its consequences: the earliest case that failed,
and in it an error of its own before a connection that a dead peer closed.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable

from distlab import spmd
from distlab.practice import explain, reading, tasks
from distlab.practice.task import Task
from distlab.practice.verdict import RankReport, Trial, Verdict
from distlab.spmd import texts
from distlab.spmd.program import DEFAULT_START

WORLDS = (2, 3, 4)
DEADLINE = 10.0 if DEFAULT_START == "fork" else 60.0
"""Seconds that ranks have for all cases of a task; solutions need one, or the time of an import of
torch and one where ranks are not forked."""

PROGRAM = "from distlab.practice import bench\nbench.main({task!r}, {token!r})\n"


PRELOAD = (
    "torch.distributed",
    "torch.nn.parallel",
    "torch.utils.data",
    "distlab.practice.bench",
)
"""What the fork server imports, beside what tasks share: without torch._dynamo (see dynamo.py) it
starts in a third."""


def launcher() -> spmd.Launcher:
    """Start the fork server that checks need; close it, or use it as a context manager."""
    return spmd.Launcher(preload=(*PRELOAD, *tasks.shared()))


def check(
    launcher: spmd.Launcher,
    task: Task,
    text: str,
    worlds: tuple[int, ...] = WORLDS,
    deadline: float = DEADLINE,
) -> Verdict:
    """Judge an answer's text. Raises spmd.LauncherError only, if the machine fails us."""
    return start(launcher, task, text, worlds, deadline)()


def start(
    launcher: spmd.Launcher,
    task: Task,
    text: str,
    worlds: tuple[int, ...] = WORLDS,
    deadline: float = DEADLINE,
) -> Callable[[], Verdict]:
    """Start to judge an answer's text; calling what is returned waits for the verdict."""
    refused = read(task, text)
    if refused:
        return lambda: refused
    runs = []
    for world in worlds:
        token = secrets.token_hex(8)
        runs.append((token, launcher.submit(_program(task, text, token, world, deadline))))
    return lambda: _summary(
        worlds, [judge(trial(task, text, token, run.result())) for token, run in runs]
    )


def _summary(worlds: tuple[int, ...], verdicts: list[Verdict]) -> Verdict:
    seconds = max(verdict.seconds for verdict in verdicts)
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if failed:
        return failed[0]
    ranks = ", ".join(map(str, worlds[:-1])) + f" and {worlds[-1]}" if worlds[1:] else worlds[0]
    return Verdict(True, "passed", f"passed on {ranks} ranks", seconds=seconds)


def _program(task: Task, text: str, token: str, world: int, deadline: float) -> spmd.Program:
    return spmd.Program(
        PROGRAM.format(task=task.full_id, token=token),
        ranks=world,
        timeout=deadline,
        name="practice.py",
        files=((task.file, text),),
    )


def read(task: Task, text: str) -> Verdict | None:
    """Return the verdict that an answer's text alone calls for, if any."""
    problem = reading.syntax_problem(text)
    if problem:
        think = "Python could not read the file, so nothing was run."
        return Verdict(False, "syntax", f"{task.file}, {problem}", think=think)
    found = reading.banned(task, text)
    if found:
        line, name, why = found
        where = f"{task.file}, line {line} uses {name}: {why}"
        return Verdict(False, "library", where, think="Write that part yourself: it is the task.")
    if task.answer:
        return explain.diagnosis(task, reading.constant(text, "DIAGNOSIS"))
    return None


def trial(task: Task, text: str, token: str, outcome: spmd.Outcome) -> Trial:
    """Sort what the ranks wrote into reports and prints."""
    ranks = tuple(_report(rank, token) for rank in outcome.ranks)
    return Trial(task, text, outcome.cause, outcome.seconds, ranks, outcome.left_behind)


def _report(outcome: spmd.RankOutcome, token: str) -> RankReport:
    events, printed = [], []
    for line in outcome.stdout.splitlines():
        if line.startswith(token):
            events.append(json.loads(line.removeprefix(token)))
        else:
            printed.append(line)
    text = texts.normalise("\n".join(printed))
    kept = "\n".join(line for line in text.splitlines() if line.strip())
    return RankReport(outcome, tuple(events), kept)


def judge(run: Trial) -> Verdict:
    """Return the verdict on one run."""
    if all(rank.done for rank in run.ranks) and not run.left_behind:
        return Verdict(True, "passed", f"passed on {len(run.ranks)} ranks", seconds=run.seconds)
    kind, headline, details, think = explain.finding(run)
    line = reading.catch_all(run.text)
    if line and kind not in ("stub", "library", "process"):
        think += f" Your `except` on line {line} catches everything and may hide the reason."
    printed = tuple(texts.fold([rank.printed[-400:] for rank in run.ranks]))
    return Verdict(False, kind, headline, details, think.strip(), printed, run.seconds)
