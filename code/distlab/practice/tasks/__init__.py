"""The exercises: a package for each module of the course, as `m26`, discovered, never listed.

A task's full id names both, "26/4"; its own is enough where no other module has it. Each Python
file of a package has TASKS and, for the ranks, RUNS: one function per task, called with a Bench.
What such files share, and imports torch, is named in the package's SHARED.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from distlab.practice.task import Task

HERE = Path(__file__).parent
ONLY = "PRACTICE_MODULE"
"""The environment variable that narrows everything to one module, as its zip does: "26"."""


def modules() -> tuple[str, ...]:
    """Return the numbers of the modules that have tasks, in order; only the one that ONLY names."""
    return (os.environ[ONLY],) if os.environ.get(ONLY) else all_modules()


@functools.cache
def all_modules() -> tuple[str, ...]:
    """Return the numbers of all modules that have tasks, in order."""
    names = (path.parent.name for path in HERE.glob("m*/__init__.py"))
    numbers = [name.removeprefix("m") for name in names if re.fullmatch(r"m\d+[a-z]?", name)]
    return tuple(sorted(numbers, key=_order))


def has_tasks(module: str) -> bool:
    """Tell whether a module has tasks, without a look at any other module."""
    return (HERE / f"m{module}/__init__.py").is_file()


@functools.cache
def _package(module: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.m{module}")


def _order(number: str) -> tuple[tuple[int, str], ...]:
    """Order "2" before "11.1" and "11.1" before "11.8", "27" before "27a"."""
    return tuple((int(digits), rest) for digits, rest in re.findall(r"(\d+)([a-z]?)", number))


@functools.cache
def _files(module: str) -> tuple[ModuleType, ...]:
    """Import the files of a module's package that hold tasks: none of them imports torch."""
    package = _package(module)
    names = sorted(path.stem for path in (HERE / f"m{module}").glob("*.py"))
    own = [name for name in names if name not in ("__init__", *_shared(package))]
    return tuple(importlib.import_module(f"{package.__name__}.{name}") for name in own)


def _shared(package: ModuleType) -> tuple[str, ...]:
    return getattr(package, "SHARED", ())


def shared() -> tuple[str, ...]:
    """Return the names of what tasks share: the fork server imports it once for all checks."""
    return tuple(
        f"{package.__name__}.{name}"
        for package in map(_package, modules())
        for name in _shared(package)
    )


@functools.cache
def of(module: str) -> tuple[Task, ...]:
    """Return the tasks of a module, in the order of their numbers. Raises ImportError without."""
    found = [replace(task, module=module) for file in _files(module) for task in file.TASKS]
    return tuple(sorted(found, key=lambda task: _order(task.id)))


def everything() -> tuple[Task, ...]:
    """Return all tasks, in order."""
    return tuple(task for module in modules() for task in of(module))


def spelling(task: Task) -> str:
    """Return the shortest id that means this task alone: "4", or "26/4"."""
    alike = [other for other in everything() if other.id == task.id]
    return task.full_id if alike[1:] else task.id


def find(name: str) -> Task:
    """Return the task with this id, full or, where one module has it, short. Raises KeyError."""
    module, given, number = name.rpartition("/")
    known = of(module) if given else everything()
    found = [task for task in known if task.id == number]
    if len(found) != 1:
        raise KeyError(name)
    return found[0]


def cases(task: Task) -> Callable:
    """Return the function that runs a task's cases on a rank: it is called with a Bench."""
    return next(file.RUNS[task.id] for file in _files(task.module) if task.id in file.RUNS)
