"""The command line of the exercises: list, check, watch, hint, reset, solution.

Exit status: 0 done or passed, 1 an answer does not pass, 2 bad input, 3 the grader itself failed.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from distlab import spmd
from distlab.practice import grader, places, tasks
from distlab.practice.grader import Verdict
from distlab.practice.places import Progress
from distlab.practice.task import Task

COMMAND = "python -m distlab.practice"

MARKS = {"passed": "[x]", "changed": "[~]", "begun": "[.]", "open": "[ ]", "missing": "[?]"}

LOOK = 0.1
"""Seconds between two looks at the files under `watch`."""

TOO_LONG = 1 << 20
"""Bytes of an exercise file that nobody wrote by hand."""


class BadInput(Exception):  # noqa: N818
    """What was asked cannot be done; the text gives the value, the rule and the next step."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit status."""
    try:
        options = _parser().parse_args(arguments)
        return options.command(options)
    except BadInput as problem:
        print(f"practice: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print()
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader of our output has left
        return 141
    except (spmd.LauncherError, OSError) as error:
        print(f"practice: the grader could not work here: {error}", file=sys.stderr)
        return 3
    except Exception as error:  # a traceback of ours would be taken for one of the answer's
        what = f"{type(error).__name__}: {error}"
        print(f"practice: the grader itself failed, please report it: {what}", file=sys.stderr)
        return 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(COMMAND, description="Exercises graded with real ranks.")
    parser.add_argument("--folder", type=Path, help="where the exercises are (default: here)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable, text: str, task: str = "") -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        if task:
            nargs = None if task == "one" else task
            sub.add_argument("task", metavar="TASK", nargs=nargs, help="1 to 11, or 11.1 to 11.8")
        return sub

    add("list", show_list, "show the tasks and your progress")
    add("check", check, "check a task; without one, all in order up to the first that fails", "?")
    add("watch", watch, "check a task whenever its file is saved, until Ctrl-C", "?")
    add("hint", hint, "show the next of three hints", "one")
    add("reset", reset, "bring back the untouched file of a task, or of `all`", "one")
    show = add("solution", solution, "show a solution, after asking", "one")
    show.add_argument("--yes", action="store_true", help="do not ask")
    return parser


# Finding things


def _folder(options: argparse.Namespace) -> Path:
    given = options.folder or Path()
    folder = places.exercises_in(given)
    if folder is None:
        raise BadInput(
            f"no exercises in {given.resolve()}: go to the folder that holds 01_broadcast.py, or "
            f"write fresh ones here with\n  {COMMAND} reset all"
        )
    return folder


def _folder_and_torch(options: argparse.Namespace) -> Path:
    folder = _folder(options)
    if importlib.util.find_spec("torch") is None:
        raise BadInput(
            f"{sys.executable} has no torch, which the ranks run on: install it with\n"
            "  python -m pip install torch==2.8.0"
        )
    return folder


def _tasks(name: str) -> list[Task]:
    """Return the tasks that a name means: "2", "02", "02_ring_all_reduce.py", "11", "11.3"."""
    known = tasks.everything()
    bare = Path(name).name.removesuffix(".py")
    wanted = bare.lstrip("0")
    found = [task for task in known if wanted == task.id or bare == task.stem]
    found = found or [task for task in known if wanted and task.id.startswith(f"{wanted}.")]
    if not found:
        near = difflib.get_close_matches(name, [task.stem for task in known], 1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        ids = f"{known[0].id} to {known[-1].id}"
        raise BadInput(f"there is no task {name!r}: tasks are {ids}.{hint} See: {COMMAND} list")
    return found


def _one_task(name: str) -> Task:
    found = _tasks(name)
    if len(found) > 1:
        raise BadInput(f"{name!r} means {len(found)} tasks: {', '.join(t.id for t in found)}")
    return found[0]


def _text(folder: Path, task: Task) -> str:
    path = folder / task.file
    if not path.is_file():
        raise BadInput(f"{path} is not there: bring it back with\n  {COMMAND} reset {task.id}")
    data = path.read_bytes()
    if len(data) > TOO_LONG:
        raise BadInput(f"{path} has {len(data):,} bytes: an answer has fewer than {TOO_LONG:,}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None


# Commands


def show_list(options: argparse.Namespace) -> int:
    """Print the tasks, a line each, and how many are passed."""
    folder = _folder(options)
    progress = Progress.load(folder)
    states = {task: progress.state(task) for task in tasks.everything()}
    for task, state in states.items():
        print(f"{MARKS[state]} {task.id:>4}  {task.title}  ({task.file})")
    passed = sum(state == "passed" for state in states.values())
    print(f"\n{passed} of {len(states)} passed. [x] passed, [~] changed since, [.] begun.")
    following = next((task for task, state in states.items() if state != "passed"), None)
    if following:
        print(f"Next: edit {folder / following.file}, then {COMMAND} check {following.id}")
    return 0


def check(options: argparse.Namespace) -> int:
    """Check one task, or all in order up to the first that fails."""
    folder = _folder_and_torch(options)
    wanted = _tasks(options.task) if options.task is not None else tasks.everything()
    texts = [(task, _text(folder, task)) for task in wanted]
    with grader.launcher() as launcher:
        for task, text in texts:
            verdict = _check(launcher, folder, task, text)
            if not verdict.passed:
                return 3 if verdict.kind == "internal" else 1
    return 0


def _check(launcher: spmd.Launcher, folder: Path, task: Task, text: str) -> Verdict:
    verdict = grader.check(launcher, task, text)
    progress = Progress.load(folder)
    if verdict.passed:
        progress.passed[task.id] = places.fingerprint(text)
        progress.save()
    print(report(task, verdict), flush=True)
    return verdict


def report(task: Task, verdict: Verdict) -> str:
    """Return a verdict as text for a terminal."""
    if verdict.passed:
        return f"{task.id} {task.title}: {verdict.headline}"
    lines = [f"{task.id} {task.title}: {verdict.headline}"]
    width = max((len(label) for label, _ in verdict.details), default=0)
    for label, text in verdict.details:
        lines.append(f"  {label:<{width}}  {text}")
    if verdict.printed:
        lines.append("  your code printed:")
        for label, text in verdict.printed:
            lines += [f"    [{label}] {line}" for line in text.splitlines()[-5:]]
    if verdict.think:
        lines.append(f"  Think about: {verdict.think}")
    return "\n".join(lines)


def watch(options: argparse.Namespace) -> int:
    """Check a task now and whenever a file changes; one fork server serves all checks."""
    folder = _folder_and_torch(options)
    wanted = list(tasks.everything()) if options.task is None else _tasks(options.task)
    print(f"Watching {folder}: save a file to check it; Ctrl-C ends.", flush=True)
    with grader.launcher() as launcher:
        try:
            seen: dict[Task, int] = {}
            current = _unfinished(folder, wanted)
            if current:
                _look(launcher, folder, current)
            seen = _stamps(folder, wanted)
            while True:
                time.sleep(LOOK)
                now = _stamps(folder, wanted)
                for task in (t for t in wanted if now[t] != seen[t] and now[t]):
                    _look(launcher, folder, task)
                seen = now
        except KeyboardInterrupt:
            print()
            return 0


def _look(launcher: spmd.Launcher, folder: Path, task: Task) -> None:
    try:
        verdict = _check(launcher, folder, task, _text(folder, task))
    except BadInput as problem:
        print(problem, flush=True)
        return
    following = _unfinished(folder, list(tasks.everything()))
    if verdict.passed and following:
        print(f"Next: {following.label} ({folder / following.file})", flush=True)


def _unfinished(folder: Path, wanted: list[Task]) -> Task | None:
    progress = Progress.load(folder)
    return next((task for task in wanted if progress.state(task) != "passed"), None)


def _stamps(folder: Path, wanted: list[Task]) -> dict[Task, int]:
    def stamp(path: Path) -> int:
        try:
            return path.stat().st_mtime_ns
        except OSError:
            return 0  # an editor may be between removing the old file and naming the new one

    return {task: stamp(folder / task.file) for task in wanted}


def hint(options: argparse.Namespace) -> int:
    """Print the hints that were shown before, and one more."""
    folder, task = _folder(options), _one_task(options.task)
    progress = Progress.load(folder)
    shown = min(progress.hints.get(task.id, 0) + 1, len(task.hints))
    for number, text in enumerate(task.hints[:shown], 1):
        print(f"hint {number} of {len(task.hints)}: {text}")
    if shown < len(task.hints):
        print(f"Asking again shows one more: {COMMAND} hint {task.id}")
    else:
        print(f"That was the last. A solution: {COMMAND} solution {task.id}")
    progress.hints[task.id] = shown
    progress.save()
    return 0


def reset(options: argparse.Namespace) -> int:
    """Write the untouched file again; keep what was there beside it."""
    name = options.task
    given = options.folder or Path()
    if name == "all":
        if not given.is_dir():
            raise BadInput(f"{given} is not a folder: make it first, then reset again")
        folder, wanted = places.exercises_in(given) or given, tasks.everything()
    else:
        folder, wanted = _folder(options), _tasks(name)
    if folder.resolve() == places.shipped("originals").resolve():
        raise BadInput(
            f"{folder} holds the originals themselves: work on a copy, in a folder of your own, "
            f"which this fills:\n  {COMMAND} reset all"
        )
    progress = Progress.load(folder)
    for task in wanted:
        kept = _restore(folder, task)
        if kept:
            print(f"{folder / task.file}: reset; your text is in {kept}")
        progress.passed.pop(task.id, None)
        progress.hints.pop(task.id, None)
    progress.save()
    files = f"{len(wanted)} files are" if wanted[1:] else f"{wanted[0].file} is"
    print(f"{files} in {folder.resolve().name}/ as at the beginning")
    return 0


def _restore(folder: Path, task: Task) -> str:
    """Write the original of a task; return the name under which another text was kept, or ""."""
    path, original = folder / task.file, (places.shipped("originals") / task.file).read_bytes()
    kept = path.with_suffix(".py.bak")
    changed = path.is_file() and path.read_bytes() != original
    if changed:
        path.replace(kept)
    path.write_bytes(original)
    return kept.name if changed else ""


def solution(options: argparse.Namespace) -> int:
    """Show a solution once the learner has said yes."""
    task = _one_task(options.task)
    if not options.yes and not _sure(task):
        print("Not shown.")
        return 1
    print((places.shipped("solutions") / task.file).read_text(), end="")
    return 0


def _sure(task: Task) -> bool:
    if not sys.stdin.isatty():
        raise BadInput(f"there is no terminal to ask on: solution {task.id} --yes does not ask")
    question = f"Show the solution of {task.label}? A hint may be enough. [y/N] "
    return input(question).strip().lower() in ("y", "yes")
