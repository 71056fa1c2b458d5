"""What an answer's text alone tells, before a process is started for it."""

from __future__ import annotations

import ast

from distlab.practice.task import Task

RETIRED = (
    ("_c10d", "it calls the process group behind torch.distributed's back"),
    ("torch.ops", "it calls the process group behind torch.distributed's back"),
    ("torch.distributed.nn", "it brings its own collectives, which are not counted here"),
)


def syntax_problem(text: str) -> str:
    """Return why a text is not Python, with its line, or ""."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except ValueError as error:
        return str(error)
    return ""


def banned(task: Task, text: str) -> tuple[int, str, str] | None:
    """Return (line, name, why) of the first use of what the task shall not be solved with."""
    bans = dict(task.bans)
    for node in ast.walk(ast.parse(text)):
        for name in _names(node):
            last = name.rpartition(".")[2]
            if last in bans:
                return node.lineno, last, bans[last]
            for part, why in RETIRED:
                if part in name:
                    return node.lineno, name, why
    return None


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [ast.unparse(node)]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def catch_all(text: str) -> int:
    """Return the line of the first `except` that catches everything, or 0."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"):
            return node.lineno
    return 0


def constant(text: str, name: str) -> object:
    """Return the value of a module-level constant, or None."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and any(ast.unparse(t) == name for t in node.targets):
            return node.value.value if isinstance(node.value, ast.Constant) else None
    return None
