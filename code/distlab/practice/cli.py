"""The command line of the exercises: list, check, watch, hint, reset, solution.

A task is named as its module's learners name it, "4"; by its file; or in full, "26/4".

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
from distlab.practice.places import Notebook
from distlab.practice.task import Task

COMMAND = "python -m distlab.practice"

NAMES = "a task's number, as 2 or 11.3; where several modules have it, MODULE/2; or a module"

SEVERAL = f"""Where several modules have exercises, reset all gives each a sub-folder of its number;
{tasks.ONLY}=NUMBER in the environment offers those of one module only, as its zip does."""

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
        _offered()
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
    about = "Exercises graded with real ranks."
    parser = argparse.ArgumentParser(COMMAND, description=about, epilog=SEVERAL)
    parser.add_argument("--folder", type=Path, help="where the exercises are (default: here)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable, text: str, task: str = "") -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        if task:
            nargs = None if task == "one" else task
            sub.add_argument("task", metavar="TASK", nargs=nargs, help=NAMES)
        return sub

    add("list", show_list, "show the tasks and your progress")
    add("check", check, "check a task; without one, all in order up to the first that fails", "?")
    add("watch", watch, "check a task whenever its file is saved, until Ctrl-C", "?")
    add("hint", hint, "show the next of three hints", "one")
    add("reset", reset, "bring back the untouched file of a task, of a module's, or `all`", "one")
    show = add("solution", solution, "show a solution, after asking", "one")
    show.add_argument("--yes", action="store_true", help="do not ask")
    return parser


# Finding things


def _offered() -> None:
    """Raise BadInput if the environment asks for a module that has no exercises here."""
    only = os.environ.get(tasks.ONLY)
    if only and not tasks.has_tasks(only):
        known = ", ".join(tasks.all_modules())
        raise BadInput(f"{tasks.ONLY}={only}: the modules with exercises are {known}")


def _folder(options: argparse.Namespace) -> Path:
    given = options.folder or Path()
    folder = places.exercises_in(given)
    if folder is None:
        first = places.answer(Path(), tasks.everything()[0])
        raise BadInput(
            f"no exercises in {given.resolve()}: go to the folder that holds {first}, or "
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
    """Return the tasks that a name means.

    "2", "02", "02_ring_all_reduce.py" and "11.3" mean one, "11" its parts; "26/2" that of a module,
    "26" all of it. Raises BadInput for a name that is none, or that of tasks of several modules.
    """
    module = Path(name).parent.name
    known = [task for task in tasks.everything() if module in ("", ".", "exercises", task.module)]
    named = _named(known, Path(name).name) or [task for task in known if task.module == name]
    if not named:
        raise BadInput(f"there is no task {name!r}: {_known(name)} See: {COMMAND} list")
    if len({task.module for task in named}) > 1:
        each = ", ".join(task.full_id for task in named)
        raise BadInput(f"{name!r} is a task of several modules: write one of {each}")
    return named


def _named(known: list[Task], name: str) -> list[Task]:
    bare = name.removesuffix(".py")
    wanted = bare.lstrip("0")
    meant = [task for task in known if wanted == task.id or bare == task.stem]
    return meant or [task for task in known if wanted and task.id.startswith(f"{wanted}.")]


def _known(name: str) -> str:
    """Say which tasks there are, and which name is nearest."""
    first, *_, last = map(tasks.spelling, tasks.everything())
    stems = [task.stem for task in tasks.everything()]
    near = difflib.get_close_matches(Path(name).name, stems, 1, cutoff=0.4)
    return f"tasks are {first} to {last}" + (f". Did you mean {near[0]}?" if near else ".")


def _one_task(name: str) -> Task:
    named = _tasks(name)
    if len(named) > 1:
        each = ", ".join(map(tasks.spelling, named))
        raise BadInput(f"{name!r} means {len(named)} tasks: {each}")
    return named[0]


def _text(folder: Path, task: Task) -> str:
    path = places.answer(folder, task)
    if not path.is_file():
        again = f"{COMMAND} reset {tasks.spelling(task)}"
        raise BadInput(f"{path} is not there: bring it back with\n  {again}")
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
    states = {task: _state(folder, task) for task in tasks.everything()}
    for task, state in states.items():
        file = places.answer(Path(), task)
        print(f"{MARKS[state]} {tasks.spelling(task):>4}  {task.title}  ({file})")
    passed = sum(state == "passed" for state in states.values())
    print(f"\n{passed} of {len(states)} passed. [x] passed, [~] changed since, [.] begun.")
    following = next((task for task, state in states.items() if state != "passed"), None)
    if following:
        then = f"{COMMAND} check {tasks.spelling(following)}"
        print(f"Next: edit {places.answer(folder, following)}, then {then}")
    return 0


def _state(folder: Path, task: Task) -> str:
    return Notebook.load(folder, task).state(task)


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
    if verdict.passed:
        progress = Notebook.load(folder, task)
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
        print(f"Next: {following.label} ({places.answer(folder, following)})", flush=True)


def _unfinished(folder: Path, wanted: list[Task]) -> Task | None:
    return next((task for task in wanted if _state(folder, task) != "passed"), None)


def _stamps(folder: Path, wanted: list[Task]) -> dict[Task, int]:
    def stamp(path: Path) -> int:
        try:
            return path.stat().st_mtime_ns
        except OSError:
            return 0  # an editor may be between removing the old file and naming the new one

    return {task: stamp(places.answer(folder, task)) for task in wanted}


def hint(options: argparse.Namespace) -> int:
    """Print the hints that were shown before, and one more."""
    folder, task = _folder(options), _one_task(options.task)
    progress, name = Notebook.load(folder, task), tasks.spelling(task)
    shown = min(progress.hints.get(task.id, 0) + 1, len(task.hints))
    for number, text in enumerate(task.hints[:shown], 1):
        print(f"hint {number} of {len(task.hints)}: {text}")
    if shown < len(task.hints):
        print(f"Asking again shows one more: {COMMAND} hint {name}")
    else:
        print(f"That was the last. A solution: {COMMAND} solution {name}")
    progress.hints[task.id] = shown
    progress.save()
    return 0


def reset(options: argparse.Namespace) -> int:
    """Write the untouched file again; keep what was there beside it."""
    name, given = options.task, options.folder or Path()
    wanted = list(tasks.everything()) if name == "all" else _tasks(name)
    if name == "all" or name in tasks.modules():  # these fill an empty folder, too
        if not given.is_dir():
            raise BadInput(f"{given} is not a folder: make it first, then reset again")
        folder = places.exercises_in(given) or given
    else:
        folder = _folder(options)
    for task in wanted:
        if places.answer(folder, task).resolve() == places.original(task).resolve():
            raise BadInput(
                f"{folder} holds the originals themselves: work on a copy, in a folder of your "
                f"own, which this fills:\n  {COMMAND} reset all"
            )
    for task in wanted:
        _restore(folder, task)
    files = f"{len(wanted)} files are" if wanted[1:] else f"{wanted[0].file} is"
    print(f"{files} in {folder.resolve().name}/ as at the beginning")
    return 0


def _restore(folder: Path, task: Task) -> None:
    """Write the original of a task; say under which name another text was kept; forget progress."""
    path, original = places.answer(folder, task), places.original(task).read_bytes()
    path.parent.mkdir(exist_ok=True)
    if path.is_file() and path.read_bytes() != original:
        kept = path.with_suffix(".py.bak")
        path.replace(kept)
        print(f"{path}: reset; your text is in {kept.name}")
    path.write_bytes(original)
    progress = Notebook.load(folder, task)
    progress.passed.pop(task.id, None)
    progress.hints.pop(task.id, None)
    progress.save()


def solution(options: argparse.Namespace) -> int:
    """Show a solution once the learner has said yes."""
    task = _one_task(options.task)
    if not options.yes and not _sure(task):
        print("Not shown.")
        return 1
    print(places.solution(task).read_text(), end="")
    return 0


def _sure(task: Task) -> bool:
    if not sys.stdin.isatty():
        raise BadInput(
            f"there is no terminal to ask on: solution {tasks.spelling(task)} --yes does not ask"
        )
    question = f"Show the solution of {task.label}? A hint may be enough. [y/N] "
    return input(question).strip().lower() in ("y", "yes")
