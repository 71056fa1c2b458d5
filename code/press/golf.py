"""Golf in the programs that pages show: learners read them, so they have one statement a line.

`python -m press.golf [PAGE ...]` prints what it finds on the given pages, or on all:

    content/x.md:12 (fence ring): two statements in a line
        | x += 1; y += 1
        -> give each statement a line of its own
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from press import scan
from press.fences import PYTHON, SHELLS, Problem
from press.project import CONTENT

HEREDOC = re.compile(
    r"^[^\n]*(?:\.py\b|\bpython\b)[^\n]*<<-?[ ]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[^\n]*\n"
    r"(?P<code>.*?)^(?P=end)$",
    re.MULTILINE | re.DOTALL,
)
STATEMENTS = {
    ast.Tuple: ("a tuple stands as a statement", "give each of its parts a line of its own"),
    ast.BoolOp: ("`and` or `or` stands as a statement", "write `if …:` and a line below it"),
    ast.IfExp: ("a conditional stands as a statement", "write `if …:` and `else:`"),
    ast.ListComp: ("a list is made to run something", "write a `for` loop"),
    ast.SetComp: ("a set is made to run something", "write a `for` loop"),
    ast.DictComp: ("a dict is made to run something", "write a `for` loop"),
}


@dataclass(frozen=True)
class Golf:
    """One place of a program: its line from 1, what stands there, what to write instead."""

    line: int
    what: str
    instead: str


def found(code: str) -> list[Golf]:
    """Return the golf in a program, by line; none in what is no Python, as an excerpt."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    lines = code.encode().split(b"\n")
    golf = [each for node in ast.walk(tree) for each in _of(node, lines)]
    return sorted(dict.fromkeys(golf), key=lambda each: each.line)


def _of(node: ast.AST, lines: list[bytes]) -> Iterator[Golf]:
    if isinstance(node, ast.stmt) and lines[node.lineno - 1][: node.col_offset].strip():
        instead = "give each statement a line of its own"
        yield Golf(node.lineno, "two statements in a line", instead)
    if isinstance(node, ast.Import) and len(node.names) > 1:
        yield Golf(node.lineno, "two modules in an import", "write an `import` line for each")
    if isinstance(node, ast.Expr) and (told := STATEMENTS.get(type(node.value))):
        yield Golf(node.lineno, *told)
    if isinstance(node, (ast.Expr, ast.Tuple)):
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                instead = "assign the name on a line before"
                yield Golf(inner.lineno, "`:=` within a statement or a tuple", instead)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Tuple) and _runs(node):
        instead = "write a function with a line for each step"
        yield Golf(node.lineno, "a tuple is indexed to run its parts", instead)


def _runs(node: ast.Subscript) -> bool:
    """Tell whether one fixed part of a tuple is taken, so that the others only run."""
    fixed = isinstance(node.slice, (ast.Constant, ast.UnaryOp))
    return fixed and any(isinstance(each, ast.Call) for each in ast.walk(node.value))


def programs(page: scan.Scan) -> Iterator[tuple[str, int, str, str]]:
    """Yield the Python of a page: its file, the line above it, the fence's id or "", the text."""
    for block in (*page.fences, *page.blocks):
        file, _, number = block.at.rpartition(":")
        identity = getattr(block, "id", "")
        if block.code is None:
            continue
        if block.language in PYTHON:
            yield file, int(number), identity, block.code
        elif block.language in SHELLS:
            for match in HEREDOC.finditer(block.code):
                above = block.code[: match.start("code")].count("\n")
                yield file, int(number) + above, identity, match["code"]


def problems(page: scan.Scan) -> list[Problem]:
    """Return the golf of a page, each with its place, its line and what to write instead."""
    return [
        Problem(
            f"{file}:{above + golf.line}",
            golf.what,
            identity,
            tail=code.split("\n")[golf.line - 1].strip(),
            todo=golf.instead,
        )
        for file, above, identity, code in programs(page)
        for golf in found(code)
    ]


def main(names: list[str]) -> int:
    """Print the golf of the pages whose names end with one of `names`, or of all."""
    ends = tuple(Path(name).as_posix() for name in names) or ("",)
    total = 0
    for name, page in scan.pages(CONTENT).items():
        listed = problems(page) if name.endswith(ends) else []
        total += len(listed)
        for problem in listed:
            print(problem)
    print(f"{total} places")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
