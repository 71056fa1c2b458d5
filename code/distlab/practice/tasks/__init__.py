"""The exercises, in their order. Each module has TASKS and, for the ranks, one `run` per task."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from distlab.practice.task import Task

MODULES = (
    "broadcast",
    "ring",
    "tokens",
    "naive_ddp",
    "flat_ddp",
    "overlapped_ddp",
    "accumulation",
    "sampler",
    "powersgd",
    "zero",
    "bugs",
)


def _module(name: str) -> object:
    return importlib.import_module(f"distlab.practice.tasks.m26.{name}")


def everything() -> tuple[Task, ...]:
    """Return all tasks, in order."""
    return tuple(task for name in MODULES for task in _module(name).TASKS)


def find(task_id: str) -> Task:
    """Return the task with this id; KeyError if there is none."""
    return {task.id: task for task in everything()}[task_id]


def cases(task_id: str) -> Callable:
    """Return the function that runs a task's cases on a rank: it is called with a Bench."""
    modules = (_module(name) for name in MODULES)
    return next(m.RUNS[task_id] for m in modules if task_id in m.RUNS)
